"""The journal's keyed chain over a session's entries.

Each entry's mac is made of the mac before it and of the entry, so nobody without the key can alter, add,
move or remove one in the middle. What the chain alone cannot tell is that its end was cut off: for that the
anchor (anchor.py) remembers how far each session had come. `verify.py` checks both; loading a session does
not, since whoever can change an entry can change the answer of a check that runs beside it.
"""

import hmac
import struct

from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry

_ENTRY = struct.Struct(">cQIIII")
_GENESIS = struct.Struct(">cQII")
_RECORD = struct.Struct(">cQQ")
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

    def stamp(self, user_id: str, name: str, value: bytes) -> bytes:
        """The mac of a record, which stands under this name of the user's and in no chain."""
        user, named = user_id.encode(), name.encode()
        return hmac.digest(
            self._key, b"".join((_RECORD.pack(b"R", len(user), len(named)), user, named, value)), "sha256"
        )

    def _sign(self, text: bytes) -> bytes:
        return hmac.digest(self._key, text, "sha256")
