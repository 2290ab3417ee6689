"""Requests that come again: a client that timed out, or lost its connection, and sends the same once more.

The agent must not run twice for it. A request is known again by its `Idempotency-Key` for 24 hours, and
without one, if it says that it is a retry, by its body for 10 minutes, always under its own user.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from agent_core.events import AgentEnd, RunFailed
from app.errors import Refusal
from app.runs.run import ServedRun

KEY_SECONDS = 24 * 3600.0
BODY_SECONDS = 600.0

MOST = 1_000
"""Runs that are remembered at the same time; the oldest go first."""


class OtherBody(Refusal):
    """The key was used for another request."""

    status = 422

    def __init__(self) -> None:
        super().__init__("This Idempotency-Key was used for another request body.", param="Idempotency-Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a request is known by. `key` is None where it brought none; `again` says that it is a retry."""

    user_id: str
    body: bytes
    key: str | None
    again: bool

    @classmethod
    def of(cls, user_id: str, body: bytes, key: str | None, retry_count: str) -> "Claim":
        """`retry_count` is the header x-stainless-retry-count, whatever it says."""
        again = retry_count.isdecimal() and int(retry_count[:9]) > 0
        return cls(user_id=user_id, body=hashlib.sha256(body).digest(), key=key, again=again)


@dataclass(frozen=True, slots=True)
class _Known:
    claim: Claim
    run: ServedRun
    until: float


class Repeats:
    """The runs of requests that may come again."""

    def __init__(self, *, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._known: dict[tuple[str, str | bytes], _Known] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, claim: Claim) -> ServedRun | None:
        """The run of the same request, where it can still answer. Raises OtherBody."""
        self._tidy()
        known = self._known.get(_name(claim))
        if known is None or not (claim.key is not None or claim.again):
            return None
        if known.claim.body != claim.body:
            raise OtherBody
        return known.run if _answers(known.run) else None

    def remember(self, claim: Claim, run: ServedRun) -> None:
        """Know this run again by its request."""
        seconds = KEY_SECONDS if claim.key is not None else BODY_SECONDS
        self._forget(_name(claim))
        self._known[_name(claim)] = _Known(claim, run, self._now() + seconds)
        self._tidy()

    def _tidy(self) -> None:
        for name, known in list(self._known.items()):
            if known.until <= self._now():
                self._forget(name)
        while len(self._known) > MOST:
            self._forget(next(iter(self._known)))

    def _forget(self, name: tuple[str, str | bytes]) -> None:
        known = self._known.pop(name, None)
        if known is not None:
            known.run.drop()  # nobody comes back to it any more


def _name(claim: Claim) -> tuple[str, str | bytes]:
    return claim.user_id, claim.body if claim.key is None else f"key {claim.key}"


def _answers(run: ServedRun) -> bool:
    """Whether the run can be given out again: not where it was given up because its client left, nor where
    it failed before any tool ran, for then a retry is meant to try again."""
    end = run.end
    if not run.log.whole:
        return False
    if isinstance(end, RunFailed):
        return run.acted
    return not (isinstance(end, AgentEnd) and end.status == "cancelled")
