"""Requests that come again: a client that timed out, or lost its connection, and sends the same once more.

The agent must not run twice for it. A request is known again by its `Idempotency-Key` for 24 hours, and
without one, if it says that it is a retry, by its body for 10 minutes, always under its own user and in its
own session. This is what the process remembers; `earlier.py` asks the session itself.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from agent_core.errors import InvalidRequest
from agent_core.events import AgentEnd, RunFailed
from app.errors import Refusal
from app.runs.run import ServedRun

KEY_SECONDS = 24 * 3600.0
BODY_SECONDS = 600.0

LONGEST_KEY = 256
"""Characters."""

MOST = 1_000
"""Runs that are remembered at the same time; the oldest go first."""


class OtherBody(Refusal):
    """The key was used for another request."""

    status = 422

    def __init__(self) -> None:
        super().__init__("This Idempotency-Key was used for another request.", param="Idempotency-Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a request is known by. `session_id` is None where it named none, and `key` where it brought none;
    `again` says that it is a retry, and `counts` that its client would say so."""

    user_id: str
    session_id: str | None
    body: bytes
    key: str | None
    again: bool
    counts: bool

    @classmethod
    def of(
        cls, user_id: str, body: bytes, key: str | None, retry_count: str | None, session_id: str | None = None
    ) -> "Claim":
        """`key` and `retry_count` are the headers Idempotency-Key and x-stainless-retry-count, whatever they
        say. Raises InvalidRequest for a key that is too long; an empty one is none."""
        if key and len(key) > LONGEST_KEY:
            raise InvalidRequest(f"At most {LONGEST_KEY} characters are allowed.", "Idempotency-Key")
        count = retry_count or ""
        return cls(
            user_id=user_id,
            session_id=session_id,
            body=hashlib.sha256(body).digest(),
            key=key or None,
            again=count.isdecimal() and int(count[:9]) > 0,
            counts=retry_count is not None,
        )

    @property
    def seconds(self) -> float:
        """For how long it is known."""
        return BODY_SECONDS if self.key is None else KEY_SECONDS

    @property
    def may_repeat(self) -> bool:
        """Whether the same request can come again."""
        return self.key is not None or self.counts

    @property
    def is_second(self) -> bool:
        """Whether the same request may have come before."""
        return self.key is not None or self.again

    @property
    def stored_as(self) -> tuple[str, str]:
        """As what a session knows it: what it shares with all requests that have its key, and the whole of it."""
        body = self.body.hex()[:16]
        if self.key is None:
            return f"in_{body}", f"in_{body}"
        key = hashlib.sha256(self.key.encode()).hexdigest()[:16]
        return f"key_{key}", f"key_{key}_{body}"


@dataclass(frozen=True, slots=True)
class _Known:
    claim: Claim
    run: ServedRun
    until: float


Name = tuple[str, str] | tuple[str, str | None, bytes]
"""A user and a key, or a user, a session and a body."""


class Repeats:
    """The runs of requests that may come again."""

    def __init__(self, *, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._known: dict[Name, _Known] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, claim: Claim) -> ServedRun | None:
        """The run of the same request, where it can still answer. Raises OtherBody."""
        if not claim.is_second:
            return None
        self._tidy()
        known = self._known.get(_name(claim))
        if known is None:
            return None
        if (known.claim.body, known.claim.session_id) != (claim.body, claim.session_id):
            raise OtherBody
        return known.run if _answers(known.run) else None

    def remember(self, claim: Claim, run: ServedRun) -> None:
        """Know this run again by its request."""
        self._forget(_name(claim))
        self._known[_name(claim)] = _Known(claim, run, self._now() + claim.seconds)
        self._tidy()

    def _tidy(self) -> None:
        for name, known in list(self._known.items()):
            if known.until <= self._now():
                self._forget(name)
        while len(self._known) > MOST:
            self._forget(next(iter(self._known)))

    def _forget(self, name: Name) -> None:
        known = self._known.pop(name, None)
        if known is not None:
            known.run.drop()  # nobody comes back to it any more


def _name(claim: Claim) -> Name:
    return (claim.user_id, claim.session_id, claim.body) if claim.key is None else (claim.user_id, claim.key)


def _answers(run: ServedRun) -> bool:
    """Whether the run can be given out again: not where it was given up because its client left, nor where
    it failed before any tool ran, for then a retry is meant to try again."""
    end = run.end
    if not run.log.whole:
        return False
    if isinstance(end, RunFailed):
        return run.acted
    return not (isinstance(end, AgentEnd) and end.status == "cancelled")
