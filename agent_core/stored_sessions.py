"""The stored sessions: the verbs that read them, and those that change them without a run.

Folding a long session takes long, so each verb folds beside the event loop.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import msgspec

from agent_core.errors import CoreError, InvalidRequest, RunError, SessionExists
from agent_core.interrupts import Interrupt
from agent_core.messages import Message, new_id
from agent_core.names import SessionKey
from agent_core.runner import Runner
from agent_core.sessions.copies.fork import fork_entries
from agent_core.sessions.copies.portable import export_lines, import_entries
from agent_core.sessions.copies.snapshot import entries_of, snapshot_of
from agent_core.sessions.earlier import Search, answer_in, claimed_in
from agent_core.sessions.entries import Addition, Entry, addition_of, now_ms, weight_of
from agent_core.sessions.history import history_of, standing_of
from agent_core.sessions.kinds import TitledBody
from agent_core.sessions.leases import POLL, answer_of
from agent_core.sessions.standing import ROOT
from agent_core.sessions.store import LeaseLost, SessionPutBack
from agent_core.stored import EarlierRequest, Outline, Page, SessionInfo, StoredRun
from agent_core.stored_run import find_stored_run

BATCH = 100
"""Expired sessions that are asked for at a time."""

HARD = 4
"""Checking or copying entries is so many times the work of reading them."""

T = TypeVar("T")


class Sessions:
    """The sessions of all users. Every verb raises RunError `store_unavailable` if the store fails or is silent."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._store = runner.store
        self._aside = runner.aside

    async def find(self, key: SessionKey) -> SessionInfo | None:
        """The session, or None."""
        return await answer_of(self._store.find(key))

    async def page(self, user_id: str, limit: int, after: str | None = None) -> Page:
        """The user's sessions, the last written first. `after` is the `next` of the page before. Raises InvalidRequest
        for any other text."""
        return await answer_of(self._store.page(user_id, limit, after))

    async def outline(self, key: SessionKey) -> Outline:
        """The session's agents, and its state."""
        return await self._read(key, _outline_of)

    async def messages(self, key: SessionKey, agent: str, show: Callable[[Sequence[Message]], T]) -> T:
        """What `show` makes of the agent's messages. It is called beside the event loop, and what it raises is passed
        on."""
        return await self._read(key, lambda entries: show(history_of(entries, agent).messages))

    async def run(self, key: SessionKey, run_id: str) -> StoredRun | None:
        """A run that is over, or None if the session knows no such run. Raises HeldElsewhere while the run may go
        on."""
        return await find_stored_run(self._runner, key, run_id)

    async def earlier(
        self, key: SessionKey, agent: str, *, key_claim: str, claim: str, seconds: float
    ) -> EarlierRequest | None:
        """The earlier request with this claim, if one came in the last `seconds`; else None.

        Claims of requests with the same key begin with `key_claim`. Raises SessionBusy while it is answered here.
        """
        running = frozenset(run.run_id for run in self._runner.under_way(key))
        wanted = Search(agent=agent, key_claim=key_claim, claim=claim, since=now_ms() - seconds * 1000, running=running)
        async with self._runner.histories.reading(key, (agent, ROOT)) as standing:
            found = claimed_in(standing, wanted)
        if found is None or not found.same:
            return found
        answer = await self._read(key, lambda entries: answer_in(entries, wanted, key.session_id))
        return replace(found, answer=answer)

    async def interrupts(self, key: SessionKey) -> dict[str, str]:
        """The agent of each interrupt of the session, answered or not, by the interrupt's id."""
        return (await self._read(key, standing_of)).owners

    async def pending(self, key: SessionKey, agents: Sequence[str]) -> dict[str, tuple[Interrupt, ...]]:
        """The open interrupts of each of these agents that has ever asked for something."""
        wanted = [(agent, ROOT) for agent in agents]
        return await self._read(key, lambda entries: standing_of(entries, *wanted).pending(agents))

    async def taker(self, key: SessionKey, operation_id: str) -> str | None:
        """The run that took the result of this operation; None if none has."""
        return await self._read(key, lambda entries: standing_of(entries).taker_of(operation_id))

    async def export(self, key: SessionKey, title: str) -> bytes:
        """The whole session as lines of JSON, under this title."""
        return await self._read(key, lambda entries: export_lines(entries, session_id=key.session_id, title=title))

    async def snapshot(self, key: SessionKey) -> bytes:
        """The whole session as JSON; `restore` takes it back."""
        await self.find(key)  # raises if this is another database than before
        return await self._read(key, snapshot_of)

    async def bring_in(self, key: SessionKey, lines: bytes) -> None:
        """Begin a session with the lines that `export` gave of another. Raises InvalidRequest or SessionExists."""
        await self.fill(key, await self._aside(HARD * len(lines), import_entries, lines))

    async def restore(self, key: SessionKey, snapshot: bytes) -> None:
        """Begin a session with a snapshot. None of its calls is ever run. Raises InvalidRequest for bytes that are no
        snapshot, or SessionExists."""
        try:
            copy = await self._aside(len(snapshot), entries_of, snapshot)
        except msgspec.MsgspecError as error:
            raise InvalidRequest(f"This is not a snapshot of a session: {error}") from error
        await self.fill(key, copy)

    async def fork(self, key: SessionKey, agent: str, message_id: str, to: SessionKey) -> None:
        """Begin a session with a copy of this one, up to that message of the agent. Raises InvalidRequest if there is
        no such message, or SessionExists."""
        copy = await self._read(
            key, lambda entries: fork_entries(entries, agent, message_id, session_id=key.session_id), hard=HARD
        )
        await self.fill(to, copy)

    async def fill(self, key: SessionKey, entries: Sequence[Entry]) -> None:
        """Begin a session with these entries. They get new numbers. Raises SessionExists."""
        async with self._runner.writing(key, new_id("fill")) as writer:
            if writer.lease.head:
                raise SessionExists
            await writer.append(*map(Addition, entries))

    async def rename(self, key: SessionKey, title: str) -> bool:
        """Give the session another title, at once also while a run is under way. False if there is no session."""
        entry = addition_of(new_id("rename"), TitledBody(title=title))
        while runs := self._runner.under_way(key):
            writer = runs[0].lane.scope.writer
            if writer is not None:
                with suppress(LeaseLost):
                    await writer.append(entry)
                    return True
                break  # the run is ending, so the gate is free soon
            await asyncio.sleep(POLL)  # it is reading the session
        async with self._runner.writing(key, entry.entry.run_id) as writer:
            there = writer.lease.head > 0
            await writer.append(*([entry] if there else ()))
        return there

    async def delete(self, key: SessionKey, *, head: int | None = None) -> bool:
        """Stop the session's runs and delete it with all its entries. False if there was no session.

        With `head`, no run is stopped, and the session is deleted only if it has exactly so many entries.
        """
        if head is None:
            runs = self._runner.under_way(key)
            for run in runs:
                run.stop("interrupt")
            if not runs:
                await self._store.cancel(key)  # another worker may have a run
        async with self._runner.writing(key, new_id("delete")) as writer:
            there = writer.lease.head > 0 and head in (None, writer.lease.head)
            if there:
                await self._store.delete(writer.lease)
                self._runner.histories.folds.forget(key)
        return there

    async def delete_expired(self, *, before: int | None, keep: int | None) -> AsyncGenerator[SessionKey, None]:
        """Delete the sessions last written before `before` (milliseconds), and each user's beyond the `keep` newest.

        Yields each deleted session. A session stays if a run is under way, or if it is written to meanwhile.
        """
        began, passed_over = now_ms(), set[SessionKey]()
        while True:
            found = await self._store.expired(before=before, keep=keep, limit=BATCH + len(passed_over))
            old = [key for key in found if key not in passed_over]
            if not old:
                return
            for key in old:
                if await self._delete_expired(key, began):
                    yield key
                else:
                    passed_over.add(key)

    async def _delete_expired(self, key: SessionKey, began: int) -> bool:
        info = await self._store.find(key)
        if info is None or info.updated_at >= began or self._runner.under_way(key):
            return False
        try:
            return await self.delete(key, head=info.head)
        except SessionPutBack:
            return False
        except RunError as error:
            if error.code == "store_unavailable":
                raise
            return False
        except CoreError:
            return False

    async def check(self, seconds: float) -> None:
        """Raise RunError `store_unavailable` if an append would fail, or if the store does not answer in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._store.check()
        except RunError:
            raise
        except Exception as error:
            raise RunError("store_unavailable", detail=type(error).__name__) from error

    async def _read(self, key: SessionKey, fold: Callable[[Sequence[Entry]], T], *, hard: int = 1) -> T:
        entries = await answer_of(self._store.load(key))
        return await self._aside(hard * weight_of(entries), fold, entries)


def _outline_of(entries: Sequence[Entry]) -> Outline:
    standing = standing_of(entries)
    return Outline(agents=tuple(standing.agents), state=standing.session.state)
