"""The journal's anchor: the last entry of each session, in a file outside the database."""

import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from agent_core.sessions.journal.anchor_file import SLOT, STRIDE, identity_in, is_at, open_file, write_identity

logger = logging.getLogger(__name__)

ANCHOR_FILE = "journal.anchor"

_CHUNK = 1024 * STRIDE
_CLOSED = -1


class Anchor:
    """A sparse file with the database's identity, and a slot for each row id: its session's last number and mac.

    The anchor is written after the commit and never synced. So it may lag behind the database but is never ahead of
    it: a session that is longer than its slot says is valid, a shorter one is not. Any thread may use it, and other
    processes may write to the same file.

    Raises OSError if the file cannot be opened, ValueError if it is no anchor.
    """

    def __init__(self, path: Path, *, write: bool = True) -> None:
        self._path = path
        self._write = write
        self._said: set[str] = set()
        self._lock = Lock()
        self._file = open_file(path, write=write)
        self._identity = identity_in(self._file)

    @property
    def identity(self) -> bytes:
        """The identity of the anchor's database. Empty if it is not known: earlier versions did not write it."""
        return self._identity

    def adopt(self, identity: bytes) -> None:
        """Bind the anchor to this database. If the file cannot be written, that holds for this process only."""
        with self._lock:
            self._identity = identity
            try:
                write_identity(self._file, identity)
            except OSError as exc:
                self._complain_of(exc)

    def note(self, row: int, seq: int, tip: bytes, *, since: int | None = None) -> None:
        """Note that the session has come to `seq`, with this mac. A slot never goes back.

        `since` is the head before this append. A slot that is ahead of it was written for entries that the database
        has lost. That slot stays, because it is the only proof.

        If the file was removed or replaced, the anchor goes on in the file that is there now, or in a new one. If it
        cannot be written, the append stands all the same. Each of these is logged once.
        """
        with self._lock:
            try:
                self._follow()
                before, _ = self._slot(row)
                if since is not None and before > since:
                    if seq > before:
                        self._complain("the journal's anchor is ahead of the database; see `ostinato sessions verify`")
                elif seq > before:
                    os.pwrite(self._file, SLOT.pack(seq, tip), row * STRIDE)
            except OSError as exc:
                self._complain_of(exc)

    def read(self, row: int) -> tuple[int, bytes] | None:
        """The last number and mac that were noted for the session, or None."""
        with self._lock:
            seq, tip = self._slot(row)
        return (seq, tip) if seq else None

    def refresh(self) -> bool:
        """Go over to the file that is at the path now. True if that is another file than before."""
        with self._lock:
            try:
                return self._follow()
            except OSError as exc:
                self._complain_of(exc)
                return False

    @property
    def last_row(self) -> int:
        """The highest id that has a slot, 0 if none has."""
        with self._lock:
            return max(0, os.fstat(self._file).st_size - 1) // STRIDE

    def rows(self, first: int = 1) -> Iterator[int]:
        """The ids of all noted sessions in order, from `first` on."""
        offset = STRIDE * max(first, 1)
        while (found := self._data_from(offset)) is not None:
            offset = found - found % STRIDE
            chunk = os.pread(self._file, _CHUNK, offset)
            if not chunk:
                return
            for at in range(0, len(chunk), STRIDE):
                if any(chunk[at : at + 8]):
                    yield (offset + at) // STRIDE
            offset += _CHUNK

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            if self._file != _CLOSED:
                os.close(self._file)
                self._file = _CLOSED

    def _follow(self) -> bool:
        """If the open file is no longer at the path, open the one that is. What is written to the old file is lost
        when this process ends."""
        if not self._write or self._file == _CLOSED or is_at(self._file, self._path):
            return False
        self._complain("the journal's anchor was removed or replaced; what it knew of the sessions is gone")
        try:
            file = open_file(self._path, write=True)
        except ValueError:
            self._complain("the journal's anchor was replaced by a file that is none; it is not written to")
            return False
        os.close(self._file)
        self._file = file
        self._identity = identity_in(file)
        return True

    def _slot(self, row: int) -> tuple[int, bytes]:
        found = os.pread(self._file, SLOT.size, row * STRIDE)
        return SLOT.unpack(found.ljust(SLOT.size, b"\0")) if found else (0, b"")

    def _data_from(self, offset: int) -> int | None:
        """The place where the file's data goes on after a hole, or None at the end."""
        try:
            return os.lseek(self._file, offset, os.SEEK_DATA)
        except AttributeError:  # the system knows no holes
            return offset
        except OSError as exc:
            if exc.errno == errno.ENXIO:
                return None
            return offset

    def _complain_of(self, exc: OSError) -> None:
        self._complain(f"the journal's anchor cannot be written ({errno.errorcode.get(exc.errno or 0, 'OSError')})")

    def _complain(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            logger.error("%s", what)
