"""Reading a body as JSON: the bodies that are refused, and the place that the error names."""

import pytest

from agent_core.errors import InvalidRequest
from converters.parsing import DEEPEST, MOST_VALUES, read_object, shorten, step


def refusal(body: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        read_object(body)
    return caught.value


@pytest.mark.parametrize(
    ("body", "param", "says"),
    [
        (b'{"a":[1,{"b":NaN}]}', "a[1].b", "finite"),
        (b'{"x":"ok","a":-Infinity}', "a", "finite"),
        (b'{"state":{"n":1e400}}', "state.n", "finite"),
        (b'{"n":' + b"9" * 5_000 + b"}", "n", "finite"),
        (b'{"messages":[{},{},{"content":"\\ud800"}]}', "messages[2].content", "surrogate"),
        (b'{"a":{"\\udc00":1}}', "a", "surrogate"),
        (b'[[],"\\ud800"]', "[1]", "surrogate"),
    ],
)
def test_a_value_that_json_cannot_carry_is_named_by_its_path(body: bytes, param: str, says: str) -> None:
    error = refusal(body)
    assert error.param == param
    assert error.message.startswith(param + ": ")
    assert says in error.message


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'{"a":}', b"{'a':1}", b'{"a":1}x', b"\xef\xbb\xbf{}", b'{"a":"\n"}', b'{"a"' + b"\x00", b"NaN,"],
)
def test_what_is_not_json_is_told_with_its_place(body: bytes) -> None:
    error = refusal(body)
    assert "not JSON" in error.message
    assert "line 1, column" in error.message
    assert error.param is None


def test_the_line_of_the_fault_is_told() -> None:
    assert "line 3, column 6" in refusal(b'{"a": 1,\n"b": 2,\n"c": tru}').message


@pytest.mark.parametrize("body", [b'{"a":"\xff"}', '{"a":1}'.encode("utf-16"), '{"a":1}'.encode("utf-32")])
def test_only_utf_8_is_read(body: bytes) -> None:
    assert "not UTF-8" in refusal(body).message


@pytest.mark.parametrize("body", [b"[]", b"1", b'"a"', b"null", b"true"])
def test_the_body_must_be_an_object(body: bytes) -> None:
    assert "must be a JSON object" in refusal(body).message


def nested(levels: int) -> bytes:
    return b'{"a":' * (levels - 1) + b"{}" + b"}" * (levels - 1)


def test_nesting_is_allowed_up_to_its_limit() -> None:
    assert read_object(nested(DEEPEST))
    assert "nested more than" in refusal(nested(DEEPEST + 1)).message


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b'{"a":' + b"[" * 50_000 + b'"'])
def test_deep_nesting_is_refused_before_a_parser_sees_it(body: bytes) -> None:
    assert "nested more than" in refusal(body).message


def test_brackets_inside_texts_are_no_nesting() -> None:
    brackets = "[{" * 500
    assert read_object(b'{"a":"\\"' + brackets.encode() + b'\\\\","b":"' + brackets.encode() + b'"}')


def test_many_brackets_side_by_side_are_no_nesting() -> None:
    assert len(read_object(b'{"a":[' + b"[]," * 1_000 + b"[]]}")["a"]) == 1_001  # type: ignore[arg-type]


def test_an_escaped_quote_a_thousand_times_over_is_read_in_one_pass() -> None:
    assert "not JSON" in refusal(b"[]" * 200 + b'"' + b'\\"' * 500_000).message


def test_a_path_has_names_and_numbers() -> None:
    assert step(step(step("", "messages"), 2), "content") == "messages[2].content"


def test_a_long_path_is_cut() -> None:
    name = b"k" * 100_000
    error = refusal(b'{"' + name + b'":NaN}')
    assert len(error.message) < 300
    assert error.param is not None
    assert len(error.param) <= 200


def test_a_text_is_shortened_to_bytes_and_stays_a_text() -> None:
    assert shorten("ab", 2) == "ab"
    assert shorten("é" * 100, 9) == "ééé…"
    assert shorten("\ud800", 9) == "\ufffd"


@pytest.mark.parametrize(
    ("body", "accepted"),
    [
        (b'{"a":[' + b"1," * (MOST_VALUES - 10) + b"1]}", True),
        (b'{"a":[' + b"1," * MOST_VALUES + b"1]}", False),
        (b'{"a":"' + b",[{" * MOST_VALUES + b'"}', True),
        (b'{"a":["' + b",[{" * MOST_VALUES + b'"' + b",[]" * MOST_VALUES + b"]}", False),
        (b'{"a":"' + b'\\",[{' * MOST_VALUES + b'","b":1}', True),
    ],
)
def test_a_body_has_a_most_of_values_and_what_stands_in_texts_is_none(body: bytes, accepted: bool) -> None:
    if accepted:
        assert read_object(body)
    else:
        with pytest.raises(InvalidRequest, match=f"more than {MOST_VALUES} values"):
            read_object(body)
