"""What came of a tool's call, as clients of both kinds are told it."""

from agent_core.events import ToolResultEnd
from agent_core.messages import MediaPart, Part, TextPart
from converters.agui.dialect import Dialect
from tests.converters.agui.streams import RUN, convert

PICTURE = MediaPart(kind="image", source="data", value="QUJD", mime_type="image/png")
LINK = MediaPart(kind="document", source="url", value="https://example.org/a.pdf")


def result(*parts: Part, text: str = "") -> ToolResultEnd:
    return ToolResultEnd(run_id=RUN, call_id="c1", name="draw", message_id="m1", status="ok", content=text, parts=parts)


def test_a_result_with_media_is_parts_for_a_client_of_1_0() -> None:
    [shown] = convert(result(TextPart(text="here: "), PICTURE, LINK, text="here: "))
    assert shown["content"] == [
        {"type": "text", "text": "here: "},
        {"type": "image", "source": {"type": "data", "value": "QUJD", "mimeType": "image/png"}},
        {"type": "document", "source": {"type": "url", "value": "https://example.org/a.pdf"}},
    ]


def test_clients_of_before_1_0_get_its_text() -> None:
    [shown] = convert(result(TextPart(text="he"), PICTURE, TextPart(text="re"), text="here"), dialect=Dialect.OLD)
    assert shown["content"] == "here"


def test_a_result_without_parts_is_a_text_for_both() -> None:
    for dialect in Dialect:
        [shown] = convert(result(text="12:00"), dialect=dialect)
        assert shown == {
            "type": "TOOL_CALL_RESULT",
            "messageId": "m1",
            "toolCallId": "c1",
            "content": "12:00",
            "role": "tool",
        }


def test_parts_that_no_frame_can_carry_are_left_at_their_text() -> None:
    large = MediaPart(kind="image", source="url", value="é" * 600_000)
    [shown] = convert(result(TextPart(text="a\ud800"), large, text="a\ud800"))
    assert shown["content"] == "a\ufffd"


def test_lone_surrogates_in_parts_are_replaced() -> None:
    [shown] = convert(result(TextPart(text="a\ud800"), PICTURE, text="a\ud800"))
    assert shown["content"][0]["text"] == "a\ufffd"
