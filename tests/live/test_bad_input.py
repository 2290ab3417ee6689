"""Bad input over a real socket: a 4xx in the one error shape that names the field, before any stream."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from agent_core import Agent
from tests.doubles import ScriptedModel, says
from tests.serving import Frame, run_input, serving

Change = Callable[[Frame], Any]


def without(name: str) -> Change:
    return lambda body: body.pop(name)


def with_(**members: Any) -> Change:
    return lambda body: body.update(members)


CASES: list[tuple[Change, str]] = [
    (without("threadId"), "threadId"),
    (without("runId"), "runId"),
    (without("messages"), "messages"),
    (with_(threadId=7), "threadId"),
    (with_(threadId="no spaces"), "threadId"),
    (with_(threadId="x" * 129), "threadId"),
    (with_(runId="x" * 65), "runId"),
    (with_(messages=[]), "messages"),
    (with_(messages="hi"), "messages"),
    (with_(messages=[{"id": "1", "role": "user"}]), "messages[0].content"),
    (with_(messages=[{"id": "1", "role": "user", "content": "x"}] * 10_001), "messages"),
    (with_(tools=[{"name": "no good", "description": ""}]), "tools[0].name"),
    (with_(tools="x"), "tools"),
    (with_(context=[{"description": 1, "value": "x"}]), "context[0].description"),
    (with_(resume=[{"interruptId": "i", "status": "yes"}]), "resume[0].status"),
    (with_(resume={}), "resume"),
]


@pytest.mark.parametrize(("change", "param"), CASES, ids=[f"{n}-{param}" for n, (_, param) in enumerate(CASES)])
async def test_a_wrong_field_is_named(change: Change, param: str) -> None:
    body = run_input("hi")
    change(body)
    await refused(json.dumps(body).encode(), 400, param)


def saying(content: bytes, state: bytes = b"{}") -> bytes:
    message = b'{"id":"1","role":"user","content":' + content + b"}"
    return b'{"threadId":"t","runId":"r","messages":[' + message + b'],"state":' + state + b"}"


RAW: list[tuple[bytes, int, str | None]] = [
    (b"", 400, None),
    (b"{", 400, None),
    (b"[]", 400, None),
    (b"null", 400, None),
    (b"\xff\xfe{", 400, None),
    (saying(b'"\\ud800"'), 400, "messages[0].content"),
    (saying(b'"x"', b"NaN"), 400, "state"),
    (saying(b'"x"', b"[1e400]"), 400, "state[0]"),
    (saying(b'"x"', b"[" * 300 + b"]" * 300), 400, None),
    (b"[" * 1_000_000, 400, None),
    (b'{"a":"' + b"x" * 2_000_001 + b'"}', 413, None),
]


@pytest.mark.parametrize(("body", "status", "param"), RAW, ids=range(len(RAW)))
async def test_a_body_that_is_no_good_json_is_refused(body: bytes, status: int, param: str | None) -> None:
    await refused(body, status, param)


async def refused(body: bytes, status: int, param: str | None) -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up, httpx.AsyncClient() as http:
        response = await http.post(up.url + "/agui", content=body, headers={"content-type": "application/json"})
        assert response.status_code == status, response.text
        error = response.json()["error"]
        assert set(error) == {"message", "type", "param", "code", "request_id"}
        if param is not None:
            assert error["param"] == param, error
        assert len(response.content) < 65_536
        assert len(up.server.app.state.services.engine.gate) == 0


async def test_another_content_type_is_refused() -> None:
    body = json.dumps(run_input("hi")).encode()
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", ""):
        async with serving(Agent("a", ScriptedModel([says("hi")]))) as up, httpx.AsyncClient() as http:
            response = await http.post(up.url + "/agui", content=body, headers={"content-type": content_type})
            assert response.status_code == 415
            assert response.json()["error"]["param"] == "content-type"


async def test_a_header_that_cannot_be_used_is_refused_by_name() -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up, httpx.AsyncClient() as http:
        for name, value in (("X-On-Disconnect", "later"), ("X-On-Disconnect", ""), ("X-On-Disconnect", "Cancel")):
            response = await http.post(up.url + "/agui", json=run_input("hi"), headers={name: value})
            assert (response.status_code, response.json()["error"]["param"]) == (400, name)


async def test_an_unknown_agent_is_not_found_and_a_wrong_method_is_told() -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up, httpx.AsyncClient() as http:
        response = await http.post(up.url + "/agui/nobody", json=run_input("hi"))
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")
        assert (await http.get(up.url + "/agui")).status_code == 405
        assert (await http.get(up.url + "/nothing/here")).json()["error"]["code"] == "not_found"


async def test_a_client_tool_named_like_a_server_tool_is_refused() -> None:
    from tests.agent_core.react.agents import add

    body = run_input("hi", tools=[{"name": "add", "description": "mine", "parameters": {"type": "object"}}])
    async with serving(Agent("a", ScriptedModel([says("hi")]), tools=[add])) as up, httpx.AsyncClient() as http:
        response = await http.post(up.url + "/agui", json=body)
        assert (response.status_code, response.json()["error"]["param"]) == (400, "tools[0].name")
