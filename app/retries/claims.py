"""Requests that name no session and may come again, as the store knows them: for all servers on it, and after a
restart. What this process remembers by itself (`repeats.py`) is asked first.

A request with a key claims it before its run begins. A claim says which run it is, and belongs to its worker as long
as that is alive; before the run's first call begins, it says that too. At the end the answer takes its place. So
whoever comes with the same key is given the answer, waits for it, or, where the worker is gone, takes the claim over;
but never where a call had begun, for nobody knows what it has done. A run that was stopped behind its first call leaves
what it had done: the next run of the same request goes on from there.

A request without a key is only put down when its first call begins, or when its client leaves early: before that there
is nothing that must not be done twice.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import time

import msgspec
from starlette.requests import ClientDisconnect

from agent_core.engine import Engine
from agent_core.errors import Code, RunError
from agent_core.stored import StoredAnswer
from app.errors import RETRY_SECONDS, Refusal
from app.retries.places import Claimed, Name, Place, given_by, lost, name_of
from app.retries.repeats import Claim, OtherBody
from app.settings import Settings

POLL, LONGEST_POLL = 0.1, 1.0
"""Seconds between two looks at a claim that somebody else works on: the first, and the longest."""

LATE = 60.0
"""Seconds beyond its deadline after which a run that is still said to be under way is taken for lost."""


class StillAnswered(Refusal):
    """Another worker is answering the same request; it may come again."""

    code: Code = "session_busy_timeout"

    def __init__(self) -> None:
        headers = {"retry-after": str(RETRY_SECONDS)}
        super().__init__("Another worker is still answering the same request.", headers=headers)


class Claims:
    """The claims of all users. `draining` says whether this server takes no new runs."""

    def __init__(self, engine: Engine, settings: Settings, draining: Callable[[], bool]) -> None:
        self._engine = engine
        self._records = engine.records
        self._patience = settings.queue_seconds
        self._longest = settings.run_seconds + LATE
        self._draining = draining
        self._turns: dict[Name, list[asyncio.Lock]] = {}
        self._under_way: Counter[Name] = Counter()

    @asynccontextmanager
    async def turn(self, claim: Claim) -> AsyncGenerator[None, None]:
        """For the same request in this process, one after another: the second finds what the first has begun."""
        name = name_of(claim)
        locks = self._turns.setdefault(name, [asyncio.Lock()])
        locks.append(locks[0])  # one place for each that is here
        try:
            async with locks[0]:
                yield
        finally:
            locks.pop()
            if len(locks) == 1:
                self._turns.pop(name, None)

    async def enter(self, claim: Claim, run_id: str, gone: Callable[[], Awaitable[bool]]) -> StoredAnswer | Place:
        """The answer that the same request was given before, or a place for the run that is to answer it.

        Waits while another worker is at it; `gone` says whether the client has left. Raises OtherBody, StillAnswered,
        ClientDisconnect, and RunError `store_unavailable` or `draining`.
        """
        user_id, name = name_of(claim)
        mine = Claimed(body=claim.body.hex(), run_id=run_id, created=int(time()))
        until, pause = asyncio.get_running_loop().time() + self._patience, POLL
        instead: bytes | None = None
        while True:
            owner = await self._engine.hold()
            value = msgspec.json.encode(mine)
            found = await self._records.claim(user_id, name, value, owner=owner, seconds=claim.seconds, instead=instead)
            if found is None:
                return self._place(claim, mine, stored=True)
            known = msgspec.json.decode(found.value, type=Claimed)
            if known.body != mine.body:
                raise OtherBody
            if known.answer is not None:
                return given_by(known, known.answer)
            if not self._is_held(found.owner, known, owner, (user_id, name)):
                if known.acted:
                    return given_by(known, lost(known))
                instead, mine = found.value, msgspec.structs.replace(mine, left=known.left)
                continue
            if asyncio.get_running_loop().time() >= until:
                raise StillAnswered
            if self._draining():
                raise RunError("draining")
            await asyncio.sleep(pause)
            if await gone():
                raise ClientDisconnect
            pause = min(2 * pause, LONGEST_POLL)

    def place(self, claim: Claim, run_id: str) -> Place:
        """A place for a run whose request nobody can have brought before."""
        return self._place(claim, Claimed(body=claim.body.hex(), run_id=run_id, created=int(time())), stored=False)

    def _place(self, claim: Claim, claimed: Claimed, *, stored: bool) -> Place:
        name = name_of(claim)
        self._under_way[name] += 1

        def over() -> None:
            self._under_way[name] -= 1
            if not self._under_way[name]:
                del self._under_way[name]

        return Place(self._engine, claim, claimed, stored, over)

    def _is_held(self, holder: str | None, known: Claimed, owner: str, name: Name) -> bool:
        if holder is None or time() - known.created > self._longest:
            return False
        return holder != owner or name in self._under_way
