import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import aiohttp
import httpx
import pytest

from agent_core.errors import ModelError
from agent_core.models import http as module
from agent_core.models.http import HttpClient, Timeouts
from agent_core.models.idle_watch import IdleWatch
from tests.scripted import Reply, Script, ScriptedUpstream, Step, answer, done, error, refuse_port, says, sse, text

PATIENT = Timeouts(idle=10)
HASTY = Timeouts(idle=0.1)
SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def read(http: HttpClient, base_url: str) -> list[bytes]:
    headers = {"authorization": "Bearer sk-secret"}
    async with aclosing(http.post_sse(f"{base_url}/x", headers, b'{"n": 1}')) as reads:
        return [payload async for payloads in reads for payload in payloads]


async def failure_of(script: Script, timeouts: Timeouts = PATIENT) -> ModelError:
    async with ScriptedUpstream(script) as up, HttpClient(timeouts) as http:
        with pytest.raises(ModelError) as failure:
            await read(http, up.base_url)
        await up.closed() if failure.value.code == "model_timeout" else None
    assert "sk-secret" not in str(failure.value)
    return failure.value


async def test_a_json_body_goes_out_and_payloads_come_in() -> None:
    async with ScriptedUpstream(answer(sse("1"), sse("2") + sse("3"), done())) as up, HttpClient(PATIENT) as http:
        assert await read(http, up.base_url) == [b"1", b"2", b"3", b"[DONE]"]
    [request] = up.requests
    assert (request.path, request.body) == ("/v1/x", {"n": 1})
    assert request.headers["authorization"] == "Bearer sk-secret"
    assert request.headers["content-type"] == "application/json"


async def test_the_connection_is_used_again_after_a_whole_answer() -> None:
    async with ScriptedUpstream(says("Hi")) as up, HttpClient(PATIENT) as http:
        for _ in range(3):
            await read(http, up.base_url)
        assert up.connections_made == 1


async def test_the_client_can_be_used_again_after_it_was_closed() -> None:
    async with ScriptedUpstream(says("Hi")) as up, HttpClient(PATIENT) as http:
        await read(http, up.base_url)
        await http.aclose()
        await up.closed()
        await read(http, up.base_url)
        assert up.connections_made == 2


async def test_the_answer_ends_at_done_although_the_body_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINGER", 0)
    async with ScriptedUpstream(answer(sse("1"), done(), Step.HANG)) as up, HttpClient(PATIENT) as http:
        assert await read(http, up.base_url) == [b"1", b"[DONE]"]
        await up.closed()


async def test_a_json_answer_is_one_payload() -> None:
    headers = {"content-type": "application/json; charset=utf-8"}
    async with ScriptedUpstream(Reply(headers=headers, steps=(b'{"a":', b"1}"))) as up, HttpClient(PATIENT) as http:
        assert await read(http, up.base_url) == [b'{"a":1}']


async def test_a_json_answer_over_the_cap_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_JSON", 10)
    reply = Reply(headers={"content-type": "application/json"}, steps=(b'"123456', b'789"'))
    assert (await failure_of(reply)).code == "model_bad_answer"


async def test_the_last_payload_comes_without_an_empty_line_too() -> None:
    async with ScriptedUpstream(answer(sse("1"), b"data: 2")) as up, HttpClient(PATIENT) as http:
        assert await read(http, up.base_url) == [b"1", b"2"]


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (301, "model_bad_answer", False),
        (307, "model_bad_answer", False),
        (400, "model_refused", False),
        (401, "model_auth", False),
        (403, "model_auth", False),
        (404, "model_refused", False),
        (429, "model_quota", True),
        (500, "model_unreachable", True),
        (503, "model_unreachable", True),
        (524, "model_unreachable", True),
    ],
)
async def test_a_status_that_is_no_success_fails(status: int, code: str, retryable: bool) -> None:
    failure = await failure_of(error(status, "the key sk-secret", retry_after="3", location="/elsewhere"))
    assert (failure.code, failure.status, failure.retryable) == (code, status, retryable)
    assert failure.retry_after == (3 if retryable else None)
    assert "the key ***" in failure.detail


async def test_an_error_whose_body_never_ends_fails_with_its_status() -> None:
    silent = Reply(status=500, steps=(b"oops", Step.HANG))
    assert (await failure_of(silent, Timeouts(idle=0.5))).code == "model_unreachable"
    assert (await failure_of(Reply(status=401, steps=(b"oops", Step.DROP)))).code == "model_auth"


@pytest.mark.parametrize("kind", ["text/html", "text/plain", "application/octet-stream", ""])
async def test_a_success_of_another_type_is_an_unreadable_answer(kind: str) -> None:
    page = b"<html>" + b"gateway page " * 1000
    failure = await failure_of(Reply(headers={"content-type": kind} if kind else {}, steps=(page,)))
    assert (failure.code, failure.retryable) == ("model_bad_answer", False)
    assert "gateway page" in failure.detail
    assert len(failure.detail) < 600


async def test_a_port_that_nobody_listens_on_is_unreachable() -> None:
    async with HttpClient(PATIENT) as http:
        with pytest.raises(ModelError) as failure:
            await read(http, f"http://127.0.0.1:{refuse_port()}/v1")
    assert (failure.value.code, failure.value.retryable) == ("model_unreachable", True)


@pytest.mark.parametrize(
    "base_url", ["", "no url", "ftp://127.0.0.1/v1", "http://127.0.0.1:99999/v1", "http://[::1/v1"]
)
async def test_a_base_url_that_cannot_be_used_is_unreachable_and_not_tried_again(base_url: str) -> None:
    async with HttpClient(PATIENT) as http:
        with pytest.raises(ModelError) as failure:
            await read(http, base_url)
    assert (failure.value.code, failure.value.retryable) == ("model_unreachable", False)


FAULTS = {
    "closed before the headers": (Reply(raw=b"", steps=(Step.CLOSE,)), "model_unreachable", True),
    "reset before the headers": (Reply(raw=b"", steps=(Step.DROP,)), "model_unreachable", True),
    "reset in mid-stream": (answer(text("Hi"), Step.DROP), "model_unreachable", True),
    "closed in mid-stream": (answer(text("Hi"), Step.CLOSE), "model_unreachable", True),
    "half closed in mid-stream": (answer(text("Hi"), Step.HALF_CLOSE), "model_unreachable", True),
    "no HTTP": (Reply(raw=b"SSH-2.0-OpenSSH_9.2 sk-secret\r\n\r\n"), "model_bad_answer", False),
    "a bad chunk": (Reply(raw=SSE_HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n"), "model_bad_answer", False),
    "a bad encoding": (
        Reply(headers={"content-type": "text/event-stream", "content-encoding": "gzip"}, steps=(b"no gzip",)),
        "model_bad_answer",
        False,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_of_the_connection_has_its_code(fault: str) -> None:
    reply, code, retryable = FAULTS[fault]
    failure = await failure_of(reply)
    assert (failure.code, failure.retryable) == (code, retryable)


async def test_what_came_before_a_cut_is_not_lost() -> None:
    cut = asyncio.Event()
    async with ScriptedUpstream(answer(sse("1"), cut, Step.DROP)) as up, HttpClient(PATIENT) as http:
        reads = http.post_sse(up.base_url, {}, b"{}")
        assert await anext(reads) == [b"1"]
        cut.set()
        with pytest.raises(ModelError, match="model_unreachable"):
            await anext(reads)


SILENCES: dict[str, Callable[[], Script]] = {
    "before the headers": lambda: Reply(raw=b"", steps=(Step.HANG,)),
    "after the headers": lambda: answer(Step.HANG),
    "after some data": lambda: answer(text("Hi"), Step.HANG),
    "in a JSON answer": lambda: Reply(headers={"content-type": "application/json"}, steps=(b"{", Step.HANG)),
}


@pytest.mark.parametrize("silence", SILENCES)
async def test_silence_is_a_timeout_and_closes_the_connection(silence: str) -> None:
    failure = await failure_of(SILENCES[silence](), HASTY)
    assert (failure.code, failure.retryable) == ("model_timeout", False), "its client has waited long enough"


async def test_comments_that_only_keep_the_connection_alive_do_not_count() -> None:
    assert (await failure_of(answer(Step.KEEP_ALIVE), HASTY)).code == "model_timeout"


async def test_a_consumer_that_takes_its_time_is_not_the_provider_s_silence() -> None:
    loop = asyncio.get_running_loop()
    watch = IdleWatch(0.2)
    for _ in range(2):
        ready: asyncio.Future[int] = loop.create_future()
        loop.call_soon(ready.set_result, 7)
        assert await watch.wait(ready) == 7
        await asyncio.sleep(0.3)
    watch.close()


async def test_closing_the_generator_closes_the_connection() -> None:
    async with ScriptedUpstream(answer(sse("1"), Step.HANG)) as up, HttpClient(PATIENT) as http:
        reads = http.post_sse(up.base_url, {}, b"{}")
        assert await anext(reads) == [b"1"]
        assert up.open_connections == 1
        await reads.aclose()
        await up.closed()


@pytest.mark.parametrize("reply", [Reply(raw=b"", steps=(Step.HANG,)), answer(sse("1"), Step.HANG)])
async def test_cancelling_the_task_closes_the_connection(reply: Reply) -> None:
    async with ScriptedUpstream(reply) as up, HttpClient(PATIENT) as http:
        task = asyncio.create_task(read(http, up.base_url))
        await up.received()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await up.closed()


async def test_a_proxy_of_the_environment_is_used_except_for_hosts_that_it_excludes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedUpstream(says("Hi")) as proxy, HttpClient(PATIENT) as http:
        monkeypatch.setenv("http_proxy", proxy.base_url.removeprefix("http://").removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        await read(http, "http://provider.invalid/v1")
        assert proxy.requests[0].path == "http://provider.invalid/v1/x"
        await read(http, proxy.base_url)
        assert proxy.requests[1].path == "/v1/x"


async def test_a_netrc_file_does_not_get_in_the_way(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    netrc = f"{tmp_path}/netrc"
    with open(netrc, "w") as file:  # noqa: ASYNC230
        file.write("default login somebody password something\n")
    monkeypatch.setenv("NETRC", netrc)
    async with ScriptedUpstream(says("Hi")) as up, HttpClient(PATIENT) as http:
        await read(http, up.base_url)
        assert up.requests[0].headers["authorization"] == "Bearer sk-secret"


async def test_a_cancel_from_outside_is_not_taken_for_a_timeout() -> None:
    watch = IdleWatch(0)
    task = asyncio.current_task()
    assert task is not None
    # Both in the same turn of the loop: the timer that is due, and the cancel.
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await watch.wait(asyncio.get_running_loop().create_future())
    task.uncancel()
    watch.close()


def test_a_server_without_a_provider_does_not_load_the_http_stack() -> None:
    program = (
        "import sys, agent_core.models.openai_chat, agent_core.models.http as h; h.HttpClient();"
        "sys.exit(' '.join({'httpx', 'aiohttp', 'httpx_aiohttp'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr == "\n"


async def test_a_body_is_read_from_aiohttp_itself_as_long_as_httpx_aiohttp_shows_its_response() -> None:
    async with ScriptedUpstream(says("Hi")) as up, HttpClient(PATIENT) as http:
        client = await http._client(up.base_url)
        response = await client.post(f"{up.base_url}/x", {}, b"{}")
        assert module.BODY in response.extensions, "each read costs more through httpx"
        await response.aclose()


async def test_a_body_comes_through_httpx_where_aiohttps_response_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(httpx.AsyncByteStream):
        def __init__(self, response: aiohttp.ClientResponse) -> None:
            self._hidden = response

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._hidden.content.iter_any():
                yield chunk

        async def aclose(self) -> None:
            self._hidden.close()

    monkeypatch.setattr("httpx_aiohttp.transport.AiohttpResponseStream", Other)
    async with ScriptedUpstream(answer(sse("1"), done())) as up, HttpClient(PATIENT) as http:
        assert await read(http, up.base_url) == [b"1", b"[DONE]"]
