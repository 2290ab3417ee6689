"""A claim in the store, and the run that answers it."""

import asyncio
import hashlib
import logging
from collections.abc import Callable

import msgspec

from agent_core.engine import Engine
from agent_core.errors import SENTENCES, RunError
from agent_core.events import AgentEnd, Event, RequireExternalExecution, RunFailed
from agent_core.messages import Message
from agent_core.retold import retold
from agent_core.run import Run
from agent_core.stored import StoredAnswer
from app.retries.claim import Claim
from app.retries.hidden_turns import HiddenTurn, left_of

logger = logging.getLogger(__name__)

Name = tuple[str, str]
"""A user, and the claim's name in the store."""


class Answered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a run ended, the messages that its client was told, and the calls that wait for the client."""

    session_id: str
    messages: tuple[Message, ...]
    end: AgentEnd | RunFailed
    waiting: tuple[str, ...] = ()


class Claimed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A claim as it is stored.

    - body: the hash of the request's body
    - run_id, created: the run that answers it, and when that began (seconds since 1970)
    - acted: whether a call of the run has begun
    - answer: what it was answered
    - left: what a run had done that was stopped after its first call; the next run goes on from there
    """

    body: str
    run_id: str
    created: int
    acted: bool = False
    answer: Answered | None = None
    left: HiddenTurn | None = None


class ClaimedRun:
    """A run under a claim: what happens to the run is stored with the claim."""

    def __init__(self, engine: Engine, claim: Claim, claimed: Claimed, stored: bool, over: Callable[[], None]) -> None:
        self._engine = engine
        self._records = engine.records
        self._claim = claim
        self._claimed = claimed
        self._stored = stored
        self._over = over
        self._ended = False
        self._writing = asyncio.Lock()
        self._publishing: asyncio.Task[None] | None = None

    @property
    def run_id(self) -> str:
        return self._claimed.run_id

    @property
    def left(self) -> HiddenTurn | None:
        """What an earlier run of the same request had done before it was stopped; None without one."""
        return self._claimed.left

    async def before_calls(self) -> None:
        """Store that a call begins. Raises RunError `worker_lost` if another worker has taken the claim over.

        A claim that is not stored yet is stored now: a retry must find it if this server is lost from now on. The run
        goes on if that fails, because its request cannot have come before.
        """
        async with self._writing:
            if self._claimed.acted:
                return
            self._claimed = msgspec.structs.replace(self._claimed, acted=True)
            if not self._stored:
                await self._store()
                return
            owner = await self._engine.hold()
            if not await self._keep(held_by=owner, owner=owner):
                raise RunError("worker_lost", detail="another worker has taken the request over")

    async def at_end(self, run: Run, end: AgentEnd | RunFailed) -> None:
        """Store the answer with the claim; for a request that is to be tried again, what the next run goes on from."""
        try:
            async with self._writing:
                self._ended = True
                if self._stored:
                    await self._settle(run, end)
        finally:
            self._over()

    async def give_up(self) -> None:
        """Release the claim: the run did not begin."""
        try:
            await self._release(await self._engine.hold())
        finally:
            self._over()

    def client_left(self) -> None:
        """Store the claim: the client left before the end, and may come again."""
        if not (self._stored or self._ended) and self._publishing is None:
            self._publishing = asyncio.get_running_loop().create_task(self._publish())

    async def _publish(self) -> None:
        async with self._writing:
            if not (self._stored or self._ended):
                await self._store()

    async def _store(self) -> None:
        try:
            await self._keep(owner=await self._engine.hold())
            self._stored = True
        except RunError as error:
            logger.warning("run %s: its request could not be stored (%s)", self.run_id, error.detail or error.code)

    async def _settle(self, run: Run, end: AgentEnd | RunFailed) -> None:
        owner = await self._engine.hold()
        if _is_tried_again(run, end):
            if run.acted or self._claimed.left is not None:
                self._claimed = msgspec.structs.replace(self._claimed, acted=False, left=left_of(run))
            await self._release(owner)
            return
        known = {message.id for message in run.input.messages}
        said = [each for each in run.messages if each.role == "assistant" and each.id not in known]
        answer = Answered(
            session_id=run.key.session_id,
            messages=tuple(said),
            end=end,
            waiting=tuple(call.id for call in run.left_to_client),
        )
        self._claimed = msgspec.structs.replace(self._claimed, answer=answer)
        lasts = isinstance(end, AgentEnd) and bool(end.interrupts)
        await self._keep(held_by=owner, session_id=run.key.session_id if lasts else "")

    async def _release(self, owner: str) -> None:
        """Let the same request be tried again, from what was left on."""
        if self._claimed.left is None:
            await self._records.discard(*name_of(self._claim), held_by=owner)
        else:
            await self._keep(held_by=owner)

    async def _keep(self, *, held_by: str | None = None, owner: str | None = None, session_id: str = "") -> bool:
        value = msgspec.json.encode(self._claimed)
        return await self._records.keep(
            *name_of(self._claim),
            value,
            seconds=self._claim.seconds,
            session_id=session_id,
            held_by=held_by,
            owner=owner,
        )


def _is_tried_again(run: Run, end: AgentEnd | RunFailed) -> bool:
    if isinstance(end, RunFailed):
        return end.code == "draining" or not run.acted
    return end.status == "cancelled"


def name_of(claim: Claim) -> Name:
    """The user and the name under which the claim is stored."""
    if claim.key is None:
        return claim.user_id, f"body:{claim.body.hex()}"
    return claim.user_id, f"key:{hashlib.sha256(claim.key.encode()).hexdigest()}"


def lost(known: Claimed) -> Answered:
    failed = RunFailed(run_id=known.run_id, code="worker_lost", message=SENTENCES["worker_lost"])
    return Answered(session_id="", messages=(), end=failed)


def given_by(known: Claimed, answer: Answered) -> StoredAnswer:
    events: list[Event] = [*retold(known.run_id, answer.messages)]
    if isinstance(answer.end, AgentEnd) and answer.waiting:
        events.append(RequireExternalExecution(run_id=known.run_id, call_ids=answer.waiting))
    events.append(answer.end)
    return StoredAnswer(run_id=known.run_id, session_id=answer.session_id, created=known.created, events=tuple(events))
