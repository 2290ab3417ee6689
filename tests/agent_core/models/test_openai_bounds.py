"""Where an answer of Chat Completions ends, and which of several is ours: cuts, choices, calls without names, caps."""

from typing import Any

import pytest

from agent_core.models import openai_chunks
from agent_core.models.base import CutPiece, TextPiece, UsagePiece
from tests.agent_core.models.test_openai_chunks import calls_of, decode, failure_of, function
from tests.scripted import chunk, done, finish, sse, text, thinking, tool_call, usage


@pytest.mark.parametrize(("reason", "why"), [("length", "length"), ("content_filter", "filter")])
def test_an_answer_that_was_cut_says_so_before_its_usage(reason: str, why: Any) -> None:
    pieces = decode(text("Hi") + finish(reason) + usage(9, 2) + done())
    assert pieces[:-1] == [TextPiece("Hi"), CutPiece(why)]
    assert isinstance(pieces[-1], UsagePiece)


def test_of_several_choices_the_one_counts_that_has_the_index_0_or_none() -> None:
    other = {"index": 1, "delta": {"content": "other"}, "finish_reason": "length"}
    for index in ({"index": 0}, {"index": None}, {}):
        ours = {**index, "delta": {"content": "ours"}, "finish_reason": None}
        stream = sse({"choices": [other]}) + sse({"choices": [other, ours]}) + sse({"choices": [ours]})
        stream += sse({"choices": [other]}) + sse({"choices": [other, ours]})
        assert "".join(p.text for p in decode(stream + done()) if isinstance(p, TextPiece)) == "oursoursours"


def test_two_names_in_one_list_without_id_and_index_are_two_calls() -> None:
    alike = {"type": "function", "function": function("x", '{"a":1}')}
    for first, second in ((alike, alike), ({"function": function("x")}, {"function": function("x")})):
        stream = chunk({"tool_calls": [first, second]}) + finish("tool_calls") + done()
        found = calls_of(stream)
        assert [name for _, name, _ in found] == ["x", "x"]
        assert found[0][0] != found[1][0]
    [first_call, second_call] = calls_of(chunk({"tool_calls": [alike, alike]}) + done())
    assert first_call[2] == second_call[2] == '{"a":1}'


def test_the_cap_counts_what_is_said_and_not_what_stands_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_chunks, "MAX_ANSWER", 100)
    assert len(decode(text(*["x"] * 100) + finish() + done())) == 100
    for over in (
        text(*["x"] * 101),
        thinking("x" * 101),
        thinking("x" * 50) + text("y" * 51),
        text("x" * 50) + tool_call("f", '{"a":"%s"}' % ("y" * 50)),
    ):
        error = failure_of(over, finish(), done())
        assert (error.code, error.detail) == ("model_bad_answer", "the answer is longer than 100 characters")


def test_a_long_answer_in_small_chunks_is_whole() -> None:
    chunks = text(*["four"] * 20_000)
    assert len(chunks) > 3_000_000
    pieces = decode(chunks, chunks, finish(), done())
    assert sum(len(piece.text) for piece in pieces if isinstance(piece, TextPiece)) == 160_000
