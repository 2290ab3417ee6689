"""Chat completion requests: what SDKs send is taken, and what cannot be honoured is refused by name."""

import json
from typing import Any

import pytest

from agent_core.errors import InvalidRequest
from agent_core.messages import MediaPart, Message, TextPart, ToolCall
from agent_core.models.base import ModelOptions
from converters.openai.decode import ChatRequest, parse_chat

USER = {"role": "user", "content": "hi"}
PICK = {"type": "function", "function": {"name": "pick", "description": "d", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "pick", "arguments": '{"a":1}'}}


def parse(**members: Any) -> ChatRequest:
    return parse_chat(json.dumps({"model": "agent", "messages": [USER]} | members).encode())


def message(value: dict[str, Any]) -> Message:
    [parsed] = parse(messages=[value]).input.messages
    return parsed


def refusal(**members: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(**members)
    return caught.value


def test_the_smallest_request() -> None:
    asked = parse()
    assert (asked.agent, asked.stream, asked.include_usage, asked.events) == ("agent", False, False, False)
    assert asked.input.whole
    assert asked.input.tool_choice == "auto"
    assert asked.input.options == ModelOptions()
    assert [(each.role, each.content) for each in asked.input.messages] == [("user", "hi")]


def test_how_to_answer_is_read() -> None:
    asked = parse(stream=True, stream_options={"include_usage": True}, x_agent={"events": True})
    assert (asked.stream, asked.include_usage, asked.events) == (True, True, True)


@pytest.mark.parametrize(
    "members",
    [
        {"stream": None, "stream_options": None, "x_agent": None, "tools": None, "tool_choice": None, "stop": None},
        {"stream": True, "stream_options": {"include_obfuscation": False}, "x_agent": {"more": 1}},
        {"user": "u", "store": True, "metadata": {"a": "b"}, "service_tier": "auto", "made_up": [1, {"x": None}]},
        {"n": 1, "logprobs": False, "top_logprobs": None, "logit_bias": {}, "modalities": ["text"], "audio": None},
        {"response_format": {"type": "text"}, "functions": None, "function_call": None, "top_p": None, "seed": None},
    ],
)
def test_nulls_defaults_and_unknown_members_change_nothing(members: dict[str, Any]) -> None:
    assert parse(**members).input == parse().input


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"role": "developer", "content": "d"}, {"role": "developer", "content": "d"}),
        ({"role": "system", "content": "s", "name": "n"}, {"role": "system", "content": "s", "name": "n"}),
        ({"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
         {"role": "system", "content": "ab"}),
        ({"role": "user", "content": ""}, {"role": "user", "content": ""}),
        ({"role": "user", "content": [{"type": "text", "text": "a"}]},
         {"role": "user", "content": (TextPart(text="a"),)}),
        ({"role": "assistant", "content": "a"}, {"role": "assistant", "content": "a"}),
        ({"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}]},
         {"role": "assistant", "content": "ab"}),
        ({"role": "assistant", "content": None, "tool_calls": [CALL]},
         {"role": "assistant", "tool_calls": (ToolCall(id="c1", name="pick", arguments='{"a":1}'),)}),
        ({"role": "assistant", "tool_calls": [CALL | {"function": {"name": "pick", "arguments": ""}}]},
         {"role": "assistant", "tool_calls": (ToolCall(id="c1", name="pick", arguments="{}"),)}),
        ({"role": "assistant", "content": None, "refusal": "No."}, {"role": "assistant", "content": "No."}),
        ({"role": "assistant", "content": "a", "refusal": None, "annotations": [], "audio": None,
          "function_call": None, "parsed": None, "tool_calls": None}, {"role": "assistant", "content": "a"}),
        ({"role": "assistant", "content": "a", "reasoning_content": "r"},
         {"role": "assistant", "content": "a", "thoughts": ("r",)}),
        ({"role": "tool", "tool_call_id": "c1", "content": "r"},
         {"role": "tool", "tool_call_id": "c1", "content": "r"}),
        ({"role": "tool", "tool_call_id": "c1", "name": "n", "content": [{"type": "text", "text": "r"}]},
         {"role": "tool", "tool_call_id": "c1", "name": "n", "content": "r"}),
        ({"role": "tool", "tool_call_id": "c1", "content": None}, {"role": "tool", "tool_call_id": "c1"}),
        ({"role": "tool", "tool_call_id": "c1", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
         {"role": "tool", "tool_call_id": "c1", "content": (MediaPart(kind="image", source="url", value="u"),)}),
    ],
)  # fmt: skip
def test_a_message_of_each_role(given: dict[str, Any], expected: dict[str, Any]) -> None:
    parsed = message(given)
    assert parsed == Message(id=parsed.id, **expected)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "image_url", "image_url": {"url": "https://x/a.png", "detail": "low"}},
         MediaPart(kind="image", source="url", value="https://x/a.png", detail="low")),
        ({"type": "image_url", "image_url": "https://x/a.png"},
         MediaPart(kind="image", source="url", value="https://x/a.png")),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
         MediaPart(kind="image", source="data", value="AAAA", mime_type="image/png")),
        ({"type": "image_url", "image_url": {"url": "data:;base64,AAAA"}},
         MediaPart(kind="image", source="data", value="AAAA")),
        ({"type": "image_url", "image_url": {"url": "data:image/svg+xml,<svg/>"}},
         MediaPart(kind="image", source="url", value="data:image/svg+xml,<svg/>")),
        ({"type": "video_url", "video_url": {"url": "https://x/a.mp4"}},
         MediaPart(kind="video", source="url", value="https://x/a.mp4")),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
         MediaPart(kind="audio", source="data", value="AAAA", mime_type="audio/mpeg")),
        ({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
         MediaPart(kind="document", source="data", value="AAAA", mime_type="application/pdf", detail="a.pdf")),
        ({"type": "file", "file": {"file_data": "AAAA"}}, MediaPart(kind="document", source="data", value="AAAA")),
        ({"type": "file", "file": {"file_id": "file-1"}}, MediaPart(kind="document", source="file", value="file-1")),
    ],
)  # fmt: skip
def test_a_part_of_each_kind(part: dict[str, Any], expected: MediaPart) -> None:
    assert message({"role": "user", "content": [part]}).content == (expected,)


def test_empty_texts_are_left_out() -> None:
    empty = {"type": "text", "text": ""}
    assert message({"role": "user", "content": [empty]}).content == ""
    assert message({"role": "user", "content": [empty, {"type": "text", "text": "a"}]}).text == "a"
    assert message({"role": "tool", "tool_call_id": "c", "content": [empty]}).content == ""


def test_what_an_assistant_thought_in_parts_is_left_out() -> None:
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}]
    assert message({"role": "assistant", "content": parts}).content == "a"


def test_what_gemini_wants_back_on_a_call_is_kept() -> None:
    signed = CALL | {"extra_content": {"google": {"thought_signature": "s"}}, "index": 0}
    [call] = message({"role": "assistant", "tool_calls": [signed]}).tool_calls
    assert call.extra == {"extra_content": {"google": {"thought_signature": "s"}}}


TALK = [
    {"role": "system", "content": "s"},
    USER,
    {"role": "assistant", "content": None, "tool_calls": [CALL, CALL | {"id": "c2"}]},
    {"role": "tool", "tool_call_id": "c1", "content": "1"},
    {"role": "tool", "tool_call_id": "c2", "content": "2"},
    USER,
]


def test_the_same_conversation_has_the_same_ids() -> None:
    first, again = parse(messages=TALK).input, parse(messages=TALK, stream=True).input
    assert first.messages == again.messages
    longer = parse(messages=[*TALK, USER]).input.messages
    assert longer[: len(TALK)] == first.messages
    ids = [each.id for each in longer]
    assert len(set(ids)) == len(ids)
    assert all(len(each) == 19 and each.startswith("in_") for each in ids)


def test_another_content_or_place_is_another_id() -> None:
    one = message(USER).id
    assert message(USER | {"content": "ho"}).id != one
    assert message(USER | {"role": "system"}).id != one
    assert parse(messages=[USER, USER]).input.messages[1].id != one


def test_what_is_new_follows_the_assistants_last_message() -> None:
    asked = parse(messages=TALK)
    assert [(each.role, each.content) for each in asked.trailing] == [("tool", "1"), ("tool", "2"), ("user", "hi")]
    assert asked.answered == ("c1", "c2")


def test_without_an_assistant_everything_is_new() -> None:
    asked = parse(messages=TALK[:2])
    assert [each.role for each in asked.trailing] == ["system", "user"]
    assert asked.answered == ()


def test_nothing_is_new_behind_an_assistant_message() -> None:
    assert parse(messages=TALK[:3]).trailing == ()


def test_a_person_may_say_the_same_thing_twice_but_instructions_are_the_same_ones() -> None:
    first, again = parse(messages=TALK[:2]).news("one"), parse(messages=TALK[:2]).news("two")
    assert first[0].id == again[0].id
    assert (first[1].id, again[1].id) == ("one_1", "two_1")
    assert [each.id for each in parse(messages=TALK).news("x")] == ["x_0", "x_1", "x_2"]
    assert parse(messages=TALK).news("x")[0].tool_call_id == "c1"


def test_tools_are_read() -> None:
    [spec] = parse(tools=[PICK]).input.tools
    assert (spec.name, spec.description, spec.parameters) == ("pick", "d", {"type": "object"})


def test_the_names_of_strict_tools_are_kept_for_the_provider() -> None:
    tools = [PICK, {"function": {"name": "b", "strict": True}}, {"function": {"name": "c", "strict": False}}]
    assert parse(tools=tools).input.options.strict_tools == {"b"}


@pytest.mark.parametrize("asked", [{}, {"include_usage": False}, {"include_usage": None}])
def test_stream_options_that_ask_for_nothing_need_no_stream(asked: dict[str, Any]) -> None:
    assert parse(stream_options=asked).input == parse().input


@pytest.mark.parametrize("parameters", [None, {}])
def test_a_tool_without_parameters_takes_an_object_of_nothing(parameters: Any) -> None:
    bare = {"function": {"name": "pick", "parameters": parameters, "strict": True}}
    [spec] = parse(tools=[bare]).input.tools
    assert spec.parameters == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, "auto"),
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "function": {"name": "pick"}}, "pick"),
    ],
)
def test_the_choice_of_a_tool_is_read(choice: Any, expected: str) -> None:
    assert parse(tools=[PICK], tool_choice=choice).input.tool_choice == expected


def test_the_options_are_read() -> None:
    options = parse(
        temperature=0, top_p=0.5, max_tokens=10, stop="x", seed=-1, presence_penalty=-2, frequency_penalty=2.0,
        reasoning_effort="low", parallel_tool_calls=False,
    ).input.options  # fmt: skip
    assert options == ModelOptions(
        temperature=0.0, top_p=0.5, max_tokens=10, stop=("x",), seed=-1, presence_penalty=-2.0, frequency_penalty=2.0,
        reasoning_effort="low", parallel_tool_calls=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 6}, 6),
        ({"max_tokens": 5, "max_completion_tokens": 6}, 6),
        ({"max_tokens": 5, "max_completion_tokens": None}, 5),
    ],
)
def test_both_names_of_the_bound_are_taken(members: dict[str, Any], expected: int) -> None:
    assert parse(**members).input.options.max_tokens == expected


@pytest.mark.parametrize(("stop", "expected"), [("", ()), ([], ()), (["a", "b"], ("a", "b"))])
def test_stops_come_as_a_text_or_a_list(stop: Any, expected: tuple[str, ...]) -> None:
    assert parse(stop=stop).input.options.stop == expected


CALLS = "messages[0].tool_calls[0]"


def assistant(**members: Any) -> dict[str, Any]:
    return {"messages": [{"role": "assistant"} | members]}


def said(content: Any, role: str = "user") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content}]}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": None}, "model"),
    ({"model": ""}, "model"),
    ({"model": 1}, "model"),
    ({"messages": None}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": {}}, "messages"),
    ({"messages": [USER] * 10_001}, "messages"),
    ({"messages": [USER | {"content": [{"type": "text", "text": "a"}] * 101}] * 100}, "messages"),
    ({"messages": [USER, 1]}, "messages[1]"),
    ({"messages": [{"content": "a"}]}, "messages[0].role"),
    ({"messages": [{"role": "function", "content": "a", "name": "n"}]}, "messages[0].role"),
    ({"messages": [{"role": ["user"], "content": "a"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [USER | {"name": 1}]}, "messages[0].name"),
    (said(None), "messages[0].content"),
    (said(None, "system"), "messages[0].content"),
    (said(1), "messages[0].content"),
    (said({"type": "text"}), "messages[0].content"),
    (said(["a"]), "messages[0].content[0]"),
    (said([{"text": "a"}]), "messages[0].content[0].type"),
    (said([{"type": "text"}]), "messages[0].content[0].text"),
    (said([{"type": "text", "text": 1}], "system"), "messages[0].content[0].text"),
    (said([{"type": "image_url"}]), "messages[0].content[0].image_url"),
    (said([{"type": "image_url", "image_url": {"url": ""}}]), "messages[0].content[0].image_url.url"),
    (said([{"type": "input_audio", "input_audio": {}}]), "messages[0].content[0].input_audio.data"),
    (said([{"type": "input_audio", "input_audio": {"data": "A"}}]), "messages[0].content[0].input_audio.format"),
    (
        said([{"type": "input_audio", "input_audio": {"data": "A", "format": "a/b"}}]),
        "messages[0].content[0].input_audio.format",
    ),
    (said([{"type": "image_url", "image_url": {"url": "u", "detail": 1}}]), "messages[0].content[0].image_url.detail"),
    (said([{"type": "hologram", "x": 1}]), "messages[0].content[0].type"),
    (said([{"type": "image_url", "image_url": {"url": "u"}}], "system"), "messages[0].content[0].type"),
    (
        {"messages": [{"role": "tool", "tool_call_id": "c", "content": [{"type": "image_url"}]}]},
        "messages[0].content[0].image_url",
    ),
    ({"tools": [{"function": {"name": "a", "strict": "yes"}}]}, "tools[0].function.strict"),
    (said([{"type": "file", "file": {"filename": "a"}}]), "messages[0].content[0].file.file_data"),
    ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].tool_call_id"),
    (assistant(tool_calls=[1]), CALLS),
    (assistant(tool_calls={}), "messages[0].tool_calls"),
    (assistant(tool_calls=[CALL] * 129), "messages[0].tool_calls"),
    (assistant(tool_calls=[CALL | {"type": "custom"}]), f"{CALLS}.type"),
    (assistant(tool_calls=[CALL | {"id": ""}]), f"{CALLS}.id"),
    (assistant(tool_calls=[{"id": "c"}]), f"{CALLS}.function"),
    (assistant(tool_calls=[CALL | {"function": {"arguments": "{}"}}]), f"{CALLS}.function.name"),
    (assistant(tool_calls=[CALL | {"function": {"name": "n", "arguments": {}}}]), f"{CALLS}.function.arguments"),
    (assistant(content="a", function_call={"name": "f", "arguments": "{}"}), "messages[0].function_call"),
    (assistant(content="a", audio={"id": "a"}), "messages[0].audio"),
    (assistant(content="a", refusal=1), "messages[0].refusal"),
    ({"tools": {}}, "tools"),
    ({"tools": [PICK] * 129}, "tools"),
    ({"tools": [1]}, "tools[0]"),
    ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type"),
    ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
    ({"tools": [{"type": "function", "function": {"name": "a" * 65}}]}, "tools[0].function.name"),
    ({"tools": [PICK, PICK]}, "tools[1].function.name"),
    ({"tools": [{"function": {"name": "a", "parameters": {"type": "array"}}}]}, "tools[0].function.parameters"),
    ({"tools": [{"function": {"name": "a", "parameters": []}}]}, "tools[0].function.parameters"),
    ({"tool_choice": "any"}, "tool_choice"),
    ({"tool_choice": 1}, "tool_choice"),
    ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice.type"),
    ({"tool_choice": {"type": "function"}}, "tool_choice.function.name"),
    ({"tools": [PICK], "tool_choice": {"type": "function", "function": {"name": "no"}}}, "tool_choice.function.name"),
    (
        {
            "tools": [{"function": {"name": "none"}}],
            "tool_choice": {"type": "function", "function": {"name": "none"}},
        },
        "tool_choice.function.name",
    ),
    ({"n": 2}, "n"),
    ({"n": True}, "n"),
    ({"n": 0}, "n"),
    ({"logprobs": True}, "logprobs"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"logit_bias": {"1": 2}}, "logit_bias"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response_format"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"audio": {"voice": "v", "format": "wav"}}, "audio"),
    ({"web_search_options": {}}, "web_search_options"),
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"function_call": "auto"}, "function_call"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": False, "stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": 1}, "stream"),
    ({"stream": "true"}, "stream"),
    ({"stream": True, "stream_options": []}, "stream_options"),
    ({"stream": True, "stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
    ({"x_agent": []}, "x_agent"),
    ({"x_agent": {"events": 1}}, "x_agent.events"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": "1"}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": 1.01}, "top_p"),
    ({"presence_penalty": -2.5}, "presence_penalty"),
    ({"frequency_penalty": 2.5}, "frequency_penalty"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_completion_tokens": -1}, "max_completion_tokens"),
    ({"max_tokens": True}, "max_tokens"),
    ({"seed": 2**64 - 1}, "seed"),
    ({"seed": "1"}, "seed"),
    ({"stop": 1}, "stop"),
    ({"stop": ["a"] * 5}, "stop"),
    ({"stop": ["a", ""]}, "stop[1]"),
    ({"reasoning_effort": "huge"}, "reasoning_effort"),
    ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
]


@pytest.mark.parametrize(("members", "param"), REFUSED, ids=[f"{at}-{param}" for at, (_, param) in enumerate(REFUSED)])
def test_what_cannot_be_honoured_is_refused_by_name(members: dict[str, Any], param: str) -> None:
    error = refusal(**members)
    assert error.param == param
    assert error.message.startswith(f"{param}: ")


def test_a_message_of_an_error_is_bounded_whatever_it_quotes() -> None:
    tool = {"function": {"name": "a" * 64}}
    assert len(refusal(tools=[tool, tool]).message) < 200


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"x"', b"\xff", b'{"model":NaN}'])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_chat(body)


@pytest.mark.parametrize(
    ("given", "told"), [({}, "is missing"), ({"messages": None}, "is missing"), ({"messages": []}, "at least one")]
)
def test_no_messages_are_missing_and_an_empty_list_has_too_few(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest, match=told) as refused:
        parse_chat(json.dumps({"model": "a", **given}).encode())
    assert refused.value.param == "messages"
