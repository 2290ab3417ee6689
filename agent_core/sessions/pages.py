"""Pages of a list of sessions, and the cursors between them."""

import re
from collections.abc import Sequence

from agent_core.errors import InvalidRequest
from agent_core.stored import Page, SessionInfo

_CURSOR = re.compile(r"(\d{1,16})-(\d{1,18})")

Row = tuple[int, int, SessionInfo]
"""The time of the session's last entry, the store's number of the session, and the session."""


def read_cursor(after: str | None) -> tuple[int, int] | None:
    """The time and number behind which the page begins; None for the first page. Raises InvalidRequest."""
    if after is None:
        return None
    found = _CURSOR.fullmatch(after)
    if found is None:
        raise InvalidRequest("after: this is not the `next` of a page.", "after")
    return int(found[1]), int(found[2])


def cut_page(rows: Sequence[Row], limit: int) -> Page:
    """A page of the first `limit` rows. If there is one row more, another page follows."""
    shown = rows[:limit]
    more = f"{shown[-1][0]}-{shown[-1][1]}" if len(rows) > limit and shown else None
    return Page(sessions=tuple(row[2] for row in shown), next=more)
