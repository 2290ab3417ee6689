"""The engine's messages as AG-UI's."""

from typing import Any

import orjson
from ag_ui.core import Message as AguiMessage
from pydantic import BaseModel, TypeAdapter

from agent_core.messages import MediaPart, Message, ResultStatus, TextPart, ToolCall
from agent_core.pairing import result_of
from converters.agui.decode import parse_run_input
from converters.agui.messages_out import to_agui

MODELS: TypeAdapter[Any] = TypeAdapter(AguiMessage)
CALL = ToolCall(id="c1", name="look_up", arguments='{"word": "a"}', extra={"google": {"thought_signature": "x"}})


def check(value: Any, model: BaseModel) -> None:
    """The members are known to the protocol under these names, and none is null."""
    known = {field.alias for field in type(model).model_fields.values()}
    assert set(value) <= known
    for name, field in type(model).model_fields.items():
        inner = getattr(model, name)
        if field.alias not in value:
            continue
        assert value[field.alias] is not None
        if isinstance(inner, BaseModel):
            check(value[field.alias], inner)
        elif isinstance(inner, list):
            for each, its in zip(value[field.alias], inner, strict=True):
                check(each, its)


def shown(*messages: Message) -> list[dict[str, Any]]:
    found = to_agui(messages)
    for each in found:
        model = MODELS.validate_python(each)
        check(each, model)
        assert orjson.loads(model.model_dump_json(by_alias=True)) == each
    return found


def test_what_people_and_systems_say() -> None:
    assert shown(
        Message(id="m1", role="system", content="be brief"),
        Message(id="m2", role="developer", content=(TextPart(text="a"), TextPart(text="b"))),
        Message(id="m3", role="user", content="hi", name="ann"),
        Message(id="m4", role="user"),
    ) == [
        {"id": "m1", "role": "system", "content": "be brief"},
        {"id": "m2", "role": "developer", "content": "ab"},
        {"id": "m3", "role": "user", "content": "hi", "name": "ann"},
        {"id": "m4", "role": "user", "content": ""},
    ]


def test_parts_keep_their_sources() -> None:
    [message] = shown(
        Message(
            id="m",
            role="user",
            content=(
                TextPart(text="look"),
                MediaPart(kind="image", source="url", value="https://a/b.png"),
                MediaPart(kind="audio", source="data", value="aGk=", mime_type="audio/wav"),
                MediaPart(kind="video", source="data", value="aGk="),
                MediaPart(kind="document", source="file", value="file_1", mime_type="application/pdf"),
            ),
        )
    )
    assert message["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "url", "value": "https://a/b.png"}},
        {"type": "audio", "source": {"type": "data", "value": "aGk=", "mimeType": "audio/wav"}},
        {"type": "video", "source": {"type": "data", "value": "aGk=", "mimeType": "application/octet-stream"}},
        {"type": "document", "source": {"type": "file", "value": "file_1", "mimeType": "application/pdf"}},
    ]


def test_an_assistant_that_only_calls_has_no_content() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "a"}'}}
    assert shown(
        Message(id="m1", role="assistant", tool_calls=(CALL,)),
        Message(id="m2", role="assistant", content="wait", tool_calls=(CALL,)),
        Message(id="m3", role="assistant", content="done"),
    ) == [
        {"id": "m1", "role": "assistant", "toolCalls": [call]},
        {"id": "m2", "role": "assistant", "content": "wait", "toolCalls": [call]},
        {"id": "m3", "role": "assistant", "content": "done"},
    ]


def test_each_block_of_thinking_is_a_message_in_front() -> None:
    assert shown(Message(id="m1", role="assistant", content="so", thoughts=("hm", "ah"))) == [
        {"id": "m1-thinking-1", "role": "reasoning", "content": "hm"},
        {"id": "m1-thinking-2", "role": "reasoning", "content": "ah"},
        {"id": "m1", "role": "assistant", "content": "so"},
    ]


def test_an_assistant_that_only_thought_is_shown_as_its_thoughts() -> None:
    assert [each["id"] for each in shown(Message(id="m1", role="assistant", thoughts=("hm",)))] == ["m1-thinking-1"]
    assert shown(Message(id="m1", role="assistant")) == []


def test_a_result_that_is_no_success_has_an_error_too() -> None:
    statuses: list[ResultStatus] = ["ok", "error", "timed_out", "interrupted", "denied", "not_run"]
    for status in statuses:
        [result] = shown(result_of(CALL, status, "so it is", message_id="t1"))
        expected = {"id": "t1", "role": "tool", "toolCallId": "c1", "content": result["content"]}
        assert result == (expected if status == "ok" else expected | {"error": result["content"]})
        assert result["content"].endswith("so it is")


def test_a_result_with_media_has_parts() -> None:
    snapshot = MediaPart(kind="image", source="data", value="QUJD", mime_type="image/png")
    assert shown(result_of(CALL, "ok", (TextPart(text="here"), snapshot), message_id="t1")) == [
        {
            "id": "t1",
            "role": "tool",
            "toolCallId": "c1",
            "content": [
                {"type": "text", "text": "here"},
                {"type": "image", "source": {"type": "data", "value": "QUJD", "mimeType": "image/png"}},
            ],
        }
    ]


def test_what_a_client_sends_back_is_read_as_what_it_was_made_of() -> None:
    messages = (
        Message(id="m0", role="user", content=(TextPart(text="a"), MediaPart(kind="image", source="url", value="u"))),
        Message(id="m1", role="assistant", content="so", tool_calls=(ToolCall(id="c1", name="x", arguments="{}"),)),
        Message(id="t1", role="tool", tool_call_id="c1", content="Error: no", status="error"),
        Message(id="m2", role="system", content="be brief"),
    )
    body = orjson.dumps({"threadId": "t", "runId": "r", "messages": to_agui(messages)})
    assert parse_run_input(body).input.messages == messages
