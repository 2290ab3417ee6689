"""Records in a database: the statements, the same for SQLite and PostgreSQL, and the class that uses them.

The journal's key seals each value. A value that somebody else has written or moved does not count.
"""

import hmac
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Double,
    LargeBinary,
    Select,
    Text,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
    update,
)

# SQLite has PostgreSQL's ON CONFLICT too, and SQLAlchemy compiles it for both.
from sqlalchemy.dialects.postgresql import insert as upsert

from agent_core.names import SessionKey
from agent_core.sessions.entries import now_ms
from agent_core.sessions.journal.chain import Journal
from agent_core.sessions.records import BESIDE, MOST, MOST_OF_USER, Record
from agent_core.sessions.sql.tables import DatabaseClock, records, workers
from agent_core.sessions.sql.work import Backend, Work

logger = logging.getLogger(__name__)

_user = bindparam("user", type_=Text())
_holder = bindparam("holder", type_=Text())
_named = and_(records.c.user_id == _user, records.c.name == bindparam("named"))
_fresh = records.c.expires_at > DatabaseClock()
_alive = exists().where(workers.c.owner == records.c.owner, workers.c.expires_at > DatabaseClock())
_values = {
    "session_id": bindparam("session", type_=Text()),
    "owner": bindparam("worker", type_=Text()),
    "size": bindparam("bytes", type_=BigInteger()),
    "written_at": bindparam("at", type_=BigInteger()),
    "expires_at": DatabaseClock() + bindparam("seconds", type_=Double()),
    "value": bindparam("content", type_=LargeBinary()),
    "mac": bindparam("seal", type_=LargeBinary()),
}
_put = upsert(records).values(user_id=_user, name=bindparam("named"), **_values)
_place = [records.c.user_id, records.c.name]

PUT = _put.on_conflict_do_update(index_elements=_place, set_=_values)
CLAIM = _put.on_conflict_do_update(
    index_elements=_place,
    set_=_values,
    where=or_(~_fresh, records.c.value == bindparam("instead", type_=LargeBinary())),
).returning(records.c.name)
REPLACE = update(records).where(_named, _fresh, records.c.owner == _holder).values(_values)

_held = case((_alive, records.c.owner))
RECALL = select(records.c.name, records.c.value, records.c.mac, _held).where(
    records.c.user_id == _user, records.c.name.in_(bindparam("names")), _fresh
)
DISCARD = delete(records).where(_named, or_(records.c.owner == _holder, _holder.is_(None)))
EXPIRE = delete(records).where(~_fresh)
OF_SESSION = delete(records).where(records.c.user_id == _user, records.c.session_id == bindparam("session"))

_size = func.coalesce(func.sum(records.c.size), 0)
SIZE_OF_USER = select(_size).where(records.c.user_id == _user)
SIZE = select(_size)


def _too_many(of: Select[Any]) -> Any:
    """Delete the oldest of these records, until the others take at most `most` bytes. Keep a record whose owner is
    alive."""
    ranked = of.subquery()
    old = select(ranked.c.user_id, ranked.c.name).where(ranked.c.total > bindparam("most", type_=BigInteger()))
    return delete(records).where(tuple_(records.c.user_id, records.c.name).in_(old), ~_alive)


_newest = (records.c.written_at.desc(), records.c.user_id, records.c.name)
_ranked = select(*_place, func.sum(records.c.size).over(order_by=_newest).label("total"))
TRIM_USER = _too_many(_ranked.where(records.c.user_id == _user))
TRIM = _too_many(_ranked)


class SqlRecords:
    """Records over a backend."""

    def __init__(
        self, backend: Backend, journal: Journal, *, most_of_user: int = MOST_OF_USER, most: int = MOST
    ) -> None:
        self._backend = backend
        self._journal = journal
        self._most_of_user = most_of_user
        self._most = most

    async def claim(
        self, user_id: str, name: str, value: bytes, *, owner: str, seconds: float, instead: bytes | None = None
    ) -> Record | None:
        row = self._row(user_id, name, value, seconds, worker=owner)

        def do(conn: Connection) -> Record | None:
            old = instead
            for _ in range(3):
                if conn.execute(CLAIM, row | {"instead": old}).first() is not None:
                    self._trim(conn, user_id)
                    return None
                found = conn.execute(RECALL, {"user": user_id, "names": [name]}).first()
                record = None if found is None else self._read(user_id, *found)
                if record is not None:
                    # It may be this very claim, from an attempt whose commit was not confirmed.
                    return None if (record.value, record.owner) == (value, owner) else record
                old = instead if found is None else found[1]  # it expired just now, or its seal is wrong: replace it
            raise RuntimeError("a record comes and goes")

        return await self._backend.run(Work(do=do))

    async def keep(
        self,
        user_id: str,
        name: str,
        value: bytes,
        *,
        seconds: float,
        session_id: str = "",
        held_by: str | None = None,
        owner: str | None = None,
    ) -> bool:
        row = self._row(user_id, name, value, seconds, session=session_id, worker=owner)

        def do(conn: Connection) -> bool:
            if held_by is None:
                conn.execute(PUT, row)
            elif not conn.execute(REPLACE, row | {"holder": held_by}).rowcount:
                return False
            self._trim(conn, user_id)
            return True

        return await self._backend.run(Work(do=do))

    async def recall(self, user_id: str, names: Sequence[str]) -> Mapping[str, Record]:
        if not names:
            return {}
        values = {"user": user_id, "names": list(names)}
        found = await self._backend.run(Work(do=lambda conn: conn.execute(RECALL, values).all(), durable=False))
        read = {row[0]: self._read(user_id, *row) for row in found}
        return {name: record for name, record in read.items() if record is not None}

    async def discard(self, user_id: str, name: str, *, held_by: str | None = None) -> None:
        values = {"user": user_id, "named": name, "holder": held_by}
        await self._backend.run(Work(do=lambda conn: conn.execute(DISCARD, values)))

    async def expire(self) -> int:
        found = await self._backend.run(Work(do=lambda conn: conn.execute(EXPIRE).rowcount, erases=True))
        return int(found)

    def _row(
        self, user_id: str, name: str, value: bytes, seconds: float, *, session: str = "", worker: str | None = None
    ) -> dict[str, Any]:
        return {
            "user": user_id,
            "named": name,
            "session": session,
            "worker": worker,
            "bytes": BESIDE + len(value),
            "at": now_ms(),
            "seconds": seconds,
            "content": value,
            "seal": self._journal.stamp(user_id, name, value),
        }

    def _read(self, user_id: str, name: str, value: bytes, mac: bytes, owner: str | None) -> Record | None:
        if not hmac.compare_digest(mac, self._journal.stamp(user_id, name, value)):
            logger.warning("a record in the database was not written by this server and counts as nothing")
            return None
        return Record(value=value, owner=owner)

    def _trim(self, conn: Connection, user_id: str) -> None:
        if conn.execute(SIZE_OF_USER, {"user": user_id}).scalar_one() > self._most_of_user:
            conn.execute(TRIM_USER, {"user": user_id, "most": self._most_of_user})
        if conn.execute(SIZE).scalar_one() > self._most:
            conn.execute(TRIM, {"most": self._most})


def forget_session(conn: Connection, key: SessionKey) -> None:
    """Delete the records of a session that is being deleted."""
    conn.execute(OF_SESSION, {"user": key.user_id, "session": key.session_id})
