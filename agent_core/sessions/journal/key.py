"""The journal's key: a text in the settings, or a file in the data directory."""

import hashlib
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

KEY_FILE = "journal.key"

SHORTEST_KEY = 16
"""Characters that a key's text must have at least."""

SIZE = 32
"""Bytes of a key."""


def read_key(data_dir: Path, given: str | None, *, create: bool = True) -> bytes:
    """The journal's key, from the given text, else from the file in the data directory.

    With `create` a missing file is made. The key is on disk when this returns, because entries that were sealed with a
    lost key cannot be verified. Raises ValueError with one sentence that does not hold the key.
    """
    text = (given or "").strip()
    if text:
        if len(text) < SHORTEST_KEY:
            raise ValueError(f"OSTINATO_JOURNAL_KEY: a key has at least {SHORTEST_KEY} characters.")
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    path = data_dir / KEY_FILE
    try:
        if create and not path.exists():
            _make_key(path)
        return _read_file(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file; is OSTINATO_JOURNAL_KEY missing?") from None
    except OSError:
        raise ValueError(f"{path}: the journal's key cannot be read or written.") from None


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
            raise ValueError(f"{path}: others can read the journal's key; allow its owner alone (chmod 600).")
        key = file.read(SIZE + 1)
    if len(key) != SIZE:
        raise ValueError(f"{path}: a journal's key has {SIZE} bytes, this file has not.")
    return key


def _make_key(path: Path) -> None:
    """Write a new key, unless another process was first. The file appears whole or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(file, "wb") as out:
            out.write(secrets.token_bytes(SIZE))
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(draft, path)  # unlike a rename, it never replaces a file
        except FileExistsError:
            pass
    finally:
        draft.unlink()
    _sync(path.parent)
    with suppress(OSError):  # the directory may be new too; the one above it may be closed to us
        _sync(path.parent.parent)


def _sync(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
