"""What a page of an allowed origin may send: any header, the names of which are bounded and nothing but names."""

import httpx
import pytest

from app.cors import LONGEST
from tests.app.test_main import KEY, KEYED, client

PAGE = "http://localhost:3000"
OPENAI = (
    "authorization,content-type,openai-organization,openai-project,x-stainless-arch,x-stainless-lang,x-stainless-os,"
    "x-stainless-package-version,x-stainless-retry-count,x-stainless-runtime,x-stainless-runtime-version,"
    "x-stainless-timeout"
)


async def preflight(http: httpx.AsyncClient, path: str, names: str, method: str = "POST") -> httpx.Response:
    headers = {
        "origin": PAGE,
        "access-control-request-method": method,
        "access-control-request-headers": names,
    }
    return await http.options(path, headers=headers)


@pytest.mark.parametrize("names", [OPENAI, "x-tenant", "x-mine,x-yours", "X-Session-Id, Idempotency-Key"])
@pytest.mark.parametrize("path", ["/agui", "/agui/one", "/v1/chat/completions", "/sessions/t/resume"])
async def test_any_header_may_be_sent_from_an_allowed_origin(path: str, names: str) -> None:
    async with client(KEYED) as http:
        allowed = await preflight(http, path, names)
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, PAGE)
    assert allowed.headers["access-control-allow-headers"] == names
    assert "access-control-allow-credentials" not in allowed.headers
    assert "Access-Control-Request-Headers" in allowed.headers["vary"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PATCH", "DELETE"])
async def test_every_method_that_there_is_may_be_used_with_a_header(method: str) -> None:
    async with client(KEYED) as http:
        assert (await preflight(http, "/sessions/t", "x-mine", method)).status_code == 200


async def test_without_a_list_nothing_is_repeated() -> None:
    async with client(KEYED) as http:
        headers = {"origin": PAGE, "access-control-request-method": "DELETE"}
        allowed = await http.options("/sessions/t", headers=headers)
    assert allowed.status_code == 200
    assert "access-control-allow-headers" not in allowed.headers


@pytest.mark.parametrize(
    "names", ["x" * (LONGEST + 1), "x-a," * (LONGEST // 4) + "x", "x-a: 1", "x-a\u00e9", "<script>"]
)
async def test_a_list_that_is_too_long_or_no_list_of_names_is_refused_and_not_repeated(names: str) -> None:
    async with client(KEYED) as http:
        headers = {"origin": PAGE, "access-control-request-method": "POST"}
        asked = [*headers.items(), ("access-control-request-headers", names.encode("latin-1"))]
        refused = await http.options("/agui", headers=asked)  # type: ignore[arg-type]
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (
        400,
        "invalid_request",
        "access-control-request-headers",
    )
    assert "access-control-allow-headers" not in refused.headers
    assert names not in refused.text


async def test_another_origin_may_send_nothing() -> None:
    async with client(KEYED) as http:
        headers = {
            "origin": "http://localhost:3001",
            "access-control-request-method": "POST",
            "access-control-request-headers": "x-mine",
        }
        refused = await http.options("/agui", headers=headers)
    assert refused.status_code == 403
    assert not [name for name in refused.headers if name.startswith("access-control")]


async def test_answers_say_which_of_their_headers_a_page_may_read() -> None:
    async with client(KEYED) as http:
        headers = {"origin": PAGE, "authorization": f"Bearer {KEY}", "x-mine": "1"}
        answer = await http.get("/agents", headers=headers)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, PAGE)
    exposed = answer.headers["access-control-expose-headers"].lower()
    assert {name.strip() for name in exposed.split(",")} == {"retry-after", "x-request-id", "x-should-retry"}
