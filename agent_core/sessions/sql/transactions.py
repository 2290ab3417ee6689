"""The methods of a store as functions over a connection, the same for SQLite and PostgreSQL.

Each function is one piece of work in a transaction of its caller. If it raises, it has changed nothing.

A commit may succeed while its answer is lost; the work is then done again. So an append and a deletion look whether
they have been done already.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Connection, delete
from sqlalchemy.util import await_only

from agent_core.errors import RunError
from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry, title_in
from agent_core.sessions.journal.chain import Journal
from agent_core.sessions.pages import cut_page, read_cursor
from agent_core.sessions.sql import statements
from agent_core.sessions.sql.continuity import Continuity
from agent_core.sessions.sql.records import forget_session
from agent_core.sessions.sql.tables import workers
from agent_core.sessions.store import Cancel, Lease, LeaseLost, Mark, Opened, Read
from agent_core.stored import Page, SessionInfo

BROKEN = -1
"""The row of a lease that was given out before its transaction failed."""

FORGOTTEN = 3600.0
"""Seconds after which a dead worker's row is deleted."""

PAGE = 2_000
"""Entries that are read, sealed or written at a time."""

_END = 10**18  # larger than every time and every id: the first page begins here
_FILLING = "0" * 8192  # larger than a page of either database


def acquire(conn: Connection, journal: Journal, continuity: Continuity, key: SessionKey, owner: str) -> Lease | None:
    """As Store.acquire. Raises RunError if the session is not the one that was written to, and releases it then."""
    values = {"user": key.user_id, "name": key.session_id, "me": owner}
    found = conn.execute(statements.TAKE, values).first() or conn.execute(statements.MAKE, values).first()
    if found is None:
        return None
    row, fence, head, tip, identity = found
    lease = Lease(key=key, owner=owner, fence=fence, head=head, row=row, tip=tip)
    try:
        continuity.check_database(conn, identity)
        if head:
            continuity.check_acquired(conn, key, row, head, tip)
    except RunError:
        release(conn, lease)
        raise
    if not head and continuity.is_used(row):
        release(conn, lease)
        conn.execute(statements.NUMBER_FROM[conn.dialect.name], {"number": continuity.last_row})
        lease.row, lease.fence, *_ = conn.execute(statements.MAKE, values).one()
    if not head:
        lease.tip = journal.genesis(lease.row, key)
    return lease


def break_lease(lease: Lease | None) -> None:
    """Mark a lease as lost: it was given out, and then its transaction failed."""
    if lease is not None:
        lease.row = BROKEN


def open_session(
    conn: Connection, journal: Journal, continuity: Continuity, key: SessionKey, owner: str, known: Mark | None
) -> Opened | None:
    """As Store.open."""
    lease = acquire(conn, journal, continuity, key, owner)
    if lease is None:
        return None
    try:
        after = _still(conn, known, lease.mark)
        _, entries = _load(conn, continuity, key, after) if lease.head > after else (0, ())
    except RunError:
        release(conn, lease)
        raise
    return Opened(lease=lease, entries=entries, after=after)


def break_opened(opened: Opened | None) -> None:
    """As `break_lease`."""
    break_lease(None if opened is None else opened.lease)


def read(conn: Connection, continuity: Continuity, key: SessionKey, known: Mark | None) -> Read:
    """As Store.read."""
    found = conn.execute(statements.MARK, _names(key)).first()
    if found is None:
        return Read(entries=(), after=0, mark=Mark(row=0, head=0))
    mark = Mark(row=found[0], head=found[1], tip=found[2])
    continuity.check_loaded(conn, key, mark.row, mark.head)
    after = _still(conn, known, mark)
    if mark.head == after:
        return Read(entries=(), after=after, mark=mark)
    row, entries = _load(conn, continuity, key, after)
    if row != mark.row:  # it was deleted meanwhile; what is there now was never read
        return read(conn, continuity, key, None)
    return Read(entries=entries[: mark.head - after], after=after, mark=mark)


def _still(conn: Connection, known: Mark | None, now: Mark) -> int:
    """The head of the known mark, if the session has its entries still, else 0."""
    if known is None or known.row != now.row or known.head > now.head:
        return 0
    if known.head == now.head:
        return known.head if known.tip == now.tip else 0
    mac = conn.execute(statements.MAC, {"row": now.row, "seq_at": known.head}).scalar()
    return known.head if mac == known.tip else 0


def load(conn: Connection, continuity: Continuity, key: SessionKey) -> Sequence[Entry]:
    """As Store.load. Empty if the session is deleted meanwhile."""
    return _load(conn, continuity, key, 0)[1]


def _load(conn: Connection, continuity: Continuity, key: SessionKey, after: int) -> tuple[int, Sequence[Entry]]:
    """The session's row, and its entries behind this number; (0, ()) if there is none, or if it is deleted meanwhile.
    They are read page by page, so that others can run between two pages."""
    found = _entries(conn, key, after)
    row = found[0].session if found else 0
    loaded = list(map(_entry, found))
    while found and len(found) == PAGE:
        found = _entries(conn, key, loaded[-1].seq)
        if (found[0].session if found else conn.execute(statements.ROW, _names(key)).scalar()) != row:
            return 0, ()
        loaded += map(_entry, found)
    if row:
        continuity.check_loaded(conn, key, row, loaded[-1].seq)
    return row, loaded


def _entries(conn: Connection, key: SessionKey, behind: int) -> Sequence[Any]:
    return conn.execute(statements.LOAD, {**_names(key), "behind": behind, "number": PAGE}).all()


def _entry(found: Any) -> Entry:
    run_id, kind, body, lane, seq, _ = found
    return Entry(run_id=run_id, kind=kind, body=body, lane=lane, seq=seq)


def _names(key: SessionKey) -> dict[str, Any]:
    return {"user": key.user_id, "name": key.session_id}


def append(
    conn: Connection,
    journal: Journal,
    continuity: Continuity,
    lease: Lease,
    entries: Sequence[Entry],
    *,
    at: int,
    free: bool,
) -> tuple[int, bytes]:
    """As Store.append. Returns the session's new head and tip. `at` is the time in milliseconds; `free` releases the
    session. If the same append was made before and only its answer was lost, it is not made again."""
    held = _held(lease)
    if not entries:
        if conn.execute(statements.IS_HELD, held).first() is None:
            raise LeaseLost
        if free:
            release(conn, lease)
        return lease.head, lease.tip
    continuity.check_held(conn, lease)
    rows, tip = _seal(conn, journal, lease, entries)
    values = {
        **held,
        "old_head": lease.head,
        "new_head": lease.head + len(rows),
        "new_tip": tip,
        "new_title": title_in(entries),
        "holder": None if free else lease.owner,
        "at": at,
    }
    if conn.execute(statements.MOVE, values).rowcount:
        for start in range(0, len(rows), PAGE):
            conn.execute(statements.WRITE, rows[start : start + PAGE])
    elif conn.execute(statements.STANDS, held).first() != (values["new_head"], tip):
        continuity.examine(conn, lease.key, lease.row)
        raise LeaseLost
    return lease.head + len(rows), tip


def release(conn: Connection, lease: Lease) -> None:
    if lease.row == BROKEN:
        return
    held = _held(lease)
    if conn.execute(statements.FREE if lease.head else statements.DROP_EMPTY, held).rowcount == 0:
        # An append whose answer was lost has moved the head, so the session is not empty.
        conn.execute(statements.FREE, held)


def renew(conn: Connection, owner: str, lease_seconds: float) -> Sequence[Cancel]:
    """As Store.renew. A cancel stays until the lease ends, because the answer to this heartbeat may be lost."""
    conn.execute(statements.BEAT, {"me": owner, "lease_seconds": lease_seconds})
    cancelled = conn.execute(statements.CANCELLED, {"me": owner}).all()
    return [Cancel(key=_key(*names), fence=fence) for *names, fence in cancelled]


def retire(conn: Connection, owner: str) -> None:
    for statement in statements.RETIRE:
        conn.execute(statement, {"me": owner})


def cancel(conn: Connection, key: SessionKey, run_id: str | None, *, at: int) -> bool:
    values = {"user": key.user_id, "name": key.session_id, "at": at}
    if run_id is None:
        return conn.execute(statements.CANCEL, values).rowcount > 0
    return conn.execute(statements.CANCEL_RUN, {**values, "run": run_id}).rowcount > 0


def find(conn: Connection, continuity: Continuity, key: SessionKey) -> SessionInfo | None:
    continuity.check_database(conn, conn.execute(statements.IDENTITY).scalar())
    found = conn.execute(statements.FIND, {"user": key.user_id, "name": key.session_id}).first()
    return None if found is None else _info(*found)


def page(conn: Connection, continuity: Continuity, user_id: str, limit: int, after: str | None) -> Page:
    continuity.check_database(conn, conn.execute(statements.IDENTITY).scalar())
    time, row = read_cursor(after) or (_END, _END)
    values = {"user": user_id, "time": time, "row": row, "number": limit + 1}
    found = conn.execute(statements.PAGE, values).all()
    return cut_page([(each[0], each[1], _info(*each[2:], row=each[1])) for each in found], limit)


def remove(conn: Connection, journal: Journal, continuity: Continuity, lease: Lease, *, at: int) -> tuple[int, bytes]:
    """Delete the session and leave a tombstone. Returns the tombstone's number in the chain and its mac; (0, b"") for a
    session without entries, which leaves none. If the same deletion was made before and only its answer was lost, its
    tombstone is found."""
    held = _held(lease)
    continuity.examine(conn, lease.key, lease.row)
    found = conn.execute(statements.DELETE, held).first()
    if found is None:
        buried = conn.execute(statements.BURIED, {"row": lease.row, "at": at}).first()
        if buried is None:
            raise LeaseLost
        head, mac = buried
        return head + 1, mac
    head, tip = found
    if not head:
        return 0, b""
    mac = journal.tombstone(lease.row, head, tip, at)
    conn.execute(statements.DELETE_ENTRIES, {"row": lease.row})
    forget_session(conn, lease.key)
    conn.execute(statements.BURY, {"id": lease.row, "head": head, "tip": tip, "deleted_at": at, "mac": mac})
    return head + 1, mac


def expired(conn: Connection, *, before: int | None, keep: int | None, limit: int) -> Sequence[SessionKey]:
    statement = statements.OLD if keep is None else statements.OLD_OR_TOO_MANY
    values = {"time": before, "number": limit}  # without a time nothing is too old
    found = conn.execute(statement, values if keep is None else {**values, "keep": keep})
    return [_key(*each) for each in found.all()]


def check(conn: Connection, continuity: Continuity) -> None:
    """Write a page and delete it, so that a full disk fails here. Raises RunError if this is not the database that was
    written to."""
    continuity.check_database(conn, conn.execute(statements.IDENTITY).scalar())
    conn.execute(statements.PROBE, {"filling": _FILLING})
    conn.execute(statements.FORGET_PROBE)


def claim(conn: Connection, fingerprint: str) -> bool:
    """Whether the database's entries are sealed with this key. A new database takes the key."""
    conn.execute(statements.CLAIM, {"fingerprint": fingerprint})
    return bool(conn.execute(statements.CLAIMED).scalar() == fingerprint)


def tidy(conn: Connection, *, alone: bool) -> None:
    """Remove what lost workers have left. With `alone` no other worker can be alive."""
    if alone:
        conn.execute(delete(workers))
    for statement in statements.TIDY:
        conn.execute(statement, {"seconds": FORGOTTEN})


def _held(lease: Lease) -> dict[str, Any]:
    if lease.row == BROKEN:
        raise RunError("store_unavailable", detail="the lease was lost with its transaction")
    return {"row": lease.row, "held_fence": lease.fence, "me": lease.owner}


def _seal(
    conn: Connection, journal: Journal, lease: Lease, entries: Sequence[Entry]
) -> tuple[list[dict[str, Any]], bytes]:
    """The rows of the entries, and the mac of the last one."""
    tip = lease.tip
    rows: list[dict[str, Any]] = []
    for seq, entry in enumerate(entries, lease.head + 1):
        if len(rows) % PAGE == PAGE - 1:
            _give_way(conn)
        tip = journal.seal(tip, replace(entry, seq=seq))
        rows.append(
            {
                "session": lease.row,
                "seq": seq,
                "lane": entry.lane,
                "run_id": entry.run_id,
                "kind": entry.kind,
                "body": entry.body,
                "mac": tip,
            }
        )
    return rows, tip


def _give_way(conn: Connection) -> None:
    """Let other tasks run, unless this runs in a thread of its own."""
    if conn.dialect.is_async:
        await_only(asyncio.sleep(0))


def _info(session_id: str, title: str, created_at: int, updated_at: int, head: int, row: int) -> SessionInfo:
    return SessionInfo(
        session_id=session_id, title=title, created_at=created_at, updated_at=updated_at, head=head, row=row
    )


def _key(user_id: str, session_id: str) -> SessionKey:
    return SessionKey(user_id=user_id, session_id=session_id)
