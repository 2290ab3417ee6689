"""Checks one session's chain, entry by entry.

The values are as the database has them, because an altered entry may hold another type.
"""

import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec import MsgspecError

from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry, title_in
from agent_core.sessions.journal.chain import Journal

UNLIKE = (AttributeError, TypeError, ValueError, struct.error)
"""Errors of making a mac from values of a wrong type."""

Slot = tuple[int, bytes]
"""A number and the mac that an anchor has seen there."""

Fault = tuple[Any, str]
"""The number of the first bad entry, None if no entry is bad; and what is wrong."""


class ChainCheck:
    """Takes a session's entries in the order of their numbers, and tells at the end the first thing that is wrong. An
    entry comes as a row: (session, seq, lane, run_id, kind, body, mac)."""

    def __init__(self, journal: Journal, session: Any, slots: Sequence[Slot]) -> None:
        """`session` is the session's row: (id, user_id, session_id, head, tip, title)."""
        row, user_id, session_id, self._head, self._tip_said, self._title_said = session
        self._journal = journal
        self._slots = slots
        self._title = ""
        self._seq = 0
        self._fault: Fault | None = None
        try:
            self._genesis = journal.genesis(row, SessionKey(user_id=user_id, session_id=session_id))
        except UNLIKE:
            self._genesis = b""
        self._tip = self._genesis
        if not self._genesis or type(self._head) is not int:
            self._fault = None, "its row was altered"

    @property
    def empty(self) -> bool:
        """Whether nothing was ever written to the session."""
        return self._seq == 0 and self._head == 0

    def take(self, raw: Any) -> None:
        if self._fault is not None:
            self._seek(raw)
            return
        number = self._seq + 1
        mac = self._seal(raw)
        if raw[1] != number:
            before = type(raw[1]) is not int or raw[1] < number
            self._fault = (raw[1], "was added") if before else (number, "is missing")
            self._seek(raw)
        elif mac is None or mac != raw[6]:
            name = " or is another session's" if number == 1 else ""  # the chain begins with the session's name
            self._fault = number, f"was altered{name}" if number <= self._head else "was added"
        else:
            self._seq, self._tip = number, mac
            self._look_at(raw)

    def end(self) -> Fault | None:
        if self._fault is not None:
            return self._fault
        seen = max((seq for seq, _ in self._slots), default=0)
        if self._seq < max(self._head, seen):
            by = "" if self._seq < self._head else f": the anchor has seen {seen}"
            return self._seq + 1, f"is missing{by}"
        if self._seq > self._head:
            return None, f"its row counts {self._head} entries, and there are {self._seq}"
        if self._tip_said != self._tip and (self._seq or self._tip_said):
            return None, "its row has another seal than its last entry"
        if self._title_said != self._title:
            return None, "its title is not the one of its entries"
        return None

    def _look_at(self, raw: Any) -> None:
        """Compare with the slots, and take the title. Only an entry with the right mac counts for these."""
        for seq, tip in self._slots:
            if seq == self._seq and tip != self._tip:
                # The mac was made with the key, so nobody forged it: the session was put back, and went on.
                self._fault = seq, "is not the one that the anchor has seen"
        with suppress(MsgspecError):
            self._title = title_in([_entry(raw, self._seq)]) or self._title

    def _seek(self, raw: Any) -> None:
        """After the first fault: if this entry's mac says that it belongs to that place, tell that it was moved."""
        if self._fault is None or self._fault[0] != self._seq + 1 or not self._tip:
            return
        if raw[6] == self._seal(raw):
            self._fault = self._seq + 1, f"is not in its place: it stands as {raw[1]}"

    def _seal(self, raw: Any) -> bytes | None:
        """The mac that the entry has if it is the next one, or None if its values have wrong types."""
        try:
            return self._journal.seal(self._tip, _entry(raw, self._seq + 1))
        except UNLIKE:
            return None


def _entry(raw: Any, seq: int) -> Entry:
    return Entry(seq=seq, lane=raw[2], run_id=raw[3], kind=raw[4], body=raw[5])
