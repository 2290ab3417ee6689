"""JSON that always encodes, and the cutting of long values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.events import TextDelta
from converters.wire import cut, fit, server_sent, split, text_json, to_json


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no")


class Thing:
    def __str__(self) -> str:
        return "a thing"


@dataclass
class Place:
    name: str


def circle() -> list[Any]:
    inner: list[Any] = [1]
    inner.append(inner)
    return inner


def deep(levels: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(levels):
        inner = [inner]
    return inner


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("nan"), None),
        ([float("inf"), -float("inf"), 1.5], [None, None, 1.5]),
        ("a\ud800b", "a\ufffdb"),
        ({"k\udfff": "v"}, {"k\ufffd": "v"}),
        ({2: "a", None: "b", True: "c"}, {"2": "a", "null": "b", "true": "c"}),
        ({2: "\ud800", None: "b", True: "c"}, {"2": "\ufffd", "null": "b", "true": "c"}),
        ({(1, 2): "a\ud800"}, {"(1, 2)": "a\ufffd"}),
        (2**70, str(2**70)),
        (b"ab", "b'ab'"),
        (Thing(), "a thing"),
        ([Thing(), "\ud800"], ["a thing", "\ufffd"]),
        (Unspeakable(), "Unspeakable"),
        ({3}, [3]),
        (Place(name="x"), {"name": "x"}),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        ([TextDelta(run_id="r", text="t")], [{"runId": "r", "replyId": "", "lane": "root", "at": 0, "text": "t"}]),
        ([2**70, float("nan"), True, None], [str(2**70), None, True, None]),
        (circle(), [1, "…"]),
    ],
)
def test_every_value_becomes_json(value: object, expected: object) -> None:
    assert json.loads(to_json(value)) == expected


def test_what_is_nested_too_deep_is_left_out() -> None:
    assert b'"\xe2\x80\xa6"' in to_json(deep(2_000))


@given(st.text(st.characters(codec=None, categories=None)))
def test_any_text_at_all_becomes_a_json_string(text: str) -> None:
    decoded = json.loads(text_json(text))
    assert isinstance(decoded, str)
    if not any("\ud800" <= each <= "\udfff" for each in text):
        assert decoded == text


@given(st.text(max_size=300), st.integers(20, 60))
def test_the_pieces_of_a_long_text_fit_and_make_it_up(text: str, limit: int) -> None:
    pieces = split(text, limit)
    assert all(len(piece) <= limit for piece in pieces)
    assert "".join(json.loads(piece) for piece in pieces) == text


def test_a_text_that_fits_is_not_cut() -> None:
    assert cut("x" * 998, 1_000) == "x" * 998


@pytest.mark.parametrize("letter", ["x", "é", "\x00", "😀"])
def test_a_text_that_does_not_fit_says_what_was_cut(letter: str) -> None:
    shown = cut(letter * 5_000, 2_000)
    assert 1_500 < len(text_json(shown)) <= 2_000
    kept = shown.count(letter)
    assert shown.endswith(f"\n[cut here: {kept} of 5000 characters are shown]")


def test_a_value_that_does_not_fit_becomes_its_beginning_and_a_note() -> None:
    value = {"rows": ["x" * 50] * 100}
    body = orjson.dumps({"value": fit(value, 2_000)})
    assert len(body) < 2_100
    found: Mapping[str, str] = json.loads(body)["value"]
    assert found["beginning"].startswith('{"rows":["xxx')
    assert found["note"] == f"The value has {len(orjson.dumps(value))} bytes as JSON and was cut."


def test_a_server_sent_event_has_line_feeds_only_and_one_line_of_data() -> None:
    sent = server_sent(to_json("a\r\nb\n\nc\u2028"))
    assert sent.startswith(b"data: ")
    assert sent.endswith(b"\n\n")
    assert sent.count(b"\n") == 2
    assert b"\r" not in sent


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63), 2**64, -(2**63) - 1])
def test_an_integer_that_no_client_reads_exactly_is_a_text(number: int) -> None:
    fits = -(2**63) <= number < 2**64
    assert json.loads(to_json({"n": number})) == {"n": number if fits else str(number)}


def test_a_text_is_split_down_to_single_characters_and_no_further() -> None:
    assert [json.loads(each) for each in split("äöü", 4)] == ["ä", "ö", "ü"]
    assert [json.loads(each) for each in split("xy", 3)] == ["x", "y"]
    assert split("x", 1) == [b'"x"']
