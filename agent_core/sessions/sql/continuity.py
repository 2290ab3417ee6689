"""Whether the database still has all that was written to it, compared with the journal's anchor.

A database may have been put back to an older state, deleted, or replaced. Only the anchor remembers more then. A
session that is behind its anchor is neither read nor written. The operator must first accept the database as it is
(docs/journal.md), or bring the lost entries back.

Only a certain loss counts. An anchor may lag behind its database; if another worker writes a session, it may do so for
ever. And the database may move on between two reads. So a slot is compared under the session's lock, or with a state
of the database that was read after the slot.
"""

import logging

from sqlalchemy import Connection

from agent_core.errors import RunError
from agent_core.names import SessionKey
from agent_core.sessions.journal.anchor import Anchor
from agent_core.sessions.journal.anchor_file import is_identity
from agent_core.sessions.sql import statements
from agent_core.sessions.store import Lease, SessionPutBack

logger = logging.getLogger(__name__)

SURVEYED = 50_000
"""The newest sessions, so many, are compared when the store opens; the others when they are used."""

PROBED = 1_000
"""Slots that are tried to find out whether an anchor without an identity belongs to the database."""

MOST_SAID = 10_000
"""Sessions for which a line is logged at most."""

_WHAT_NOW = "see `ostinato sessions accept` in docs/journal.md"


class Continuity:
    """Compares the database with the anchor. Call its methods in a transaction, before anything is changed in it."""

    def __init__(self, anchor: Anchor) -> None:
        self._anchor = anchor
        self._said: set[int] = set()
        self._said_replaced = False

    def begin(self, conn: Connection) -> None:
        """Check the database when it is opened, and log what is wrong. An anchor without an identity takes this
        database's, unless it knows sessions and finds none of them here."""
        if not self._is(conn, _identity(conn)):
            self._say_replaced()
            return
        behind, gone = self._survey(conn)
        if behind or gone:
            logger.error(
                "the database was put back to an older state: of the sessions that the journal's anchor knows, "
                "%d are behind it and %d are gone; %s",
                behind,
                gone,
                _WHAT_NOW,
            )

    def check_database(self, conn: Connection, identity: str | None) -> None:
        """Raises RunError if this is not the database that the anchor knows."""
        if not self._is(conn, identity):
            self._say_replaced()
            raise RunError(
                "store_unavailable",
                "The session store is not the one that was written to: its operator has to look at it.",
                detail=f"another database than the anchor's; {_WHAT_NOW}",
            )

    def is_used(self, row: int) -> bool:
        """Whether the number of a new session had a session with entries before. That one was lost."""
        if self._anchor.read(row) is None:
            return False
        self._refresh()
        return self._anchor.read(row) is not None

    @property
    def last_row(self) -> int:
        """The highest number of a session that the anchor knows."""
        return self._anchor.last_row

    def check_acquired(self, conn: Connection, key: SessionKey, row: int, head: int, tip: bytes) -> None:
        """Check a session that was just acquired. Raises SessionPutBack if it is not the one that the anchor knows."""
        slot = self._anchor.read(row)
        if slot is None or slot == (head, tip) or self._holds(conn, row, head, tip, slot):
            return
        if self._refresh() and ((slot := self._anchor.read(row)) is None or self._holds(conn, row, head, tip, slot)):
            return
        self._refuse(key, row, head, slot[0])

    def check_held(self, conn: Connection, lease: Lease) -> None:
        """Check before the session is written to. The anchor may be ahead of the lease only because the lease was lost:
        then the append itself finds that out."""
        slot = self._anchor.read(lease.row)
        if slot is not None and slot[0] >= lease.head and slot != (lease.head, lease.tip):
            self.examine(conn, lease.key, lease.row)

    def examine(self, conn: Connection, key: SessionKey, row: int) -> None:
        """Check a session that others may be writing to. A deleted session is as it should be."""
        self._refresh()
        slot = self._anchor.read(row)  # before the row: the database may move on meanwhile, but never back
        if slot is None:
            return
        self.check_database(conn, _identity(conn))
        found = conn.execute(statements.STATE, {"row": row}).first()
        if found is None:
            if conn.execute(statements.GRAVE, {"row": row}).first() is None:
                self._refuse(key, row, 0, slot[0])
        elif not self._holds(conn, row, *found, slot):
            self._refuse(key, row, found[0], slot[0])

    def check_loaded(self, conn: Connection, key: SessionKey, row: int, head: int) -> None:
        """Check a session that was read up to this entry."""
        slot = self._anchor.read(row)
        if slot is not None and slot[0] > head:
            self.examine(conn, key, row)

    def _is(self, conn: Connection, identity: str | None) -> bool:
        if identity == self._anchor.identity.hex():
            return True
        self._refresh()
        if not self._anchor.identity and is_identity(identity) and self._belongs(conn):
            self._anchor.adopt(bytes.fromhex(identity))
        return identity == self._anchor.identity.hex()

    def _holds(self, conn: Connection, row: int, head: int, tip: bytes, slot: tuple[int, bytes]) -> bool:
        """Whether the session's chain has the slot's mac at the slot's number."""
        seq, mac = slot
        if seq >= head:
            return slot == (head, tip)
        return bool(conn.execute(statements.MAC, {"row": row, "seq_at": seq}).scalar() == mac)

    def _refresh(self) -> bool:
        if self._anchor.refresh():
            self._said.clear()
            self._said_replaced = False
            return True
        return False

    def _refuse(self, key: SessionKey, row: int, head: int, seen: int) -> None:
        if row not in self._said and len(self._said) < MOST_SAID:
            self._said.add(row)
            logger.error(
                "session %r of user %r is not the one that the journal's anchor has seen (it has %d entries, and the "
                "anchor has seen %d): it is not used; %s",
                key.session_id,
                key.user_id,
                head,
                seen,
                _WHAT_NOW,
            )
        raise SessionPutBack

    def _say_replaced(self) -> None:
        if not self._said_replaced:
            self._said_replaced = True
            logger.error(
                "the database is not the one that the journal's anchor knows (it was deleted or replaced): "
                "no session is used; %s",
                _WHAT_NOW,
            )

    def _belongs(self, conn: Connection) -> bool:
        """Whether an anchor without an identity is this database's: it has no session, or one of its slots fits a
        session here."""
        tried = 0
        for row in self._anchor.rows():
            slot = self._anchor.read(row)
            if slot is None:
                continue
            seq, mac = slot
            if conn.execute(statements.MAC, {"row": row, "seq_at": seq}).scalar() == mac:
                return True
            grave = conn.execute(statements.GRAVE, {"row": row}).first()
            if grave is not None and slot in ((grave[0], grave[1]), (grave[0] + 1, grave[2])):
                return True
            tried += 1
            if tried == PROBED:
                break
        return not tried

    def _survey(self, conn: Connection) -> tuple[int, int]:
        """How many sessions are behind the anchor, and how many that it knows are gone."""
        last = self._anchor.last_row
        first = max(1, last - SURVEYED + 1)
        slots = {row: slot for row in self._anchor.rows(first) if (slot := self._anchor.read(row)) is not None}
        behind = 0
        between = {"first": first, "last": last}
        for row, head, tip in conn.execute(statements.STATES, between):
            slot = slots.pop(row, None)
            if slot is not None and slot[0] >= head and slot != (head, tip):
                behind += 1
        for row in conn.execute(statements.GRAVES, between).scalars():
            slots.pop(row, None)
        return behind, len(slots)


def _identity(conn: Connection) -> str | None:
    found: str | None = conn.execute(statements.IDENTITY).scalar()
    return found
