"""The statements of the stores, each built once. SQLite and PostgreSQL share them all.

No parameter has a column's name, because SQLAlchemy uses those names itself.
"""

from sqlalchemy import (
    BigInteger,
    Double,
    Text,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    not_,
    null,
    or_,
    select,
    text,
    tuple_,
    update,
)

# SQLite has PostgreSQL's ON CONFLICT too, and SQLAlchemy compiles it for both.
from sqlalchemy.dialects.postgresql import insert as upsert

from agent_core.sessions.sql.tables import WRITTEN, DatabaseClock, entries, meta, sessions, tombstones, workers

_at = bindparam("at", type_=BigInteger())
_me = bindparam("me", type_=Text())
_row = bindparam("row", type_=BigInteger())
_until = DatabaseClock() + bindparam("lease_seconds", type_=Double())

_alive = exists().where(workers.c.owner == sessions.c.owner, workers.c.expires_at > DatabaseClock())
_named = and_(sessions.c.user_id == bindparam("user"), sessions.c.session_id == bindparam("name"))
_held = and_(sessions.c.id == _row, sessions.c.fence == bindparam("held_fence"), sessions.c.owner == _me)
_info = (sessions.c.session_id, sessions.c.title, sessions.c.created_at, sessions.c.updated_at, sessions.c.head)

# TAKE comes first and MAKE only for a new session, which is rare. An INSERT for each would use up an id each time.
_free = or_(sessions.c.owner.is_(None), sessions.c.owner == _me, not_(_alive))
_taken = {"owner": _me, "fence": sessions.c.fence + 1, "cancel_requested_at": null()}
IDENTITY = select(meta.c.value).where(meta.c.name == "identity")
_lease = (sessions.c.id, sessions.c.fence, sessions.c.head, sessions.c.tip, IDENTITY.scalar_subquery())
TAKE = update(sessions).where(_named, _free).values(_taken).returning(*_lease)
MAKE = (
    upsert(sessions)
    .values(
        user_id=bindparam("user"),
        session_id=bindparam("name"),
        owner=_me,
        fence=1,
        head=0,
        tip=b"",
        title="",
        created_at=0,
        updated_at=0,
    )
    .on_conflict_do_update(index_elements=[sessions.c.user_id, sessions.c.session_id], set_=_taken, where=_free)
    .returning(*_lease)
)

LOAD = (
    select(entries.c.run_id, entries.c.kind, entries.c.body, entries.c.lane, entries.c.seq, entries.c.session)
    .where(
        entries.c.session == select(sessions.c.id).where(_named).scalar_subquery(),
        entries.c.seq > bindparam("behind"),
    )
    .order_by(entries.c.seq)
    .limit(bindparam("number"))
)

ROW = select(sessions.c.id).where(_named)
MARK = select(sessions.c.id, sessions.c.head, sessions.c.tip).where(_named, WRITTEN)

IS_HELD = select(sessions.c.head).where(_held)
STANDS = select(sessions.c.head, sessions.c.tip).where(
    sessions.c.id == _row, sessions.c.fence == bindparam("held_fence")
)
MOVE = (
    update(sessions)
    .where(_held, sessions.c.head == bindparam("old_head"))
    .values(
        head=bindparam("new_head"),
        tip=bindparam("new_tip"),
        title=func.coalesce(bindparam("new_title", type_=Text()), sessions.c.title),
        owner=bindparam("holder"),
        updated_at=_at,
        created_at=case((sessions.c.created_at == 0, _at), else_=sessions.c.created_at),
    )
)
WRITE = insert(entries)

DROP_EMPTY = delete(sessions).where(_held, sessions.c.head == 0)
FREE = update(sessions).where(_held).values(owner=null())

BEAT = (
    upsert(workers)
    .values(owner=_me, expires_at=_until)
    .on_conflict_do_update(index_elements=[workers.c.owner], set_={"expires_at": _until})
)
CANCELLED = select(sessions.c.user_id, sessions.c.session_id, sessions.c.fence).where(
    sessions.c.owner == _me, sessions.c.cancel_requested_at.is_not(None)
)
CANCEL = update(sessions).where(_named, _alive).values(cancel_requested_at=_at)
# A run is under way if its last entry of these two kinds is its beginning. A run id may come again.
_last_word = (
    select(entries.c.kind)
    .where(
        entries.c.session == sessions.c.id,
        entries.c.run_id == bindparam("run", type_=Text()),
        entries.c.kind.in_(["run", "end"]),
    )
    .order_by(entries.c.seq.desc())
    .limit(1)
    .scalar_subquery()
)
CANCEL_RUN = CANCEL.where(_last_word == "run")
RETIRE = (
    delete(workers).where(workers.c.owner == _me),
    delete(sessions).where(sessions.c.owner == _me, sessions.c.head == 0),
    update(sessions).where(sessions.c.owner == _me).values(owner=null()),
)
TIDY = (
    delete(sessions).where(sessions.c.head == 0, not_(_alive)),
    delete(workers).where(workers.c.expires_at < DatabaseClock() - bindparam("seconds", type_=Double())),
)

FIND = select(*_info, sessions.c.id).where(_named, WRITTEN)
PAGE = (
    select(sessions.c.updated_at, sessions.c.id, *_info)
    .where(
        sessions.c.user_id == bindparam("user"),
        WRITTEN,
        tuple_(sessions.c.updated_at, sessions.c.id) < tuple_(bindparam("time", type_=BigInteger()), _row),
    )
    .order_by(sessions.c.updated_at.desc(), sessions.c.id.desc())
    .limit(bindparam("number"))
)

# The anchor is compared with these.
STATE = select(sessions.c.head, sessions.c.tip).where(sessions.c.id == _row)
GRAVE = select(tombstones.c.head, tombstones.c.tip, tombstones.c.mac).where(tombstones.c.id == _row)
MAC = select(entries.c.mac).where(entries.c.session == _row, entries.c.seq == bindparam("seq_at", type_=BigInteger()))
_between = (bindparam("first", type_=BigInteger()), bindparam("last", type_=BigInteger()))
STATES = select(sessions.c.id, sessions.c.head, sessions.c.tip).where(sessions.c.id.between(*_between), WRITTEN)
GRAVES = select(tombstones.c.id).where(tombstones.c.id.between(*_between))
NUMBER_FROM = {
    "sqlite": text("UPDATE sqlite_sequence SET seq = :number WHERE name = 'sessions' AND seq < :number"),
    "postgresql": text(
        "SELECT setval('sessions_id_seq', GREATEST(CAST(:number AS bigint), last_value)) FROM sessions_id_seq"
    ),
}

DELETE = delete(sessions).where(_held).returning(sessions.c.head, sessions.c.tip)
DELETE_ENTRIES = delete(entries).where(entries.c.session == _row)
BURY = insert(tombstones)
# A retried deletion finds its own tombstone: an id is never used again, and the time is this deletion's.
BURIED = select(tombstones.c.head, tombstones.c.mac).where(tombstones.c.id == _row, tombstones.c.deleted_at == _at)

_ranked = (
    select(
        sessions.c.id,
        func.row_number()
        .over(
            partition_by=sessions.c.user_id,
            order_by=(sessions.c.updated_at.desc(), sessions.c.id.desc()),
        )
        .label("place"),
    )
    .where(WRITTEN)
    .subquery()
)
_too_many = sessions.c.id.in_(select(_ranked.c.id).where(_ranked.c.place > bindparam("keep", type_=BigInteger())))
_too_old = sessions.c.updated_at < bindparam("time", type_=BigInteger())
_old = select(sessions.c.user_id, sessions.c.session_id).order_by(sessions.c.updated_at, sessions.c.id)
OLD = _old.where(WRITTEN, _too_old).limit(bindparam("number"))
OLD_OR_TOO_MANY = _old.where(WRITTEN, or_(_too_old, _too_many)).limit(bindparam("number"))

PROBE = (
    upsert(meta)
    .values(name="probe", value=bindparam("filling"))
    .on_conflict_do_update(index_elements=[meta.c.name], set_={"value": bindparam("filling", type_=Text())})
)
FORGET_PROBE = delete(meta).where(meta.c.name == "probe")
CLAIM = upsert(meta).values(name="journal", value=bindparam("fingerprint")).on_conflict_do_nothing()
CLAIMED = select(meta.c.value).where(meta.c.name == "journal")
