import asyncio
import json
import re
from contextlib import aclosing
from types import MappingProxyType
from typing import Any

import pytest

from agent_core.errors import ModelError
from agent_core.messages import MediaPart, Message, TextPart, ToolCall
from agent_core.models.base import ModelOptions, ModelRequest, Piece, TextPiece, UsagePiece
from agent_core.models.http import HttpClient, Timeouts
from agent_core.models.openai_chat import OpenAIChat, encode_request
from agent_core.tools.base import ToolSpec
from agent_core.usage import Usage
from tests.scripted import (
    Reply,
    ScriptedUpstream,
    Step,
    answer,
    done,
    error,
    finish,
    says,
    sse,
    text,
    usage,
)

HELLO = ModelRequest(messages=(Message(id="m1", role="user", content="Hello"),))


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


async def ask(model: OpenAIChat, request: ModelRequest = HELLO, *, idle: float = 10) -> list[Piece]:
    async with HttpClient(Timeouts(idle=idle)) as http, aclosing(model.stream(request, http)) as pieces:
        return [piece async for piece in pieces]


def sent(*messages: Message, replay_thinking: bool = False) -> list[dict[str, Any]]:
    body = json.loads(encode_request("m", ModelRequest(messages=messages), replay_thinking=replay_thinking))
    encoded: list[dict[str, Any]] = body["messages"]
    return encoded


def test_a_request_without_tools_has_no_tools_key() -> None:
    assert json.loads(encode_request("gpt-x", HELLO)) == {
        "model": "gpt-x",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_tools_are_sent_as_functions() -> None:
    schema = MappingProxyType({"type": "object", "properties": {"n": {"maximum": 2**80}}})
    tools = (ToolSpec(name="a", description="Does a.", parameters=schema), ToolSpec(name="b"))
    assert json.loads(encode_request("m", ModelRequest(messages=(), tools=tools)))["tools"] == [
        {"type": "function", "function": {"name": "a", "description": "Does a.", "parameters": dict(schema)}},
        {"type": "function", "function": {"name": "b", "parameters": {"type": "object", "properties": {}}}},
    ]


def test_a_conversation_is_sent_as_chat_completions_wants_it() -> None:
    call = ToolCall(
        id="c1", name="get_time", arguments='{"tz": "UTC"}', extra={"extra_content": {"google": 1}, "id": "no"}
    )
    assert sent(
        Message(id="1", role="system", content="Be brief."),
        Message(id="2", role="developer", content=(TextPart(text="Be "), TextPart(text="kind."))),
        Message(id="3", role="user", content="What time is it?", name="ada"),
        Message(
            id="4", role="assistant", thoughts=("hm",), tool_calls=(call, ToolCall(id="c2", name="x", arguments=""))
        ),
        Message(id="5", role="tool", tool_call_id="c1", name="get_time", content="12:00"),
        Message(id="6", role="tool", tool_call_id="c2", name="x", content="failed", status="error"),
        Message(id="7", role="assistant", content="Noon.", thoughts=("hm",)),
    ) == [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "What time is it?", "name": "ada"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "extra_content": {"google": 1},
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "get_time", "arguments": '{"tz": "UTC"}'},
                },
                {"id": "c2", "type": "function", "function": {"name": "x", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "12:00"},
        {"role": "tool", "tool_call_id": "c2", "content": "failed"},
        {"role": "assistant", "content": "Noon."},
    ]


def test_media_are_sent_in_their_own_shapes() -> None:
    parts = (
        TextPart(text="Look:"),
        MediaPart(kind="image", source="url", value="https://example.com/a.png"),
        MediaPart(kind="image", source="data", value="QUJD", mime_type="image/jpeg"),
        MediaPart(kind="image", source="url", value="https://example.com/a.png", detail="low"),
        MediaPart(kind="audio", source="data", value="QUJD", mime_type="audio/wav"),
        MediaPart(kind="audio", source="data", value="QUJD", mime_type="audio/mpeg"),
        MediaPart(kind="video", source="url", value="https://example.com/a.mp4"),
        MediaPart(kind="document", source="file", value="file-1"),
        MediaPart(kind="document", source="data", value="QUJD", mime_type="application/pdf", detail="a.pdf"),
        MediaPart(kind="document", source="data", value="QUJD"),
    )
    pdf = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}
    assert sent(Message(id="1", role="user", content=parts), Message(id="2", role="user", content=())) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look:"},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
                {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QUJD"}},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}},
                {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}},
                {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}},
                {"type": "file", "file": {"file_id": "file-1"}},
                {"type": "file", "file": pdf},
                {"type": "file", "file": pdf | {"filename": "document.pdf"}},
            ],
        },
        {"role": "user", "content": ""},
    ]


def test_the_media_of_tools_follow_behind_the_last_result_of_the_batch() -> None:
    picture = MediaPart(kind="image", source="data", value="QUJD")
    paper = MediaPart(kind="document", source="file", value="file-1")
    sound = MediaPart(kind="audio", source="url", value="https://example.com/a.mp3")
    calls = tuple(ToolCall(id=each, name="draw") for each in "abc")
    last = Message(id="6", role="tool", tool_call_id="d", name="draw", content=(picture,))
    assert sent(
        Message(id="1", role="assistant", tool_calls=calls),
        Message(id="2", role="tool", tool_call_id="a", name="draw", content=(TextPart(text="Here:"), picture)),
        Message(id="3", role="tool", tool_call_id="b", name="tell", content="Told."),
        Message(id="4", role="tool", tool_call_id="c", name="read", content=(paper, sound, TextPart(text="End"))),
        Message(id="5", role="assistant", tool_calls=(ToolCall(id="d", name="draw"),)),
        last,
    )[1:] == [
        {"role": "tool", "tool_call_id": "a", "content": "Here:\n[image 1 follows]"},
        {"role": "tool", "tool_call_id": "b", "content": "Told."},
        {
            "role": "tool",
            "tool_call_id": "c",
            "content": "[document 2 follows]\n(A sound was sent that cannot be passed on to you.)\nEnd",
        },
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "[image 1, from the tool draw]"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
                {"type": "text", "text": "[document 2, from the tool read]"},
                {"type": "file", "file": {"file_id": "file-1"}},
            ],
        },
        *sent(Message(id="5", role="assistant", tool_calls=(ToolCall(id="d", name="draw"),)), last),
    ]
    assert [each["role"] for each in sent(last)] == ["tool", "user"]


def test_the_model_is_told_of_media_that_have_no_shape() -> None:
    parts = (
        MediaPart(kind="image", source="file", value="file-1"),
        MediaPart(kind="audio", source="url", value="https://example.com/a.mp3"),
        MediaPart(kind="document", source="url", value="https://example.com/a.pdf"),
    )
    [message] = sent(Message(id="1", role="user", content=parts))
    assert [part["type"] for part in message["content"]] == ["text"] * 3
    assert message["content"][1]["text"] == "(A sound was sent that cannot be passed on to you.)"


def test_a_strict_tool_is_sent_as_one() -> None:
    tools = (ToolSpec(name="a"), ToolSpec(name="b"))
    request = ModelRequest(messages=(), tools=tools, options=ModelOptions(strict_tools=frozenset({"b"})))
    functions = [each["function"] for each in json.loads(encode_request("m", request))["tools"]]
    assert [each.get("strict") for each in functions] == [None, True]


BAD_URLS = [
    "localhost:8000", "ftp://h/v1", "http://", "http:///v1", "http://h:0/v1", "http://h:99999", "http://h:x/v1",
    "http://h:/v1", "https://h/v1?key=SECRET", "https://h/v1#x", "https://h/v1?", "http://h/a b", "http://[::1/v1",
    "http://h/v1\nx", "SECRET",
]  # fmt: skip


@pytest.mark.parametrize("url", BAD_URLS)
async def test_a_base_url_that_cannot_be_called_is_refused_in_one_sentence(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"^base_url: the value ") as given:
        OpenAIChat("m", base_url=url)
    later = OpenAIChat("m", api_key="k")
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(ValueError, match=r"^OPENAI_BASE_URL: the value ") as found:
        OpenAIChat("m")
    for refusal in (given, found):
        assert "SECRET" not in str(refusal.value)
        assert "\n" not in str(refusal.value)
    with pytest.raises(ModelError) as failure:
        await ask(later)
    assert (failure.value.code, failure.value.retryable) == ("model_unreachable", False)


@pytest.mark.parametrize("pasted", ["/chat/completions", "/chat/completions/", "/"])
async def test_a_pasted_address_of_the_call_is_taken_for_its_base(pasted: str) -> None:
    async with ScriptedUpstream(says("Hi")) as up:
        await ask(OpenAIChat("m", base_url=f" {up.base_url}{pasted}\n"))
        assert up.requests[0].path == "/v1/chat/completions"


def test_an_assistant_message_without_anything_is_an_empty_text() -> None:
    assert sent(Message(id="1", role="assistant")) == [{"role": "assistant", "content": ""}]


def test_thinking_is_replayed_only_where_it_is_asked_for() -> None:
    message = Message(id="1", role="assistant", content="Hi", thoughts=("hm",))
    assert sent(message) == [{"role": "assistant", "content": "Hi"}]
    assert sent(message, replay_thinking=True) == [{"role": "assistant", "content": "Hi", "reasoning_content": "hm"}]


NAMES: list[tuple[str, str]] = [
    ("Ada L.", "[from Ada L.]"),
    ("日本", "[from 日本]"),
    ("a\nb] \u202e", "[from a b]]"),
    ("x" * 200, f"[from {'x' * 64}]"),
]


@pytest.mark.parametrize(("name", "told"), NAMES)
def test_a_user_s_name_that_providers_refuse_stands_in_front_of_what_they_say(name: str, told: str) -> None:
    assert sent(Message(id="1", role="user", content="Hi", name=name)) == [{"role": "user", "content": f"{told}\nHi"}]
    picture = MediaPart(kind="image", source="url", value="u")
    [message] = sent(Message(id="1", role="user", content=(picture,), name=name))
    assert message["content"][0] == {"type": "text", "text": told}
    assert "name" not in sent(Message(id="1", role="system", content="Hi", name=name))[0]


def test_a_name_of_nothing_is_none() -> None:
    assert sent(Message(id="1", role="user", content="Hi", name=" \n")) == [{"role": "user", "content": "Hi"}]


def test_a_model_that_takes_no_media_is_told_that_there_were_some() -> None:
    told = "(An image was sent that cannot be passed on to you.)"
    picture = MediaPart(kind="image", source="url", value="u")
    call = ToolCall(id="c", name="shoot")
    conversation = (
        Message(id="1", role="user", content=(TextPart(text="look"), picture)),
        Message(id="2", role="assistant", tool_calls=(call,)),
        Message(id="3", role="tool", tool_call_id="c", name="shoot", content=(picture,)),
    )
    request = ModelRequest(messages=conversation)
    user, _, result = json.loads(encode_request("m", request, media=False))["messages"]
    assert user["content"] == [{"type": "text", "text": "look"}, {"type": "text", "text": told}]
    assert result["content"] == told


@pytest.mark.parametrize("arguments", ["", " ", "null", " null ", "[1]", "7", '"a"', '{"a": ', "NaN"])
def test_arguments_that_are_no_object_are_replayed_as_one(arguments: str) -> None:
    [message] = sent(Message(id="1", role="assistant", tool_calls=(ToolCall(id="c", name="t", arguments=arguments),)))
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"


ILLEGAL = ["functions.echo", "foo bar!", "日本", "", "x" * 65, "a\nb", "f\ud800"]


@pytest.mark.parametrize("name", ILLEGAL)
def test_a_name_that_no_tool_can_have_is_made_one(name: str) -> None:
    [message] = sent(Message(id="1", role="assistant", tool_calls=(ToolCall(id="c", name=name),)))
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", message["tool_calls"][0]["function"]["name"])


LONG = "chatcmpl-tool-0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("call_id", [LONG, "functions.f:0", "a b", "ü", "", "\ud800"])
def test_an_id_that_the_model_did_not_make_is_one_that_it_takes_and_always_the_same(call_id: str) -> None:
    call = ToolCall(id=call_id, name="t", origin="other", extra={"signature": "s"})
    conversation = (
        Message(id="1", role="assistant", tool_calls=(call,)),
        Message(id="2", role="tool", tool_call_id=call_id, content="r"),
    )
    asked, result = json.loads(encode_request("m", ModelRequest(messages=conversation), origin="mine"))["messages"]
    [told] = asked["tool_calls"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", told["id"])
    assert result["tool_call_id"] == told["id"]
    assert "signature" not in told
    assert sent(*conversation)[0]["tool_calls"][0]["id"] == told["id"]


def test_the_model_that_made_a_call_gets_its_id_and_members_back() -> None:
    call = ToolCall(id=LONG, name="t", origin="mine", extra={"signature": "s"})
    result = Message(id="2", role="tool", tool_call_id=LONG, content="r")
    request = ModelRequest(messages=(Message(id="1", role="assistant", tool_calls=(call,)), result))
    asked, answered = json.loads(encode_request("m", request, origin="mine"))["messages"]
    assert (asked["tool_calls"][0]["id"], asked["tool_calls"][0]["signature"]) == (LONG, "s")
    assert answered["tool_call_id"] == LONG


def test_an_id_that_everybody_takes_stays() -> None:
    message = Message(id="1", role="assistant", tool_calls=(ToolCall(id="aB3xK9mP2", name="t"),))
    assert sent(message)[0]["tool_calls"][0]["id"] == "aB3xK9mP2"


def test_a_lone_surrogate_in_a_request_is_replaced() -> None:
    assert sent(Message(id="1", role="user", content="a\ud83db")) == [{"role": "user", "content": "a\ufffdb"}]


def test_the_key_is_not_shown() -> None:
    assert "sk-" not in repr(OpenAIChat("m", api_key="sk-secret", headers={"x-api-key": "sk-other"}))


def test_models_with_the_same_settings_are_equal_and_can_be_keys() -> None:
    assert {OpenAIChat("m", headers={"a": "b"}): 1}[OpenAIChat("m", headers={"a": "b"})] == 1


async def test_an_answer_comes_over_a_socket_in_pieces() -> None:
    script = answer(text("Hi"), text(" there"), finish(), usage(9, 2, cached=4, reasoning=1), done())
    async with ScriptedUpstream(script) as up:
        model = OpenAIChat(
            "gpt-x", api_key="sk-test", base_url=up.base_url + "/", provider="mine", headers={"X-Org": "o"}
        )
        counts = Usage(
            provider="mine",
            model="gpt-x",
            input_tokens=9,
            output_tokens=2,
            total_tokens=11,
            cached_input_tokens=4,
            reasoning_tokens=1,
        )
        assert await ask(model) == [TextPiece("Hi"), TextPiece(" there"), UsagePiece(counts)]
    [request] = up.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer sk-test"
    assert request.headers["x-org"] == "o"
    assert request.body["model"] == "gpt-x"


async def test_key_and_base_url_come_from_the_environment_when_the_call_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = OpenAIChat("m")
    async with ScriptedUpstream(says("Hi")) as up:
        monkeypatch.setenv("OPENAI_BASE_URL", up.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", " sk-env\n")
        assert await ask(model) == [TextPiece("Hi")]
        assert up.requests[0].headers["authorization"] == "Bearer sk-env"


async def test_a_local_server_needs_no_key() -> None:
    async with ScriptedUpstream(says("Hi")) as up:
        await ask(OpenAIChat("m", base_url=up.base_url))
        assert "authorization" not in up.requests[0].headers


@pytest.mark.parametrize("base_url", [None, "", "https://api.openai.com/v1/"])
async def test_openai_itself_is_not_called_without_a_key(base_url: str | None) -> None:
    with pytest.raises(ModelError) as failure:
        await ask(OpenAIChat("m", base_url=base_url))
    assert (failure.value.code, failure.value.retryable) == ("model_auth", False)


@pytest.mark.parametrize("key", ["sk-\nx", "sk-ключ"])
async def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ModelError) as failure:
        await ask(OpenAIChat("m", api_key=key))
    assert failure.value.code == "model_auth"
    assert key not in str(failure.value)


FAULTS: dict[str, tuple[Reply, str]] = {
    "401": (error(401, "who?"), "model_auth"),
    "429": (error(429, "slow"), "model_quota"),
    "500": (error(500, "oops"), "model_unreachable"),
    "a page": (Reply(headers={"content-type": "text/html"}, steps=(b"<html>",)), "model_bad_answer"),
    "a garbage frame": (answer(text("Hi"), sse("{not json"), done()), "model_bad_answer"),
    "an error frame": (answer(text("Hi"), sse({"error": {"code": 503, "message": "x"}})), "model_unreachable"),
    "an error as JSON": (
        Reply(headers={"content-type": "application/json"}, steps=(b'{"choices":[],"error":{"code":429}}',)),
        "model_quota",
    ),
    "no end": (answer(text("Hi")), "model_bad_answer"),
    "a cut": (answer(text("Hi"), Step.DROP), "model_unreachable"),
    "a stall": (answer(text("Hi"), Step.HANG), "model_timeout"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_ends_the_stream_with_its_code(fault: str) -> None:
    reply, code = FAULTS[fault]
    async with ScriptedUpstream(reply) as up:
        with pytest.raises(ModelError) as failure:
            await ask(OpenAIChat("m", base_url=up.base_url), idle=0.1 if fault == "a stall" else 10)
        await up.closed()
    assert failure.value.code == code


@pytest.mark.parametrize("step", [Step.DROP, Step.HANG])
async def test_an_answer_that_was_whole_before_the_connection_failed_is_an_answer(step: Step) -> None:
    async with ScriptedUpstream(answer(text("Hi") + finish(), step)) as up:
        pieces = await ask(OpenAIChat("m", base_url=up.base_url), idle=0.5 if step is Step.HANG else 10)
    assert pieces == [TextPiece("Hi")]


async def test_a_completion_that_is_not_streamed_is_an_answer() -> None:
    body = json.dumps({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}).encode()
    async with ScriptedUpstream(Reply(headers={"content-type": "application/json"}, steps=(body,))) as up:
        assert await ask(OpenAIChat("m", base_url=up.base_url)) == [TextPiece("Hi")]


async def test_cancelling_closes_the_connection_to_the_provider() -> None:
    first = asyncio.Event()

    async def consume(model: OpenAIChat, http: HttpClient) -> None:
        async with aclosing(model.stream(HELLO, http)) as pieces:
            async for _ in pieces:
                first.set()

    async with ScriptedUpstream(answer(text("Hi"), Step.HANG)) as up, HttpClient() as http:
        task = asyncio.create_task(consume(OpenAIChat("m", base_url=up.base_url), http))
        await first.wait()
        assert up.open_connections == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await up.closed()


def test_options_and_the_choice_of_a_tool_are_sent_only_where_they_were_given() -> None:
    def sent(**members: Any) -> dict[str, Any]:
        request = ModelRequest(messages=(), **members)
        body: dict[str, Any] = json.loads(encode_request("m", request, limit="max_completion_tokens"))
        always = {"model", "messages", "stream", "stream_options", "tools"}
        return {name: value for name, value in body.items() if name not in always}

    tools = (ToolSpec(name="look"),)
    assert sent() == {}
    assert sent(tool_choice="required", options=ModelOptions(parallel_tool_calls=False)) == {}, "there are no tools"
    assert sent(tools=tools, tool_choice="required", options=ModelOptions(parallel_tool_calls=False)) == {
        "tool_choice": "required",
        "parallel_tool_calls": False,
    }
    assert sent(tools=tools, tool_choice="look")["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert sent(options=ModelOptions(temperature=0.0, max_tokens=5, stop=("x",), seed=0)) == {
        "temperature": 0.0,
        "max_completion_tokens": 5,
        "stop": ["x"],
        "seed": 0,
    }
