"""A store that writes down what was asked of it, in order, and can be held up before and behind each step."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry
from agent_core.sessions.records import Records
from agent_core.sessions.store import Cancel, Lease, Mark, Opened, Read, Store
from agent_core.stored import Page, SessionInfo
from tests.agent_core.sessions.sql.sqlite_stores import opened

KEY = SessionKey(user_id="u", session_id="s")


class Steps(list[str]):
    """What happened, in order."""

    def happened(self, *steps: str) -> bool:
        """Whether all of these happened."""
        return all(step in self for step in steps)

    def in_order(self, *steps: str) -> bool:
        """Whether these happened, each for the first time behind the one before."""
        places = [self.index(step) if step in self else -1 for step in steps]
        return -1 not in places and places == sorted(places)


class RecordingStore:
    """Another store, watched.

    `steps` has `open`, `load` and so on when they begin and `opened`, `loaded` and so on when they are done; an
    append is `append run,message` with the kinds of its entries. `holds` has an event for each step that is to wait
    until it is set; `failing` those that raise.
    """

    def __init__(self, inner: Store, steps: Steps | None = None) -> None:
        self.inner = inner
        self.steps = Steps() if steps is None else steps
        self.holds: dict[str, asyncio.Event] = {}
        self.failing: dict[str, Exception] = {}

    @property
    def records(self) -> Records:
        return self.inner.records

    def hold(self, step: str) -> asyncio.Event:
        """Let this step wait until the event is set."""
        self.holds[step] = event = asyncio.Event()
        return event

    async def _step(self, step: str) -> None:
        self.steps.append(step)
        if step in self.holds:
            await self.holds[step].wait()
        if step in self.failing:
            raise self.failing[step]

    async def acquire(self, key: SessionKey, owner: str) -> Lease | None:
        await self._step("acquire")
        lease = await self.inner.acquire(key, owner)
        await self._step("acquired")
        return lease

    async def open(self, key: SessionKey, owner: str, known: Mark | None = None) -> Opened | None:
        await self._step("open")
        opened = await self.inner.open(key, owner, known)
        await self._step("opened")
        return opened

    async def read(self, key: SessionKey, known: Mark | None = None) -> Read:
        return await self.inner.read(key, known)

    async def load(self, key: SessionKey) -> Sequence[Entry]:
        await self._step("load")
        entries = await self.inner.load(key)
        await self._step("loaded")
        return entries

    async def append(self, lease: Lease, entries: Sequence[Entry], *, release: bool = False) -> None:
        kinds = ",".join(entry.kind for entry in entries)
        await self._step(f"append {kinds}")
        await self.inner.append(lease, entries, release=release)
        await self._step(f"appended {kinds}")

    async def release(self, lease: Lease) -> None:
        await self._step("release")
        await self.inner.release(lease)
        await self._step("released")

    async def renew(self, owner: str) -> Sequence[Cancel]:
        await self._step("renew")
        cancels = await self.inner.renew(owner)
        await self._step("renewed" if not cancels else "heard")
        return cancels

    async def retire(self, owner: str) -> None:
        await self._step("retire")
        await self.inner.retire(owner)

    async def cancel(self, key: SessionKey, run_id: str | None = None) -> bool:
        await self._step("cancel")
        return await self.inner.cancel(key, run_id)

    async def find(self, key: SessionKey) -> SessionInfo | None:
        return await self.inner.find(key)

    async def page(self, user_id: str, limit: int, after: str | None = None) -> Page:
        return await self.inner.page(user_id, limit, after)

    async def delete(self, lease: Lease) -> None:
        await self._step("delete")
        await self.inner.delete(lease)
        await self._step("deleted")

    async def expired(self, *, before: int | None, keep: int | None, limit: int) -> Sequence[SessionKey]:
        return await self.inner.expired(before=before, keep=keep, limit=limit)

    async def check(self) -> None:
        await self.inner.check()

    async def aclose(self) -> None:
        await self.inner.aclose()


async def sqlite(data_dir: Path) -> Store:
    return await opened(data_dir)


class Clock:
    """A monotonic clock that moves when it is told to."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += seconds


def stop_clock_of(patch: Callable[[str, object], None], module: str) -> Clock:
    """Put a clock of the test's in the place of the module's `monotonic`."""
    clock = Clock()
    patch(f"{module}.monotonic", clock)
    return clock
