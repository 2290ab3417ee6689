"""The application as it is wired, over real sockets: keys, hosts, origins and the one error shape."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi.routing import APIRoute

from agent_core.agent import Agent
from agent_core.events import Event
from app.agents import AgentsError
from app.auth import BindRefused, KeysError
from app.main import create_app
from app.routes import agui, system
from app.services import Services
from app.settings import Settings
from app.telemetry import TALKATIVE
from converters.wire import Frame
from tests.app.doubles import running

KEY = "0123456789abcdef0123"
KEYED = Settings(api_keys=f"alice:{KEY}", allowed_origins="http://localhost:3000")  # type: ignore[arg-type]
ONE = Agent("one", "fake:fake")


@asynccontextmanager
async def client(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(settings, agents=[ONE])
    async with running(app, settings) as up, httpx.AsyncClient(base_url=up.url) as http:
        yield http


async def test_without_keys_a_request_needs_none() -> None:
    async with client(Settings()) as http:
        response = await http.get("/agents")
    assert response.status_code == 200
    assert response.headers["x-request-id"].startswith("req_")


async def test_with_keys_every_path_but_the_probes_needs_one() -> None:
    async with client(KEYED) as http:
        for path in ("/", "/agents", "/agui", "/nowhere"):
            refused = await http.get(path)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorized"), path
        for path in ("/healthz", "/readyz"):
            assert (await http.get(path)).status_code == 200
        assert (await http.get("/agents", headers={"authorization": f"Bearer {KEY}"})).status_code == 200
        assert (await http.get("/nowhere", headers={"authorization": f"Bearer {KEY}"})).status_code == 404


async def test_a_foreign_host_or_origin_is_turned_away_in_the_error_shape() -> None:
    async with client(Settings()) as http:
        for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
            refused = await http.get("/agents", headers=headers)
            assert refused.status_code == 403
            assert refused.json()["error"]["request_id"] == refused.headers["x-request-id"]
            assert "access-control-allow-origin" not in refused.headers
        assert (await http.get("/healthz", headers={"host": "10.1.2.3"})).status_code == 200


async def test_a_listed_origin_gets_its_preflight_answered_without_a_key() -> None:
    asks = {
        "origin": "http://localhost:3000",
        "access-control-request-method": "POST",
        "access-control-request-headers": "accept,authorization,content-type,last-event-id,x-on-disconnect",
    }
    async with client(KEYED) as http:
        allowed = await http.options("/agui", headers=asks)
        refused = await http.options("/agui", headers={**asks, "origin": "http://localhost:3001"})
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, "http://localhost:3000")
    assert "access-control-allow-credentials" not in allowed.headers
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "unauthorized")


async def test_a_page_of_a_listed_origin_can_read_refusals_too() -> None:
    async with client(KEYED) as http:
        refused = await http.get("/agents", headers={"origin": "http://localhost:3000"})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "http://localhost:3000")
    assert "X-Request-Id" in refused.headers["access-control-expose-headers"]


async def test_without_listed_origins_there_is_no_cors() -> None:
    async with client(Settings()) as http:
        response = await http.options("/agui", headers={"access-control-request-method": "POST"})
        own = await http.get("/agents", headers={"origin": str(http.base_url).rstrip("/")})
    assert response.status_code == 405
    assert own.status_code == 200
    assert not [name for name in own.headers if name.startswith("access-control")]


async def test_an_unknown_agent_is_not_found() -> None:
    body = {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "hi"}]}
    async with client(Settings()) as http:
        response = await http.post("/agui/nobody", json=body)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (404, "not_found")
    assert "'nobody'" in error["message"]


async def test_a_body_that_is_not_json_is_refused_before_it_is_read() -> None:
    async with client(Settings(body_limit=100)) as http:
        text = await http.post("/agui", content=b"{}", headers={"content-type": "text/plain"})
        large = await http.post("/agui", content=b"x" * 101, headers={"content-type": "application/json"})
    assert (text.status_code, large.status_code) == (415, 413)


async def test_what_is_streamed_stays_out_of_a_log_that_somebody_else_set_to_debug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in TALKATIVE:
        caplog.set_level(logging.DEBUG, logger=name)
    caplog.set_level(logging.DEBUG)
    body = {"threadId": "pomegranate", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "hi"}]}
    async with client(Settings()) as http:
        response = await http.post("/agui", json=body)
    assert "pomegranate" in response.text
    assert "pomegranate" not in caplog.text


def test_no_route_has_parameters_that_fastapi_would_check_in_a_shape_of_its_own() -> None:
    routes = [route for part in (agui, system) for route in part.router.routes if isinstance(route, APIRoute)]
    assert {route.path for route in routes} >= {"/", "/agents", "/agui", "/agui/{agent}", "/healthz", "/readyz"}
    for route in routes:
        needs = route.dependant
        checked = (needs.path_params, needs.query_params, needs.header_params, needs.cookie_params, needs.body_params)
        assert checked == ([], [], [], [], []), route.path


async def test_nothing_describes_the_routes_at_start() -> None:
    async with client(Settings()) as http:
        assert {(await http.get(path)).status_code for path in ("/docs", "/redoc", "/openapi.json")} == {404}


async def test_the_services_come_from_the_settings() -> None:
    class Mine:
        claims: tuple[type[Event], ...] = ()

        def convert(self, event: Event) -> Sequence[Frame]:
            return []

    settings = Settings(model="openai:other", when_busy="reject", queue_size=3, model_idle_seconds=7)
    app = create_app(settings, agents=[ONE], converters=[Mine])
    async with running(app, settings):
        services = app.state.services
        assert isinstance(services, Services)
        assert services.roster.default.model == "openai:other"
        assert (services.engine.gate.when_busy, services.engine.gate.max_waiting) == ("reject", 3)
        assert services.converters == (Mine,)


def test_two_applications_share_nothing() -> None:
    first, second = create_app(Settings(), agents=[ONE]), create_app(Settings(), agents=[ONE])
    assert first.state is not second.state


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"host": "0.0.0.0"}, BindRefused),
        ({"api_keys": "alice:short"}, KeysError),
        ({"model": "nobody:x"}, AgentsError),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(settings: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        create_app(Settings(**settings), agents=[ONE])  # type: ignore[arg-type]


def test_a_wider_bind_is_fine_with_a_key() -> None:
    create_app(Settings(host="0.0.0.0", api_key=KEY), agents=[ONE])  # type: ignore[arg-type]
