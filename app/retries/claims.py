"""Requests that name no session and may come again, as the store knows them: for all its servers, and after a restart.

This process's own memory is asked first (`known_runs.py`).

A request with a key stores its claim before its run begins. The claim names the run, and belongs to its worker while
that is alive. Before the run's first call begins, the claim says so; at the end it gets the answer. So the same request
again is given the answer, or waits for it, or takes the claim over if the worker is gone. It never takes over a claim
of which a call had begun: nobody knows what that has done. A run that was stopped after its first call leaves what it
had done, and the next run of the same request goes on from there.

A request without a key is stored when its first call begins, or when its client leaves early: before that nothing was
done that must not be done twice.
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
from app.retries.claim import Claim, OtherBody
from app.retries.claimed_run import Claimed, ClaimedRun, Name, given_by, lost, name_of
from app.settings import Settings

POLL, LONGEST_POLL = 0.1, 1.0
"""Seconds between two looks at a claim that another worker holds: at first, and at most."""

LATE = 60.0
"""Seconds beyond its deadline after which a run is assumed lost, though its claim is still held."""


class StillAnswered(Refusal):
    """Another worker is still answering the same request. The client may send it again."""

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
        self._locks: dict[Name, list[asyncio.Lock]] = {}
        self._under_way: Counter[Name] = Counter()

    @asynccontextmanager
    async def one_at_a_time(self, claim: Claim) -> AsyncGenerator[None, None]:
        """Let equal requests of this process wait for each other: the second finds what the first has begun."""
        name = name_of(claim)
        locks = self._locks.setdefault(name, [asyncio.Lock()])
        locks.append(locks[0])  # one item for each request that is here
        try:
            async with locks[0]:
                yield
        finally:
            locks.pop()
            if len(locks) == 1:
                self._locks.pop(name, None)

    async def enter(self, claim: Claim, run_id: str, gone: Callable[[], Awaitable[bool]]) -> StoredAnswer | ClaimedRun:
        """The earlier answer to the same request, or the claim for a run that will answer it.

        It waits while another worker holds the claim; `gone` says whether the client has left. Raises OtherBody,
        StillAnswered, ClientDisconnect, and RunError `store_unavailable` or `draining`.
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
                return self._claimed_run(claim, mine, stored=True)
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

    def begin(self, claim: Claim, run_id: str) -> ClaimedRun:
        """The claim for a run whose request cannot have come before."""
        return self._claimed_run(
            claim, Claimed(body=claim.body.hex(), run_id=run_id, created=int(time())), stored=False
        )

    def _claimed_run(self, claim: Claim, claimed: Claimed, *, stored: bool) -> ClaimedRun:
        name = name_of(claim)
        self._under_way[name] += 1

        def over() -> None:
            self._under_way[name] -= 1
            if not self._under_way[name]:
                del self._under_way[name]

        return ClaimedRun(self._engine, claim, claimed, stored, over)

    def _is_held(self, holder: str | None, known: Claimed, owner: str, name: Name) -> bool:
        if holder is None or time() - known.created > self._longest:
            return False
        return holder != owner or name in self._under_way
