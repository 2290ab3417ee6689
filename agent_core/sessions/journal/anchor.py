"""The journal's anchor: how far each session has come, in a file outside the database."""

import errno
import logging
import os
import struct
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger(__name__)

ANCHOR_FILE = "journal.anchor"

_HEADER = b"ostinato journal anchor 1\n"
_SLOT = struct.Struct(">Q32s")
_STRIDE = 64  # a power of two, so that no slot lies across two sectors of a disk and is written by half
_CHUNK = 1024 * _STRIDE


class Anchor:
    """How far each session has come: a sparse file with one slot for each row id, from 1.

    It is written after the commit and never synced, so it may lag behind the database and is never ahead
    of it: a database that is longer than its anchor is valid, a shorter one is not. For one thread; other
    processes may write to the same file.

    Raises OSError where the file cannot be opened, ValueError where it is something else.
    """

    def __init__(self, path: Path, *, write: bool = True) -> None:
        self._path = path
        self._write = write
        self._said: set[str] = set()
        self._file = _open(path, write=write)

    def note(self, row: int, seq: int, tip: bytes, *, since: int | None = None) -> None:
        """Remember that the session came to `seq`, and which mac stands there. Never goes backwards.

        `since` is the head before this append. A slot that is ahead of that was written for entries which
        the database has lost: it stays as it is, since it is the only proof. Where the file was removed or
        replaced, it goes on in the one that is there now, or a new one. Where the file cannot be written the
        append stands all the same. Each of these is logged once.
        """
        try:
            self._follow()
            before, _ = self._slot(row)
            if since is not None and before > since:
                if seq > before:
                    self._complain("the journal's anchor is ahead of the database; see `ostinato sessions verify`")
            elif seq > before:
                os.pwrite(self._file, _SLOT.pack(seq, tip), row * _STRIDE)
        except OSError as exc:
            self._complain(f"the journal's anchor cannot be written ({errno.errorcode.get(exc.errno or 0, 'OSError')})")

    def read(self, row: int) -> tuple[int, bytes] | None:
        """The last number and mac that were noted for the session; None where nothing was."""
        seq, tip = self._slot(row)
        return (seq, tip) if seq else None

    def rows(self) -> Iterator[int]:
        """The ids of all sessions that were noted, in order."""
        offset = _STRIDE
        while (found := self._data_from(offset)) is not None:
            offset = max(offset, found - found % _STRIDE)
            chunk = os.pread(self._file, _CHUNK, offset)
            if not chunk:
                return
            for at in range(0, len(chunk), _STRIDE):
                if any(chunk[at : at + 8]):
                    yield (offset + at) // _STRIDE
            offset += _CHUNK

    def close(self) -> None:
        """Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _follow(self) -> None:
        """Where the file that is open has no name any more, open the one that has: what is written to the old
        one is lost with this process."""
        if not self._write or self._file < 0 or _is_at(self._file, self._path):
            return
        self._complain("the journal's anchor was removed or replaced; what it knew of the sessions is gone")
        try:
            file = _open(self._path, write=True)
        except ValueError:
            self._complain("the journal's anchor was replaced by a file that is none; it is not written to")
            return
        os.close(self._file)
        self._file = file

    def _slot(self, row: int) -> tuple[int, bytes]:
        found = os.pread(self._file, _SLOT.size, row * _STRIDE)
        return _SLOT.unpack(found.ljust(_SLOT.size, b"\0")) if found else (0, b"")

    def _data_from(self, offset: int) -> int | None:
        """Where the file goes on after a hole; None at its end."""
        try:
            return os.lseek(self._file, offset, os.SEEK_DATA)
        except AttributeError:  # a system that does not know holes
            return offset
        except OSError as exc:
            if exc.errno == errno.ENXIO:
                return None
            return offset

    def _complain(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            logger.error("%s", what)


def _open(path: Path, *, write: bool) -> int:
    flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
    file = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        header = os.pread(file, _STRIDE, 0).rstrip(b"\0")
        if header not in (b"", _HEADER):
            raise ValueError(f"{path.name} is not a journal's anchor.")
        if write and not header:
            os.pwrite(file, _HEADER.ljust(_STRIDE, b"\0"), 0)
    except BaseException:
        os.close(file)
        raise
    return file


def _is_at(file: int, path: Path) -> bool:
    """Whether the open file is the one at the path."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False
