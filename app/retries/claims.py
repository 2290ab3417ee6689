"""Claims: requests that name no session and may come again, kept in the store.

The store knows them for all servers on it, and after a restart. This process's own memory (`repeats.py`) is asked
first.

A request with a key claims the key before its run begins. The claim names the run, and belongs to the run's worker
while that is alive. Before the run's first call begins, the claim is marked. At the end the answer takes the claim's
place. So a second request with the same key has these ways:

- It gets the answer if there is one.
- It waits while the worker is alive.
- It takes the claim over if the worker is gone and no call had begun.
- It gets `worker_lost` if a call had begun, because nobody knows what the call has done.

A run that was stopped after its first call leaves what it has done. The next run of the same request goes on from
there.

A request without a key is stored only when its first call begins, or when its client leaves early. Before that, nothing
has been done that must not be done twice.
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
"""Seconds between two looks at a claim that another worker holds: the first wait, and the longest."""

LATE = 60.0
"""Seconds after a run's deadline. If its claim still says that it is under way, assume the run lost."""


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
        self._turns: dict[Name, list[asyncio.Lock]] = {}
        self._under_way: Counter[Name] = Counter()

    @asynccontextmanager
    async def turn(self, claim: Claim) -> AsyncGenerator[None, None]:
        """Let equal requests in this process go one after another, so that the second finds the run of the first."""
        name = name_of(claim)
        locks = self._turns.setdefault(name, [asyncio.Lock()])
        locks.append(locks[0])  # count this request: one more item for each that is here
        try:
            async with locks[0]:
                yield
        finally:
            locks.pop()
            if len(locks) == 1:
                self._turns.pop(name, None)

    async def enter(self, claim: Claim, run_id: str, gone: Callable[[], Awaitable[bool]]) -> StoredAnswer | Place:
        """The earlier answer to the same request, or a place for a run that will answer it.

        Waits while another worker answers the request. `gone` says whether the client has left. Raises OtherBody,
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
        """A place for the run of a request that cannot have come before."""
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
