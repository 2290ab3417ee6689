"""Requests that come again: known by key or body, by their own user, as long as the run can answer."""

import asyncio

import pytest

from agent_core.errors import InvalidRequest, ModelError
from app.retries.claim import BODY_SECONDS, KEY_SECONDS, Claim, OtherBody
from app.retries.known_runs import MOST, KnownRuns
from app.runs import log
from tests.app.retries.test_hidden_turns import Clock
from tests.app.runs.test_run import read, served, status_of
from tests.doubles import calls, says


def claim(
    body: str = "body", *, user: str = "ann", key: str | None = None, retry: str = "1", session: str | None = None
) -> Claim:
    return Claim.of(user, body.encode(), key, retry, session)


@pytest.mark.parametrize(
    ("told", "again"),
    [
        ("0", False),
        ("1", True),
        ("2", True),
        ("9" * 5_000, True),
        ("", False),
        ("-1", False),
        ("1.0", False),
        ("²", False),
    ],
)
def test_a_retry_is_a_count_above_zero(told: str, again: bool) -> None:
    assert claim(retry=told).again is again


def test_a_claim_does_not_hold_the_body_itself() -> None:
    one, same, other = claim("x" * 10_000), claim("x" * 10_000), claim("y")
    assert len(one.body) == 32
    assert one == same
    assert one.body != other.body


async def test_a_retry_without_a_key_finds_the_run_of_the_same_body() -> None:
    known = KnownRuns()
    async with served(says("hi")) as (run, _):
        known.remember(claim(retry="0"), run)
        assert known.find(claim(retry="1")) is run, "also while it is under way"
        assert known.find(claim("other")) is None
        await read(run.attach())
        await run.task
        assert known.find(claim(retry="2")) is run


async def test_the_same_body_that_is_no_retry_is_a_request_of_its_own() -> None:
    known = KnownRuns()
    async with served(says("hi")) as (run, _):
        known.remember(claim(retry="0"), run)
        assert known.find(claim(retry="0")) is None
        await read(run.attach())


async def test_a_key_finds_its_run_whether_or_not_it_says_that_it_is_a_retry() -> None:
    known = KnownRuns()
    async with served(says("hi")) as (run, _):
        known.remember(claim(key="k", retry=""), run)
        assert known.find(claim(key="k", retry="")) is run
        assert known.find(claim(key="k", retry="1")) is run
        assert known.find(claim(key="other")) is None
        await read(run.attach())


async def test_key_and_body_are_not_mixed_up() -> None:
    known = KnownRuns()
    async with served(says("hi")) as (run, _):
        known.remember(claim(key="k"), run)
        assert known.find(claim()) is None
        known.remember(claim("second", retry="0"), run)
        assert known.find(claim("second", key="k2")) is None
        await read(run.attach())


async def test_a_key_with_another_body_is_refused_also_when_its_run_cannot_answer() -> None:
    known = KnownRuns()
    async with served([ModelError("model_unreachable")]) as (run, _):
        known.remember(claim(key="k"), run)
        await read(run.attach())
        await run.task
        assert known.find(claim(key="k")) is None
        with pytest.raises(OtherBody) as refused:
            known.find(claim("other", key="k"))
    assert (refused.value.status, refused.value.param) == (422, "Idempotency-Key")


async def test_a_key_that_was_used_in_another_session_is_refused_and_a_body_there_is_another_request() -> None:
    known = KnownRuns()
    async with served(says("hi")) as (run, _):
        known.remember(claim(key="k", session="s1"), run)
        known.remember(claim(session="s1"), run)
        assert known.find(claim(key="k", session="s1")) is run
        assert known.find(claim(session="s1")) is run
        for session in ("s2", None):
            assert known.find(claim(session=session)) is None
            with pytest.raises(OtherBody):
                known.find(claim(key="k", session=session))
        await read(run.attach())


def test_an_empty_key_is_none_and_one_that_is_too_long_is_refused() -> None:
    assert claim(key="").key is None
    assert not Claim.of("ann", b"", "", None).may_repeat
    assert claim(key="k" * 256).key == "k" * 256
    with pytest.raises(InvalidRequest) as refused:
        claim(key="k" * 257)
    assert refused.value.param == "Idempotency-Key"


def test_a_stored_claim_tells_its_key_and_its_body() -> None:
    (key, whole), (same_key, other) = claim(key="k").stored_as, claim("other", key="k").stored_as
    assert key == same_key
    assert whole != other
    assert whole.startswith(key)
    assert claim(key="k2").stored_as[0] != key
    assert claim(retry="0").stored_as == claim(retry="1").stored_as != claim("other").stored_as


async def test_another_user_finds_nothing_and_is_told_nothing() -> None:
    known = KnownRuns()
    async with served(says("hi")) as (run, _):
        known.remember(claim(key="k"), run)
        known.remember(claim(retry="0"), run)
        assert known.find(claim(user="bob", key="k")) is None
        assert known.find(claim("other", user="bob", key="k")) is None, "no 422, which would tell that the key is used"
        assert known.find(claim(user="bob")) is None
        assert known.find(claim()) is run
        await read(run.attach())


@pytest.mark.parametrize(("key", "seconds"), [("k", KEY_SECONDS), (None, BODY_SECONDS)])
async def test_after_its_time_a_request_is_not_known_any_more(key: str | None, seconds: float) -> None:
    clock = Clock()
    known = KnownRuns(now=clock)
    async with served(says("hi")) as (run, _):
        known.remember(claim(key=key), run)
        clock.now = seconds - 1
        assert known.find(claim(key=key)) is run
        clock.now = seconds
        assert known.find(claim(key=key)) is None
        assert len(known) == 0
        await read(run.attach())


async def test_what_expires_first_goes_although_something_older_stays() -> None:
    clock = Clock()
    known = KnownRuns(now=clock)
    async with served(says("hi")) as (run, _):
        known.remember(claim(key="k"), run)
        known.remember(claim(), run)
        clock.now = BODY_SECONDS
        assert known.find(claim()) is None
        assert known.find(claim(key="k")) is run
        await read(run.attach())


async def test_too_many_give_up_the_oldest() -> None:
    known = KnownRuns()
    async with served(says("hi")) as (run, _):
        for number in range(MOST + 2):
            known.remember(claim(key=str(number)), run)
        assert len(known) == MOST
        assert known.find(claim(key="1")) is None
        assert known.find(claim(key="2")) is run
        await read(run.attach())


async def test_a_request_that_is_remembered_anew_counts_as_the_newest() -> None:
    known = KnownRuns()
    async with served(says("hi")) as (run, _):
        for number in range(MOST):
            known.remember(claim(key=str(number)), run)
        known.remember(claim(key="0"), run)
        known.remember(claim(key="one more"), run)
        assert known.find(claim(key="0")) is run
        assert known.find(claim(key="1")) is None
        await read(run.attach())


async def test_a_run_that_failed_before_any_tool_is_tried_again() -> None:
    known = KnownRuns()
    async with served([ModelError("model_unreachable")]) as (failed, _), served(says("hi")) as (second, _):
        known.remember(claim(), failed)
        await read(failed.attach())
        await failed.task
        assert known.find(claim()) is None
        known.remember(claim(), second)
        assert known.find(claim()) is second
        await read(second.attach())


async def test_a_run_that_failed_after_a_tool_is_given_out_again() -> None:
    known = KnownRuns()
    async with served(calls(("add", '{"a":1,"b":2}')), [ModelError("model_unreachable")]) as (run, _):
        known.remember(claim(), run)
        await read(run.attach())
        await run.task
        assert status_of(run) == "model_unreachable"
        assert known.find(claim()) is run, "the tool must not run a second time"


async def test_a_cancelled_run_is_not_given_out_again() -> None:
    known = KnownRuns()
    async with served([asyncio.Event()]) as (run, model):
        known.remember(claim(key="k"), run)
        attached = run.attach()
        await model.streaming.wait()
        attached.leave()
        await run.task
        assert status_of(run) == "cancelled"
        assert known.find(claim(key="k")) is None


async def test_a_run_whose_log_was_trimmed_is_not_given_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "KEPT", 1_000)
    known = KnownRuns()
    async with served(says("x" * 2_000)) as (run, _):
        known.remember(claim(key="k"), run)
        await read(run.attach())
        await run.task
        assert status_of(run) == "completed"
        assert known.find(claim(key="k")) is None
