import pytest

from agent_core.errors import ModelError
from agent_core.models import sse_lines
from agent_core.models.sse_lines import SseLines


def read(*chunks: bytes) -> list[bytes]:
    lines = SseLines()
    return [payload for chunk in chunks for payload in lines.feed(chunk)] + lines.close()


CASES = {
    "line feeds": (b"data: one\n\ndata: two\n\n", [b"one", b"two"]),
    "carriage returns and line feeds": (b"data: one\r\n\r\ndata: two\r\n\r\n", [b"one", b"two"]),
    "carriage returns alone": (b"data: one\r\rdata: two\r\r", [b"one", b"two"]),
    "no space after the colon": (b"data:one\n\n", [b"one"]),
    "only one space goes": (b"data:  one\n\n", [b" one"]),
    "comments and empty lines": (b": OPENROUTER PROCESSING\n\n\n\ndata: one\n\n:\n\n", [b"one"]),
    "other fields": (b"event: delta\nid: 7\nretry: 1000\ndata: one\n\nevent: ping\n\n", [b"one"]),
    "several data lines": (b"data: one\ndata: two\n\n", [b"one\ntwo"]),
    "data without a value": (b"data\n\ndata:\n\ndata: \n\ndata: one\n\n", [b"one"]),
    "a byte order mark": (b"\xef\xbb\xbfdata: one\n\n", [b"one"]),
    "no empty line at the end": (b"data: one\n\ndata: two\n", [b"one", b"two"]),
    "no line end at the end": (b"data: one\n\ndata: two", [b"one", b"two"]),
    "U+2028 and U+0085 in a line": ("data: a\u2028b\u0085c\n\n".encode(), ["a\u2028b\u0085c".encode()]),
    "field names that only begin alike": (b"database: no\n\nDATA: no\n\ndata: one\n\n", [b"one"]),
    "nothing": (b"", []),
}


@pytest.mark.parametrize("case", CASES)
def test_the_payloads_are_the_same_wherever_the_stream_is_split(case: str) -> None:
    stream, payloads = CASES[case]
    assert read(stream) == payloads
    for first in range(len(stream) + 1):
        for second in range(first, len(stream) + 1):
            assert read(stream[:first], stream[first:second], stream[second:]) == payloads


@pytest.mark.parametrize("case", CASES)
def test_the_payloads_are_the_same_if_they_come_byte_by_byte(case: str) -> None:
    stream, payloads = CASES[case]
    assert read(*(bytes([byte]) for byte in stream)) == payloads


def test_a_payload_comes_as_soon_as_its_event_is_over() -> None:
    lines = SseLines()
    assert lines.feed(b"data: one\n") == []
    assert lines.feed(b"\ndata: tw") == [b"one"]
    assert lines.feed(b"o\r\n\r") == [b"two"]
    assert lines.feed(b"\n") == []


def test_a_line_over_the_cap_is_an_unreadable_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_lines, "MAX_LINE", 10)
    assert read(b"data: 1234\n\n") == [b"1234"]
    for chunks in ([b"data: 12345\n\n"], [b"data: 12345"], [b"data: ", b"12345\n\n"], [b"data:", b"123", b"456"]):
        with pytest.raises(ModelError) as failure:
            read(*chunks)
        assert failure.value.code == "model_bad_answer"


def test_a_stream_over_the_cap_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_lines, "MAX_STREAM", 20)
    lines = SseLines()
    assert lines.feed(b"data: 1\n\ndata: 2\n\n") == [b"1", b"2"]
    with pytest.raises(ModelError, match="longer than 20 bytes"):
        lines.feed(b":::")
