"""The application: everything is wired here, once."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

from fastapi import FastAPI

from agent_core.agent import Agent
from agent_core.engine import Engine
from agent_core.gate import Gate
from agent_core.models.base import Timeouts
from agent_core.sessions.storage import Storage
from app.agents import ConverterFactory, Roster, check_converters, load
from app.auth import Authenticate, HostCheck, Keys, check_bind
from app.cors import Cors
from app.error_handlers import Answers, install_handlers
from app.health import Health
from app.housekeeping import Housekeeping
from app.limits import HeaderLimit
from app.retries.claims import Claims
from app.retries.hidden_turns import HiddenTurns
from app.retries.known_runs import KnownRuns
from app.routes import agui, interrupts, openai, runs, sessions, system, transfers
from app.runs.registry import Runs
from app.services import Services
from app.settings import Settings, read_settings
from app.telemetry import hold_back_libraries


def create_app(
    settings: Settings | None = None,
    *,
    agents: Sequence[Agent] | None = None,
    converters: Sequence[ConverterFactory] = (),
) -> FastAPI:
    """The server as an ASGI application; its engine lives as long as the lifespan.

    - settings: None for those of the environment
    - agents: those that are served, the first being the default; None for the demo agents
    - converters: the user's own, classes or functions that make one converter for each stream

    Raises SettingsError, KeysError, BindRefused or AgentsError, each with one clear sentence; so does the lifespan,
    with StoreError, if the store cannot be opened.
    """
    hold_back_libraries()
    settings = settings or read_settings()
    keys = settings.read_keys()
    check_bind(settings.host, keys)
    roster = Roster(load(None).agents if agents is None else tuple(agents))
    if settings.model is not None:
        roster = roster.with_model(settings.model)
    roster.check_models()
    makers = check_converters(converters, "create_app")

    storage = settings.storage()
    # No OpenAPI: to describe the routes costs start-up time, and FastAPI checks no bodies here.
    app = FastAPI(
        title="Ostinato",
        redirect_slashes=False,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(settings, storage, roster, keys, makers),
    )
    app.state.storage = storage
    install_handlers(app)
    app.include_router(agui.router)
    app.include_router(openai.router)
    app.include_router(runs.router)
    app.include_router(sessions.router)
    app.include_router(interrupts.router)
    app.include_router(transfers.router)
    app.include_router(system.router)
    _guard(app, settings, keys)
    return app


def _lifespan(
    settings: Settings, storage: Storage, roster: Roster, keys: Keys, makers: tuple[ConverterFactory, ...]
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """What lives as long as the server: the store, the engine on it, the runs, and the housekeeping."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        store = await storage.open()
        async with (
            _closing(storage),
            Engine(
                store=store,
                gate=_gate(settings),
                timeouts=Timeouts(idle=settings.model_idle_seconds),
                lease_seconds=settings.lease_seconds,
            ) as engine,
            aclosing(runs := Runs(engine, settings)),
            aclosing(Housekeeping(engine, settings, runs.forget)) as housekeeping,
        ):
            housekeeping.start()
            app.state.services = Services(
                settings=settings,
                roster=roster,
                keys=keys,
                engine=engine,
                health=Health(engine),
                runs=runs,
                hidden_turns=HiddenTurns(engine.records),
                claims=Claims(engine, settings, lambda: runs.draining),
                known_runs=KnownRuns(),
                converters=makers,
            )
            yield

    return lifespan


@asynccontextmanager
async def _closing(storage: Storage) -> AsyncIterator[None]:
    try:
        yield
    finally:
        storage.closed()  # by the engine


def _gate(settings: Settings) -> Gate:
    return Gate(when_busy=settings.when_busy, max_waiting=settings.queue_size, wait_seconds=settings.queue_seconds)


def _guard(app: FastAPI, settings: Settings, keys: Keys) -> None:
    """Put the layers around the routes, from the inside out.

    Answers that refuse a key carry CORS headers, so that a page can read them. HostCheck stops a Host or an Origin
    that is not allowed, and HeaderLimit stops too many headers before that.
    """
    app.add_middleware(Authenticate, keys=keys)
    app.add_middleware(Answers)
    if settings.allowed_origins:
        app.add_middleware(Cors, origins=settings.allowed_origins)
    app.add_middleware(HostCheck, keyless=not keys, hosts=settings.allowed_hosts, origins=settings.allowed_origins)
    app.add_middleware(HeaderLimit)
