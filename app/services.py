"""The services that routes use. They are made once, when the server starts."""

from dataclasses import dataclass

from starlette.requests import Request

from agent_core.engine import Engine
from app.agents import ConverterFactory, Roster
from app.auth import Keys
from app.health import Health
from app.retries.claims import Claims
from app.retries.hidden_turns import HiddenTurns
from app.retries.known_runs import KnownRuns
from app.runs.registry import Runs
from app.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """All services. `converters` are the user's own factories; each is called once for every stream."""

    settings: Settings
    roster: Roster
    keys: Keys
    engine: Engine
    health: Health
    runs: Runs
    hidden_turns: HiddenTurns
    claims: Claims
    known_runs: KnownRuns
    converters: tuple[ConverterFactory, ...] = ()


def services_of(request: Request) -> Services:
    """The services of the request's app."""
    services = request.app.state.services
    assert isinstance(services, Services)
    return services
