"""The folder of a server's files. It is for its owner alone, because it holds users' messages and the journal's key."""

import logging
import os
import stat
from pathlib import Path

from agent_core.errors import StoreError
from agent_core.sessions.journal.anchor import ANCHOR_FILE
from agent_core.sessions.journal.key import KEY_FILE
from agent_core.sessions.sql.database_file import DATABASE, LOCK

logger = logging.getLogger(__name__)

FILES = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", f"{DATABASE}-journal", LOCK, KEY_FILE, ANCHOR_FILE)
"""The server's own files. Other files in the folder are left as they are."""

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def close_to_others(data_dir: Path) -> None:
    """Make sure that only the owner can open the folder and our files in it.

    A file that others can open is closed to them, and that is logged. A folder that is not there yet is left to whoever
    makes it.

    Raises StoreError if such a file belongs to another user, or cannot be closed. It does so before anything in the
    folder is opened.
    """
    _close(data_dir, 0o700, "The data directory")  # first, so that nobody can replace a file in it meanwhile
    for name in FILES:
        _close(data_dir / name, 0o600, "The file")


def _close(path: Path, mode: int, what: str) -> None:
    try:
        found = path.stat()
        if not found.st_mode & OTHERS:
            return
        was = f"{stat.S_IMODE(found.st_mode):o}"
        if found.st_uid != os.geteuid():
            raise StoreError(
                f"{what} {path} is open to others (mode {was}) and belongs to another user than the server's:"
                f" close it (chmod {mode:o}) or choose another folder (OSTINATO_DATA_DIR)."
            )
        path.chmod(mode)
        if path.stat().st_mode & OTHERS:
            raise StoreError(
                f"{what} {path} is open to others (mode {was}) and its file system does not let it be closed:"
                f" choose another folder (OSTINATO_DATA_DIR)."
            )
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{what} {path} cannot be used ({error.strerror}).") from error
    known = "; whoever has read it could forge the journal" if path.name == KEY_FILE else ""
    logger.warning("%s was open to others (mode %s); it is its owner's alone now (mode %o)%s", path, was, mode, known)
