"""Runs of requests that may come again, in this process. `engine.sessions.earlier` asks the session itself."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from agent_core.events import AgentEnd, RunFailed
from app.retries.claim import Claim, OtherBody
from app.runs.run import ServedRun

MOST = 1_000
"""Runs that are remembered at the same time; the oldest go first."""


@dataclass(frozen=True, slots=True)
class _Known:
    claim: Claim
    run: ServedRun
    until: float


Name = tuple[str, str] | tuple[str, str | None, bytes]
"""A user and a key, or a user, a session and a body."""


class KnownRuns:
    """The runs of requests that may come again, as this process remembers them; MOST at the same time."""

    def __init__(self, *, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._known: dict[Name, _Known] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, claim: Claim) -> ServedRun | None:
        """The run of the same request, if it can still answer. Raises OtherBody."""
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
        """Know this run by its request."""
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
            known.run.drop()  # no request comes back to it


def _name(claim: Claim) -> Name:
    return (claim.user_id, claim.session_id, claim.body) if claim.key is None else (claim.user_id, claim.key)


def _answers(run: ServedRun) -> bool:
    """Whether the run answers a retry too. A cancelled run does not, nor one that failed before any tool ran: then the
    retry is meant to try again."""
    end = run.end
    if not run.log.whole:
        return False
    if isinstance(end, RunFailed):
        return run.acted
    return not (isinstance(end, AgentEnd) and end.status == "cancelled")
