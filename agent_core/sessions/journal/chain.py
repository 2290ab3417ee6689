"""The journal's keyed chain over a session's entries.

Each entry's mac is made of the mac before it and of the entry. So without the key nobody can alter, add, move or remove
an entry in the middle. The chain alone does not show that its end was cut off. For that the anchor (anchor.py)
remembers each session's last entry.

`verify.py` checks both. Loading a session checks neither: whoever can change an entry there can also change the answer
of such a check.
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
    """Makes the macs, without any I/O. Each text that it signs begins with a letter for its kind and the lengths of its
    parts, so two different things never make the same text."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    @property
    def fingerprint(self) -> str:
        """A name for the key: two keys have two, and it tells nothing about either."""
        return self._sign(b"ostinato journal key").hex()[:16]

    def genesis(self, row: int, key: SessionKey) -> bytes:
        """The tip of a session without entries. It is made of the session's number and name, so a chain fits no other
        session."""
        user, session = key.user_id.encode(), key.session_id.encode()
        return self._sign(_GENESIS.pack(b"G", row, len(user), len(session)) + user + session)

    def seal(self, tip: bytes, entry: Entry) -> bytes:
        """The mac of the entry that follows `tip`. It is the new tip. The entry must have its number."""
        lane, run_id, kind, body = entry.lane.encode(), entry.run_id.encode(), entry.kind.encode(), entry.body
        head = _ENTRY.pack(b"E", entry.seq, len(lane), len(run_id), len(kind), len(body))
        return hmac.digest(self._key, b"".join((head, tip, lane, run_id, kind, body)), "sha256")

    def tombstone(self, row: int, head: int, tip: bytes, deleted_at: int) -> bytes:
        """The mac of the deletion of a session that stood at `head` and `tip`. `deleted_at` is in milliseconds.

        It is the chain's last link. The anchor notes it as number `head + 1`, so it also shows that a deleted session
        was put back.
        """
        return self._sign(_TOMBSTONE.pack(b"T", row, head, deleted_at, len(tip)) + tip)

    def stamp(self, user_id: str, name: str, value: bytes) -> bytes:
        """The mac of the user's record with this name. Records are in no chain."""
        user, named = user_id.encode(), name.encode()
        return hmac.digest(
            self._key, b"".join((_RECORD.pack(b"R", len(user), len(named)), user, named, value)), "sha256"
        )

    def _sign(self, text: bytes) -> bytes:
        return hmac.digest(self._key, text, "sha256")
