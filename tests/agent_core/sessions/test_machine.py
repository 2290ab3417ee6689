"""Workers that start, append, rewind, pause, crash and resume in any order, against a model that is a list."""

import asyncio
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import create_engine

from agent_core.messages import Message
from agent_core.names import SessionKey
from agent_core.sessions.history import history_of
from agent_core.sessions.journal.anchor import ANCHOR_FILE, Anchor
from agent_core.sessions.journal.chain import Journal
from agent_core.sessions.journal.key import read_key
from agent_core.sessions.journal.verify import verify
from agent_core.sessions.sql.store import SqlStore
from agent_core.sessions.storage import open_store
from agent_core.sessions.store import Lease, LeaseLost
from tests.agent_core.sessions.stores import die
from tests.entries import end_entry, message_entry, rewound_entry, run_entry

SESSIONS = st.sampled_from([SessionKey(user_id="u", session_id="one"), SessionKey(user_id="u", session_id="two")])
WORKERS = st.sampled_from(["ann", "bob", "cid"])


@dataclass
class Book:
    """What a session must hold: its messages as they stand, who may write, and the run that has no end."""

    messages: list[str] = field(default_factory=list)
    holder: str | None = None
    run: str | None = None


class Workers(RuleBasedStateMachine):
    """Each worker believes in the leases that it was given; only the last one of a session counts."""

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp(prefix="ostinato-machine-"))
        self.books: dict[SessionKey, Book] = {}
        self.leases: dict[tuple[str, SessionKey], Lease] = {}
        self.alive: set[str] = set()
        self.number = 0
        self._open()

    def _open(self) -> None:
        store = self.runner.run(open_store("sqlite", self.folder, lease_seconds=600))
        assert isinstance(store, SqlStore)
        self.store = store

    def book(self, key: SessionKey) -> Book:
        return self.books.setdefault(key, Book())

    def next_id(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    @rule(worker=WORKERS, key=SESSIONS)
    def start(self, worker: str, key: SessionKey) -> None:
        """A run begins: it is let in unless another worker that is alive holds the session; what it finds
        lost it marks so."""
        book = self.book(key)
        self.runner.run(self.store.renew(worker))
        self.alive.add(worker)
        lease = self.runner.run(self.store.acquire(key, worker))
        if book.holder not in (None, worker) and book.holder in self.alive:
            assert lease is None
            return
        assert lease is not None
        self.leases[worker, key] = lease
        book.holder = worker
        history = history_of(self.runner.run(self.store.load(key)), "a")
        assert list(history.lost) == ([book.run] if book.run else [])
        book.run = self.next_id("run")
        lost = [end_entry(each, "failed", "worker_lost") for each in history.lost]
        self.runner.run(self.store.append(lease, [*lost, run_entry(book.run, "a")]))

    @rule(worker=WORKERS, key=SESSIONS, count=st.integers(1, 3))
    def append(self, worker: str, key: SessionKey, count: int) -> None:
        ids = [self.next_id("m") for _ in range(count)]
        said = [message_entry("r", "a", Message(id=each, role="user", content=each)) for each in ids]
        if self._write(worker, key, said):
            self.book(key).messages += ids

    @rule(worker=WORKERS, key=SESSIONS, place=st.integers(0, 4))
    def rewind(self, worker: str, key: SessionKey, place: int) -> None:
        messages = self.book(key).messages[:place]
        if self._write(worker, key, [rewound_entry("r", "a", messages[-1] if messages else "")]):
            self.book(key).messages = messages

    @rule(worker=WORKERS, key=SESSIONS)
    def finish(self, worker: str, key: SessionKey) -> None:
        book = self.book(key)
        if self._write(worker, key, [end_entry(book.run or "", "completed")], release=True):
            book.holder = book.run = None
            del self.leases[worker, key]

    @rule(worker=WORKERS, key=SESSIONS)
    def delete(self, worker: str, key: SessionKey) -> None:
        lease = self.leases.get((worker, key))
        if lease is None:
            return
        try:
            self.runner.run(self.store.delete(lease))
        except LeaseLost:
            assert self.book(key).holder != worker
        else:
            assert self.book(key).holder == worker
            self.books[key] = Book()

    @rule(worker=WORKERS)
    def pause(self, worker: str) -> None:
        """The worker stops for longer than its lease, and knows nothing of it."""
        self.runner.run(die(self.store, worker))
        self.alive.discard(worker)

    @rule(worker=WORKERS)
    def renew(self, worker: str) -> None:
        self.runner.run(self.store.renew(worker))
        self.alive.add(worker)

    @rule(worker=WORKERS)
    def crash(self, worker: str) -> None:
        """The worker is gone, and with it what it believed."""
        self.pause(worker)
        self.leases = {place: lease for place, lease in self.leases.items() if place[0] != worker}

    @precondition(lambda self: self.number % 3 == 0)
    @rule()
    def restart(self) -> None:
        """Everybody is gone, the store too; it is opened again."""
        self.runner.run(self.store.aclose())
        self._open()
        self.leases.clear()
        self.alive.clear()

    def _write(self, worker: str, key: SessionKey, entries: list, *, release: bool = False) -> bool:  # type: ignore[type-arg]
        lease = self.leases.get((worker, key))
        if lease is None:
            return False
        try:
            self.runner.run(self.store.append(lease, entries, release=release))
        except LeaseLost:
            assert self.book(key).holder != worker, "the one who holds the session can write"
            return False
        assert self.book(key).holder == worker, "nobody else can"
        return True

    @invariant()
    def everybody_reads_what_the_model_holds(self) -> None:
        for key, book in getattr(self, "books", {}).items():
            entries = self.runner.run(self.store.load(key))
            assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
            assert [message.id for message in history_of(entries, "a").messages] == book.messages

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        self.runner.run(self.store.aclose())
        self.runner.close()
        engine = create_engine(f"sqlite:///{self.folder / 'sessions.db'}")
        try:
            with engine.connect() as conn:
                anchor = Anchor(self.folder / ANCHOR_FILE, write=False)
                report = verify(conn, Journal(read_key(self.folder, None)), [anchor])
                anchor.close()
            assert report.whole, report.findings
        finally:
            engine.dispose()
            shutil.rmtree(self.folder)


TestWorkers = Workers.TestCase
TestWorkers.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
