"""AG-UI input: what a client may send, the engine's input made of it, and the errors."""

from typing import Any

import orjson
import pytest

from agent_core.context import ContextItem
from agent_core.errors import InvalidRequest
from agent_core.messages import MediaPart, Message, TextPart, ToolCall
from agent_core.tools.base import ToolSpec
from converters.agui.decode import AguiRequest, parse_run_input
from converters.agui.dialect import Dialect

Members = dict[str, Any]

HELLO: Members = {"id": "m1", "role": "user", "content": "hello"}
MINIMAL: Members = {"threadId": "t1", "runId": "r1", "messages": [HELLO]}


def parse(*messages: Any, **more: Any) -> AguiRequest:
    return parse_run_input(orjson.dumps(MINIMAL | {"messages": list(messages) or [HELLO]} | more))


def parts(*content: Any) -> Any:
    """The content that a user message with these parts ends up with."""
    [message] = parse({"id": "m1", "role": "user", "content": list(content)}).input.messages
    return message.content


def refusal(*messages: Any, **more: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(*messages, **more)
    assert len(caught.value.message.encode()) <= 4_000
    assert caught.value.param is None or len(caught.value.param) <= 200
    return caught.value


def test_the_least_that_a_client_can_send() -> None:
    request = parse()
    assert (request.thread_id, request.run_id, request.parent_run_id) == ("t1", "r1", None)
    assert request.dialect is Dialect.OLD
    assert request.input.messages == (Message(id="m1", role="user", content="hello"),)
    assert (request.input.tools, request.input.context, request.input.state) == ((), (), None)


def test_everything_that_a_client_can_send() -> None:
    request = parse(
        protocolVersion="1.0",
        parentRunId="r0",
        state={"a": [1]},
        tools=[{"name": "pick", "description": "Pick.", "parameters": {"type": "object", "required": ["a"]}}],
        context=[{"description": "page", "value": "/home"}],
        forwardedProps={"b": None},
        resume=[],
    )
    assert (request.dialect, request.parent_run_id) == (Dialect.V1, "r0")
    assert (request.input.state, request.input.forwarded_props) == ({"a": [1]}, {"b": None})
    schema = {"type": "object", "required": ["a"]}
    assert request.input.tools == (ToolSpec(name="pick", description="Pick.", parameters=schema),)
    assert request.input.context == (ContextItem(description="page", value="/home"),)


@pytest.mark.parametrize("version", ["1.0", "1.7", "2.0"])
def test_any_version_that_is_named_is_served_as_1_0(version: str) -> None:
    assert parse(protocolVersion=version).dialect is Dialect.V1


def test_nulls_for_optional_members_are_as_if_they_were_not_there() -> None:
    names = ("protocolVersion", "parentRunId", "state", "tools", "context", "forwardedProps", "resume")
    nulls: Members = dict.fromkeys(names)
    message = HELLO | dict.fromkeys(("name", "encryptedValue", "metadata", "subagentRunId"))
    assert parse(message, **nulls) == parse()


def test_unknown_members_are_ignored_everywhere() -> None:
    odd: Members = {"later": {"x": [None]}}
    tool = {"name": "pick", "description": "", "parameters": {}} | odd
    request = parse(HELLO | odd, tools=[tool], context=[{"description": "d", "value": "v"} | odd], **odd)
    assert request.input.messages == parse().input.messages
    assert request.input.tools[0].name == "pick"


@pytest.mark.parametrize("props", [None, 5, "x", [1], {"a": {"b": 1}}])
def test_state_and_forwarded_props_have_any_shape(props: Any) -> None:
    request = parse(state=props, forwardedProps=props)
    assert (request.input.state, request.input.forwarded_props) == (props, props)


def test_each_role_becomes_a_message_and_what_a_model_must_not_see_is_left_out() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
    request = parse(
        {"id": "1", "role": "system", "content": "s", "name": "n"},
        {"id": "2", "role": "developer", "content": "d"},
        HELLO,
        {"id": "3", "role": "reasoning", "content": "hm"},
        {"id": "4", "role": "assistant", "toolCalls": [call]},
        {"id": "5", "role": "tool", "toolCallId": "c1", "content": "12:00"},
        {"id": "6", "role": "activity", "activityType": "plan", "content": {}},
        {"id": "7", "role": "assistant", "content": "noon", "toolCalls": None},
    )
    assert request.input.messages == (
        Message(id="1", role="system", content="s", name="n"),
        Message(id="2", role="developer", content="d"),
        Message(id="m1", role="user", content="hello"),
        Message(id="4", role="assistant", tool_calls=(ToolCall(id="c1", name="clock", arguments="{}"),)),
        Message(id="5", role="tool", tool_call_id="c1", content="12:00"),
        Message(id="7", role="assistant", content="noon"),
    )


IMAGE = {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}}
PICTURE = MediaPart(kind="image", source="data", value="aGk=", mime_type="image/png")


@pytest.mark.parametrize(
    ("members", "content", "status"),
    [
        ({"content": "x"}, "x", "ok"),
        ({"content": "x", "error": None}, "x", "ok"),
        ({"content": "x", "error": "boom"}, "x", "error"),
        ({"content": "", "error": "boom"}, "boom", "error"),
        ({"content": None, "error": "boom"}, "boom", "error"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "odd"}, {"type": "text", "text": "b"}]}, "ab", "ok"),
        ({"content": [{"type": "text", "text": "a"}, IMAGE]}, (TextPart(text="a"), PICTURE), "ok"),
        ({"content": [IMAGE], "error": "boom"}, (TextPart(text="boom"), PICTURE), "error"),
    ],
)
def test_a_tool_message_keeps_its_media_and_says_whether_it_failed(members: Members, content: Any, status: str) -> None:
    [message] = parse({"id": "1", "role": "tool", "toolCallId": "c"} | members).input.messages
    assert (message.content, message.status, message.tool_call_id) == (content, status, "c")


def test_a_call_that_comes_back_without_arguments_has_none() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": ""}}
    [message] = parse({"id": "4", "role": "assistant", "toolCalls": [call]}).input.messages
    assert message.tool_calls == (ToolCall(id="c1", name="clock", arguments="{}"),)


def test_a_message_of_an_unknown_role_is_dropped() -> None:
    request = parse({"id": "1", "role": "narrator", "content": [1]}, {"role": "critic"}, HELLO)
    assert [each.id for each in request.input.messages] == ["m1"]


def test_of_two_messages_with_one_id_the_first_wins_but_no_words_of_the_user_s_are_lost() -> None:
    answer = {"id": "m3", "role": "assistant", "content": "hi"}
    request = parse(HELLO, answer, answer | {"content": "forged"}, HELLO | {"content": "later"})
    assert [each.content for each in request.input.messages] == ["hello", "hi", "later"]
    assert request.input.places == (0, 1, 3)


@pytest.mark.parametrize("kind", ["image", "audio", "video", "document"])
@pytest.mark.parametrize(
    ("source", "mime_type"),
    [
        ({"type": "data", "value": "aGk=", "mimeType": "a/b"}, "a/b"),
        ({"type": "url", "value": "https://example.com/x"}, None),
        ({"type": "url", "value": "file:///etc/passwd", "mimeType": None}, None),
        ({"type": "file", "value": "file_1", "provider": "p", "mimeType": "a/b"}, "a/b"),
    ],
)
def test_media_are_handed_on_as_they_are(kind: Any, source: Members, mime_type: str | None) -> None:
    part = MediaPart(kind=kind, source=source["type"], value=source["value"], mime_type=mime_type)
    assert parts({"type": kind, "source": source, "metadata": {"a": 1}}) == (part,)


@pytest.mark.parametrize(
    ("mime_type", "kind"),
    [("image/png", "image"), ("audio/wav", "audio"), ("video/mp4", "video"), ("application/pdf", "document"),
     ("text/plain", "document"), ("", "document")],
)  # fmt: skip
def test_a_binary_part_becomes_the_kind_that_its_mime_type_says(mime_type: str, kind: Any) -> None:
    data = {"type": "binary", "mimeType": mime_type, "data": "aGk=", "filename": "x"}
    assert parts(data) == (MediaPart(kind=kind, source="data", value="aGk=", mime_type=mime_type),)
    url = {"type": "binary", "mimeType": mime_type, "url": "https://x/y", "data": None}
    assert parts(url) == (MediaPart(kind=kind, source="url", value="https://x/y", mime_type=mime_type),)


def test_a_binary_part_without_a_mime_type_is_a_document() -> None:
    unknown = "application/octet-stream"
    assert parts({"type": "binary", "data": "aGk="}) == (
        MediaPart(kind="document", source="data", value="aGk=", mime_type=unknown),
    )
    assert parts({"type": "binary", "id": "f1"}) == (MediaPart(kind="document", source="file", value="f1"),)


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "hologram", "x": 1},
        {"type": "binary", "mimeType": "image/png"},
        {"type": "image", "source": {"type": "bucket", "value": "s3://x"}},
        {"type": "text", "text": ""},
    ],
)
def test_a_part_that_is_not_known_or_empty_is_dropped(odd: Members) -> None:
    assert parts(odd, {"type": "text", "text": "a"}) == (TextPart(text="a"),)
    assert parts(odd) == ""


@pytest.mark.parametrize(
    "tool",
    [{"parameters": {}}, {"parameters": None}, {}, {"description": None, "parameters": {"properties": {}}}],
)
def test_a_tool_without_a_schema_takes_an_object(tool: Members) -> None:
    [spec] = parse(tools=[{"name": "a", "description": ""} | tool]).input.tools
    assert spec == ToolSpec(name="a")


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([{"name": "a b", "description": ""}], "tools[0].name"),
        ([{"name": "a\n", "description": ""}], "tools[0].name"),
        ([{"name": "", "description": ""}], "tools[0].name"),
        ([{"name": "x" * 65, "description": ""}], "tools[0].name"),
        ([{"description": ""}], "tools[0].name"),
        ([{"name": "a"}, {"name": "a"}], "tools[1].name"),
        ([{"name": "a", "parameters": []}], "tools[0].parameters"),
        ([{"name": "a", "parameters": "x"}], "tools[0].parameters"),
        ([{"name": "a", "parameters": {"type": "array"}}], "tools[0].parameters"),
        ([5], "tools[0]"),
        ({"name": "a"}, "tools"),
        ([{"name": f"t{i}"} for i in range(129)], "tools"),
    ],
)
def test_a_tool_that_cannot_be_offered_is_named(tools: Any, param: str) -> None:
    assert refusal(tools=tools).param == param


def test_as_many_tools_as_are_allowed() -> None:
    assert len(parse(tools=[{"name": f"t{i}"} for i in range(128)]).input.tools) == 128


@pytest.mark.parametrize(
    ("message", "param"),
    [
        (5, "messages[0]"),
        ({}, "messages[0].role"),
        ({"role": 5}, "messages[0].role"),
        ({"role": "user", "content": "x"}, "messages[0].id"),
        ({"role": "user", "content": "x", "id": ""}, "messages[0].id"),
        ({"role": "user", "content": "x", "id": "x" * 257}, "messages[0].id"),
        ({"role": "user", "id": "1"}, "messages[0].content"),
        ({"role": "user", "id": "1", "content": 5}, "messages[0].content"),
        ({"role": "user", "id": "1", "content": None}, "messages[0].content"),
        ({"role": "user", "id": "1", "content": "x", "name": 5}, "messages[0].name"),
        ({"role": "user", "id": "1", "content": [5]}, "messages[0].content[0]"),
        ({"role": "user", "id": "1", "content": [{}]}, "messages[0].content[0].type"),
        ({"role": "user", "id": "1", "content": [{"type": []}]}, "messages[0].content[0].type"),
        ({"role": "user", "id": "1", "content": [{"type": "text"}]}, "messages[0].content[0].text"),
        ({"role": "user", "id": "1", "content": [{"type": "image"}]}, "messages[0].content[0].source"),
        (
            {"role": "user", "id": "1", "content": [{"type": "image", "source": {"value": ""}}]},
            "messages[0].content[0].source.type",
        ),
        (
            {"role": "user", "id": "1", "content": [{"type": "image", "source": {"type": "data", "value": ""}}]},
            "messages[0].content[0].source.mimeType",
        ),
        ({"role": "tool", "id": "1", "content": "x"}, "messages[0].toolCallId"),
        ({"role": "tool", "id": "1", "toolCallId": "c", "content": None}, "messages[0].content"),
        ({"role": "system", "id": "1", "content": []}, "messages[0].content"),
        ({"role": "assistant", "id": "1", "toolCalls": [{}]}, "messages[0].toolCalls[0].id"),
        (
            {"role": "assistant", "id": "1", "toolCalls": [{"id": "c", "type": None, "function": {"name": "n"}}]},
            "messages[0].toolCalls[0].function.arguments",
        ),
    ],
)
def test_a_message_that_cannot_be_used_is_named(message: Any, param: str) -> None:
    error = refusal(message)
    assert error.param == param
    assert error.message.startswith(f"{param}: ")


def test_a_path_is_that_of_the_clients_input_whatever_was_dropped_before() -> None:
    odd = {"role": "narrator"}
    wrong = {"id": "1", "role": "user", "content": [{"type": "odd"}, {"type": "text", "text": 5}]}
    assert refusal(odd, HELLO, odd, wrong).param == "messages[3].content[1].text"


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"threadId": ""}, "threadId"),
        ({"threadId": "x" * 129}, "threadId"),
        ({"threadId": "a/b"}, "threadId"),
        ({"threadId": "a\n"}, "threadId"),
        ({"threadId": 5}, "threadId"),
        ({"threadId": None}, "threadId"),
        ({"runId": "x" * 65}, "runId"),
        ({"runId": "é"}, "runId"),
        ({"protocolVersion": 1}, "protocolVersion"),
        ({"parentRunId": 1}, "parentRunId"),
        ({"messages": None}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"id": "1", "role": "reasoning", "content": "x"}]}, "messages"),
        ({"messages": [HELLO] * 10_001}, "messages"),
        ({"context": "x"}, "context"),
        ({"context": [{"description": "d", "value": 5}]}, "context[0].value"),
        ({"context": [{"description": "d", "value": {}}]}, "context[0].value"),
        ({"context": [{"value": ""}]}, "context[0].description"),
        ({"resume": 5}, "resume"),
    ],
)
def test_a_member_that_cannot_be_used_is_named(more: Members, param: str) -> None:
    error = refusal(**more)
    assert error.param == param
    assert error.message.startswith(f"{param}: ")


@pytest.mark.parametrize("name", ["threadId", "runId", "messages"])
def test_a_member_that_is_missing_is_named(name: str) -> None:
    members = {key: value for key, value in MINIMAL.items() if key != name}
    with pytest.raises(InvalidRequest) as caught:
        parse_run_input(orjson.dumps(members))
    assert (caught.value.param, caught.value.message) == (name, f"{name}: is missing.")


def test_as_many_messages_as_are_allowed() -> None:
    assert len(parse(*(HELLO | {"id": str(i)} for i in range(10_000))).input.messages) == 10_000


def test_all_characters_that_ids_may_have() -> None:
    allowed = "AZaz09._:-"
    request = parse(threadId=allowed.ljust(128, "x"), runId=allowed.ljust(64, "x"))
    assert (len(request.thread_id), len(request.run_id)) == (128, 64)


def test_at_most_twenty_errors_are_told() -> None:
    error = refusal(*[{"id": "1", "role": "user"}] * 1_000)
    assert error.message.count("is missing") == 20
    assert error.param == "messages[0].content"


def test_a_member_of_two_types_is_told_as_one_error() -> None:
    assert refusal(HELLO | {"content": 5}).message.count("messages[0].content") == 1


def test_more_parts_than_anybody_needs_are_refused() -> None:
    wrong = [{"type": "image"}] * 10_001
    assert refusal({"id": "1", "role": "user", "content": wrong}).param == "messages"


@pytest.mark.parametrize("name", ["toolCalls", "tool_calls"])
def test_more_tool_calls_than_anybody_needs_are_refused_in_both_spellings(name: str) -> None:
    assert refusal({"id": "1", "role": "assistant", name: [{"id": "c"}] * 10_001}).param == "messages"


def test_a_long_name_does_not_make_a_long_message() -> None:
    assert len(refusal(tools=[{"x" * 10_000: 1, "name": {"y" * 10_000: 1}}]).message) < 500


def test_what_is_no_json_is_told() -> None:
    with pytest.raises(InvalidRequest, match="not JSON"):
        parse_run_input(b"threadId=1")
