"""What a tool returns, as its result."""

import enum
from dataclasses import dataclass
from datetime import date

import pytest
from pydantic import BaseModel

from agent_core.messages import MediaPart, TextPart
from agent_core.plain import NoJson
from agent_core.tools.base import Pending, Result
from agent_core.tools.results import NOTHING, result_from

PICTURE = MediaPart(kind="image", source="data", value="QUJD", mime_type="image/png")


class Words(str, enum.Enum):  # noqa: UP042
    ONE = "one"


class Color(enum.Enum):
    RED = "red"


class Size(BaseModel):
    width: int
    title: str = "none"


@dataclass
class Point:
    x: int
    y: float


class Thing:
    def __str__(self) -> str:
        return "a thing"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        (Words.ONE, "one"),
        (None, NOTHING),
        ("", NOTHING),
        (" \n", NOTHING),
        (b"", NOTHING),
        (b"\x00\xff", "AP8="),
        ([], "[]"),
        ({}, "{}"),
        (0, "0"),
        (False, "false"),
        (3, "3"),
        ([1, "é", None], '[1,"é",null]'),
        (["a", "b"], '["a","b"]'),
        ({"a": float("nan"), "b": [float("inf")]}, '{"a":null,"b":[null]}'),
        (Size(width=1), '{"width":1,"title":"none"}'),
        (Point(1, 2.5), '{"x":1,"y":2.5}'),
        (date(2026, 9, 29), '"2026-09-29"'),
        (Color.RED, '"red"'),
        ({"odd": Thing()}, '{"odd":"a thing"}'),
        (Thing(), '"a thing"'),
        ((each for each in ["cut \ud83d", 2]), '["cut \ufffd",2]'),
        ("cut \ud83d", "cut \ufffd"),
        ({"a": "cut \ud83d", "b": float("nan")}, '{"a":"cut \ufffd","b":null}'),
    ],
)
def test_each_kind_of_return_value_becomes_text(value: object, text: str) -> None:
    result = result_from(value)
    assert result == text
    assert isinstance(result, str)
    assert result.encode()


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (PICTURE, (PICTURE,)),
        ([PICTURE], (PICTURE,)),
        (["Here:", PICTURE, "", TextPart(text="!")], (TextPart(text="Here:"), PICTURE, TextPart(text="!"))),
        ((TextPart(text="\ud83d"), PICTURE), (TextPart(text="\ufffd"), PICTURE)),
        (TextPart(text="one"), "one"),
        ([TextPart(text="one"), "two"], "one\ntwo"),
        (TextPart(text=""), NOTHING),
    ],
)
def test_parts_stay_parts_where_there_are_media_among_them(value: object, result: Result) -> None:
    assert result_from(value) == result


def test_parts_beside_other_things_are_json_as_anything_is() -> None:
    assert isinstance(result_from([PICTURE, 3]), str)


def test_a_promise_comes_through_unchanged() -> None:
    promise = Pending(operation_id="op-1", wait_id="w", retry_after=3.0)
    assert result_from(promise) is promise


@pytest.mark.parametrize("value", [object(), [object()], {"a": len}, lambda: 1])
def test_what_is_no_json_and_has_no_text_is_no_result(value: object) -> None:
    with pytest.raises(NoJson):
        result_from(value)
