"""The file of a journal's anchor: its header, and a slot of a fixed size for each session.

    0    "ostinato journal anchor 2\\n" and the database's identity (16 bytes); version 1 has none
    64   the slot of session number 1: its last entry's number (8 bytes) and mac (32)
    128  the slot of session number 2, and so on

The file is sparse. A slot never crosses two sectors of a disk, so it is written whole or not at all.
"""

import os
import struct
from pathlib import Path
from typing import TypeGuard

SLOT = struct.Struct(">Q32s")
STRIDE = 64
IDENTITY = 16
"""Bytes of a database's identity."""

_FIRST = b"ostinato journal anchor 1\n"
_HEADER = b"ostinato journal anchor 2\n"


def open_file(path: Path, *, write: bool) -> int:
    """Open the file. To write, make it if it is missing, for its owner alone. Raises OSError, and ValueError if it is
    no anchor."""
    flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
    file = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        header = os.pread(file, STRIDE, 0)
        empty = not header.rstrip(b"\0")
        if not empty and not header.startswith((_HEADER, _FIRST)):
            raise ValueError(f"{path.name} is not a journal's anchor.")
        if write and empty:
            os.pwrite(file, _FIRST.ljust(STRIDE, b"\0"), 0)
    except BaseException:
        os.close(file)
        raise
    return file


def identity_in(file: int) -> bytes:
    """The identity of the file's database, empty if the file has none."""
    header = os.pread(file, STRIDE, 0)
    if not header.startswith(_HEADER):
        return b""
    return header[len(_HEADER) : len(_HEADER) + IDENTITY].ljust(IDENTITY, b"\0")


def is_identity(text: object) -> TypeGuard[str]:
    """Whether this is an identity as a database holds it: a text of hexadecimal digits."""
    return isinstance(text, str) and len(text) == 2 * IDENTITY and set(text) <= set("0123456789abcdef")


def write_identity(file: int, identity: bytes) -> None:
    os.pwrite(file, (_HEADER + identity).ljust(STRIDE, b"\0"), 0)


def is_at(file: int, path: Path) -> bool:
    """Whether the open file is the file at the path."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False
