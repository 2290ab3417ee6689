"""The store that keeps sessions in a database."""

from collections.abc import Sequence
from pathlib import Path

from agent_core.errors import RunError, StoreError
from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry, now_ms
from agent_core.sessions.journal.anchor import ANCHOR_FILE, Anchor
from agent_core.sessions.journal.chain import Journal
from agent_core.sessions.journal.key import read_key
from agent_core.sessions.records import Records
from agent_core.sessions.sql import transactions
from agent_core.sessions.sql.continuity import Continuity
from agent_core.sessions.sql.migrations import migrate
from agent_core.sessions.sql.records import SqlRecords
from agent_core.sessions.sql.work import Backend, Work
from agent_core.sessions.store import Cancel, Lease, Mark, Opened, Read
from agent_core.stored import Page, SessionInfo


class SqlStore:
    """A Store over a backend.

    The journal seals each entry. The anchor notes an append once it is committed. `lease_seconds` is how long a
    heartbeat counts. The store owns the backend and the anchor, and closes them.
    """

    def __init__(
        self, backend: Backend, journal: Journal, anchor: Anchor, continuity: Continuity, *, lease_seconds: float
    ) -> None:
        self._backend = backend
        self._journal = journal
        self._anchor = anchor
        self._continuity = continuity
        self._lease_seconds = lease_seconds
        self.records: Records = SqlRecords(backend, journal)

    async def acquire(self, key: SessionKey, owner: str) -> Lease | None:
        return await self._backend.run(
            Work(
                do=lambda conn: transactions.acquire(conn, self._journal, self._continuity, key, owner),
                durable=False,
                undone=transactions.break_lease,
            )
        )

    async def open(self, key: SessionKey, owner: str, known: Mark | None = None) -> Opened | None:
        return await self._backend.run(
            Work(
                do=lambda conn: transactions.open_session(conn, self._journal, self._continuity, key, owner, known),
                durable=False,
                undone=transactions.break_opened,
            )
        )

    async def read(self, key: SessionKey, known: Mark | None = None) -> Read:
        return await self._backend.run(
            Work(do=lambda conn: transactions.read(conn, self._continuity, key, known), durable=False)
        )

    async def load(self, key: SessionKey) -> Sequence[Entry]:
        return await self._backend.run(
            Work(do=lambda conn: transactions.load(conn, self._continuity, key), durable=False)
        )

    async def append(self, lease: Lease, entries: Sequence[Entry], *, release: bool = False) -> None:
        at, before = now_ms(), lease.head

        def note(end: tuple[int, bytes]) -> None:
            lease.head, lease.tip = end
            self._anchor.note(lease.row, lease.head, lease.tip, since=before)

        await self._backend.run(
            Work(
                do=lambda conn: transactions.append(
                    conn, self._journal, self._continuity, lease, entries, at=at, free=release
                ),
                done=note,
            )
        )

    async def release(self, lease: Lease) -> None:
        await self._backend.run(Work(do=lambda conn: transactions.release(conn, lease), durable=False))

    async def renew(self, owner: str) -> Sequence[Cancel]:
        return await self._backend.run(
            Work(do=lambda conn: transactions.renew(conn, owner, self._lease_seconds), durable=False)
        )

    async def retire(self, owner: str) -> None:
        await self._backend.run(Work(do=lambda conn: transactions.retire(conn, owner), durable=False))

    async def cancel(self, key: SessionKey, run_id: str | None = None) -> bool:
        at = now_ms()
        return await self._backend.run(Work(do=lambda conn: transactions.cancel(conn, key, run_id, at=at)))

    async def find(self, key: SessionKey) -> SessionInfo | None:
        return await self._backend.run(
            Work(do=lambda conn: transactions.find(conn, self._continuity, key), durable=False)
        )

    async def page(self, user_id: str, limit: int, after: str | None = None) -> Page:
        return await self._backend.run(
            Work(do=lambda conn: transactions.page(conn, self._continuity, user_id, limit, after), durable=False)
        )

    async def delete(self, lease: Lease) -> None:
        at, row = now_ms(), lease.row

        def note(grave: tuple[int, bytes]) -> None:
            seq, mac = grave
            if seq:
                self._anchor.note(row, seq, mac, since=seq - 1)

        await self._backend.run(
            Work(
                do=lambda conn: transactions.remove(conn, self._journal, self._continuity, lease, at=at),
                erases=True,
                done=note,
            )
        )

    async def expired(self, *, before: int | None, keep: int | None, limit: int) -> Sequence[SessionKey]:
        return await self._backend.run(
            Work(
                do=lambda conn: transactions.expired(conn, before=before, keep=keep, limit=limit),
                durable=False,
            )
        )

    async def check(self) -> None:
        await self._backend.run(Work(do=lambda conn: transactions.check(conn, self._continuity)))

    async def aclose(self) -> None:
        await self._backend.aclose()
        self._anchor.close()


async def make_store(
    backend: Backend, data_dir: Path, *, lease_seconds: float, journal_key: str | None, alone: bool
) -> SqlStore:
    """Bring the database up to date and open the journal. `alone` says that no other worker can use the database.

    Raises StoreError, and closes the backend then.
    """
    anchor: Anchor | None = None
    try:
        _make_folder(data_dir)
        while await backend.run(Work(do=migrate)):
            pass
        journal = Journal(read_key(data_dir, journal_key))
        if not await backend.run(Work(do=lambda conn: transactions.claim(conn, journal.fingerprint))):
            raise StoreError("The database's journal was sealed with another key: see OSTINATO_JOURNAL_KEY.")
        await backend.run(Work(do=lambda conn: transactions.tidy(conn, alone=alone)))
        anchor = Anchor(data_dir / ANCHOR_FILE)
        continuity = Continuity(anchor)
        await backend.run(Work(do=continuity.begin, durable=False))
    except BaseException as error:
        await backend.aclose()
        if anchor is not None:
            anchor.close()
        if isinstance(error, RunError):
            raise StoreError(f"The database cannot be used ({error.detail}).") from error
        if isinstance(error, OSError):
            raise StoreError(f"The data directory {data_dir} cannot be used ({error.strerror}).") from error
        if isinstance(error, ValueError) and not isinstance(error, StoreError):
            raise StoreError(str(error)) from error
        raise
    return SqlStore(backend, journal, anchor, continuity, lease_seconds=lease_seconds)


def _make_folder(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
