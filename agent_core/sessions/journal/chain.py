"""The journal's proofs: a keyed chain over a session's entries, an anchor of its tip outside the database,
and the key.

Each entry's mac is made of the mac before it and of the entry, so nobody without the key can alter, add,
move or remove one in the middle. What the chain alone cannot tell is that its end was cut off: for that the
anchor remembers how far each session had come. `verify.py` checks both; loading a session does not, since
whoever can change an entry can change the answer of a check that runs beside it.
"""

import errno
import hashlib
import hmac
import logging
import os
import secrets
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agent_core.sessions.entries import Entry, SessionKey

logger = logging.getLogger(__name__)

KEY_FILE = "journal.key"
ANCHOR_FILE = "journal.anchor"

SHORTEST_KEY = 16
"""Characters that a key given as text must have."""

SIZE = 32
"""Bytes of a key, a tip and a mac."""

_ENTRY = struct.Struct(">cQIIII")
_GENESIS = struct.Struct(">cQII")
_TOMBSTONE = struct.Struct(">cQQQI")


class Journal:
    """Makes the macs. Pure; each kind of text that it signs begins with a letter of its own and the lengths
    of all its parts, so no two texts are alike."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    @property
    def fingerprint(self) -> str:
        """Tells two keys apart and nothing about either."""
        return self._sign(b"ostinato journal key").hex()[:16]

    def genesis(self, row: int, key: SessionKey) -> bytes:
        """The tip of a session without entries. It holds the session's number and name, so a chain cannot
        be given to another session."""
        user, session = key.user_id.encode(), key.session_id.encode()
        return self._sign(_GENESIS.pack(b"G", row, len(user), len(session)) + user + session)

    def seal(self, tip: bytes, entry: Entry) -> bytes:
        """The mac of the entry behind `tip`, which is the new tip. The entry has its number."""
        lane, run_id, kind, body = entry.lane.encode(), entry.run_id.encode(), entry.kind.encode(), entry.body
        head = _ENTRY.pack(b"E", entry.seq, len(lane), len(run_id), len(kind), len(body))
        return hmac.digest(self._key, b"".join((head, tip, lane, run_id, kind, body)), "sha256")

    def tombstone(self, row: int, head: int, tip: bytes, deleted_at: int) -> bytes:
        """The mac of a deletion (time in milliseconds) of a session that had come to `head` and `tip`.

        It is the chain's last link: noted in the anchor as number `head + 1`, it also proves a deleted
        session that was put back.
        """
        return self._sign(_TOMBSTONE.pack(b"T", row, head, deleted_at, len(tip)) + tip)

    def _sign(self, text: bytes) -> bytes:
        return hmac.digest(self._key, text, "sha256")


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
        flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
        self._file = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._said: set[str] = set()
        try:
            header = os.pread(self._file, _STRIDE, 0).rstrip(b"\0")
            if header not in (b"", _HEADER):
                raise ValueError(f"{path.name} is not a journal's anchor.")
            if write and not header:
                os.pwrite(self._file, _HEADER.ljust(_STRIDE, b"\0"), 0)
        except BaseException:
            os.close(self._file)
            raise

    def note(self, row: int, seq: int, tip: bytes, *, since: int | None = None) -> None:
        """Remember that the session came to `seq`, and which mac stands there. Never goes backwards.

        `since` is the head before this append. A slot that is ahead of that was written for entries which
        the database has lost: it stays as it is, since it is the only proof. Where the file cannot be
        written the append stands all the same; that is logged once.
        """
        try:
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


def read_key(data_dir: Path, given: str | None, *, create: bool = True) -> bytes:
    """The journal's key: from the text that was given, else from the file in the data directory.

    With `create` a file that is not there is made; the key is on disk when this returns, since what was
    sealed with a lost key cannot be verified. Raises ValueError: one sentence, without the key.
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
    """Write a new key, unless another process was first. It appears whole or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(file, "wb") as out:
            out.write(secrets.token_bytes(SIZE))
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(draft, path)  # unlike a rename, never replaces one
        except FileExistsError:
            pass
    finally:
        draft.unlink()
    _sync(path.parent)
    with suppress(OSError):  # the directory may be new too; one above it that cannot be opened is none of ours
        _sync(path.parent.parent)


def _sync(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
