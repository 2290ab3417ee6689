"""A run under a claim: what is stored of it, and what is not any more when it is over."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent_core import Agent, Engine
from agent_core.run import Run
from app.retries.claim import Claim
from app.retries.claimed_run import ClaimedRun
from app.retries.claims import Claims
from app.settings import Settings
from tests.doubles import Collected, ScriptedModel, says

CLAIM = Claim.of("ann", b"body", "the key", None)


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with Engine() as made:
        yield made


async def ended(engine: Engine, claimed: ClaimedRun) -> None:
    run = engine.admit(Agent("a", ScriptedModel([says("hi")])), "go", user_id="ann", session_id="s", ephemeral=True)
    assert isinstance(run, Run)
    end = await engine.start(run, Collected([]))
    await claimed.at_end(run, end)


def kept(engine: Engine) -> int:
    return len(engine.store.records._kept)  # type: ignore[attr-defined]


async def published(claimed: ClaimedRun) -> None:
    if claimed._publishing is not None:
        await claimed._publishing


async def test_a_client_that_leaves_before_the_end_may_come_again(engine: Engine) -> None:
    claims = Claims(engine, Settings(), lambda: False)
    claimed = claims.begin(CLAIM, "r1")
    assert kept(engine) == 0, "nobody can have brought it before"
    for _ in range(2):
        claimed.client_left()
        await published(claimed)
        assert kept(engine) == 1
    await ended(engine, claimed)
    assert kept(engine) == 1
    answered = await claims.enter(CLAIM, "r2", _here)
    assert not isinstance(answered, ClaimedRun)


async def test_a_client_that_leaves_when_all_is_over_leaves_no_claim_behind(engine: Engine) -> None:
    claims = Claims(engine, Settings(), lambda: False)
    claimed = claims.begin(CLAIM, "r1")
    await ended(engine, claimed)
    claimed.client_left()
    await published(claimed)
    assert kept(engine) == 0
    assert isinstance(await claims.enter(CLAIM, "r2", _here), ClaimedRun)


async def test_an_end_that_comes_before_the_claim_is_stored_leaves_no_claim_behind(engine: Engine) -> None:
    claims = Claims(engine, Settings(), lambda: False)
    claimed = claims.begin(CLAIM, "r1")
    async with claimed._writing:
        claimed.client_left()
        await asyncio.sleep(0)
        claimed._ended = True  # as `at_end` does, whose turn came first
    await published(claimed)
    assert kept(engine) == 0


async def _here() -> bool:
    return False
