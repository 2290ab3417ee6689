"""A reply in the making: blocks never interleave, whatever the provider mixes."""

from collections.abc import Container
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.errors import ModelError
from agent_core.events import (
    Event,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from agent_core.messages import given_id
from agent_core.models.base import ArgumentsPiece, CallPiece, Piece, TextPiece, ThinkingPiece
from agent_core.react import reply as reply_module
from agent_core.react.emitter import Emitter
from agent_core.react.reply import MOST_CALLS, Reply


def stream(
    *pieces: Piece, used: set[str] | None = None, calls: bool = True, theirs: Container[str] = ()
) -> tuple[Reply, list[Event]]:
    events: list[Event] = []
    reply = Reply(Emitter("run", send=events.append), used if used is not None else set(), calls=calls, theirs=theirs)
    for piece in pieces:
        reply.take(piece)
    return reply, events


def shown(events: list[Event]) -> list[tuple[str, Any]]:
    """Each event in short: its kind and what it carries."""
    return [
        (type(e).__name__, getattr(e, "text", None) or getattr(e, "call_id", None) or getattr(e, "block_id", None))
        for e in events
    ]


def test_text_thinking_and_a_call_become_three_blocks() -> None:
    reply, events = stream(
        ThinkingPiece("hm"), TextPiece("I "), TextPiece("look"), CallPiece(0, "c1", "find"), ArgumentsPiece(0, "{}")
    )
    message = reply.finish()
    assert [type(e) for e in events] == [
        ThinkingStart, ThinkingDelta, ThinkingEnd, TextStart, TextDelta, TextDelta, TextEnd,
        ToolCallStart, ToolCallDelta, ToolCallEnd,
    ]  # fmt: skip
    assert (message.text, message.thinking) == ("I look", "hm")
    assert [(c.id, c.name, c.arguments) for c in message.tool_calls] == [("c1", "find", "{}")]


def test_a_second_call_streams_live_once_the_first_is_complete() -> None:
    _, events = stream(
        CallPiece(0, "a", "t"), ArgumentsPiece(0, '{"x":1}'), CallPiece(1, "b", "t"), ArgumentsPiece(1, '{"y"')
    )
    assert shown(events)[-2:] == [("ToolCallStart", "b"), ("ToolCallDelta", '{"y"')]


def test_interleaved_arguments_are_held_back_and_nothing_is_lost() -> None:
    reply, events = stream(
        CallPiece(0, "a", "t"), CallPiece(1, "b", "t"),
        ArgumentsPiece(0, '{"x"'), ArgumentsPiece(1, '{"y"'), ArgumentsPiece(0, ":1}"), ArgumentsPiece(1, ":2}"),
    )  # fmt: skip
    message = reply.finish()
    assert [(c.id, c.arguments) for c in message.tool_calls] == [("a", '{"x":1}'), ("b", '{"y":2}')]
    starts = [(kind, what) for kind, what in shown(events) if kind in ("ToolCallStart", "ToolCallEnd")]
    assert starts == [("ToolCallStart", "a"), ("ToolCallEnd", "a"), ("ToolCallStart", "b"), ("ToolCallEnd", "b")]


def test_a_call_id_that_the_session_has_seen_is_made_new() -> None:
    used = {"c1"}
    reply, _ = stream(CallPiece(0, "c1", "t"), CallPiece(1, "c2", "t"), used=used)
    ids = [call.id for call in reply.finish().tool_calls]
    assert ids[0] not in ("c1", "c2")
    assert ids[1] == "c2"
    assert used == {"c1", *ids}


def test_a_call_without_arguments_is_an_empty_object_and_emits_no_delta() -> None:
    reply, events = stream(CallPiece(0, "c", "now"))
    assert reply.finish().tool_calls[0].arguments == "{}"
    assert [type(e) for e in events] == [ToolCallStart, ToolCallEnd]


def test_what_comes_before_the_end_is_kept_when_the_stream_breaks_off() -> None:
    reply, events = stream(TextPiece("half a sen"))
    assert reply.finish().text == "half a sen"
    assert type(events[-1]) is TextEnd


def test_calls_that_were_not_offered_are_dropped_in_a_closing_reply() -> None:
    reply, events = stream(
        TextPiece("so "), CallPiece(0, "c", "t"), ArgumentsPiece(0, "{}"), TextPiece("far"), calls=False
    )
    message = reply.finish()
    assert (message.text, message.tool_calls) == ("so far", ())
    assert [type(e) for e in events] == [TextStart, TextDelta, TextDelta, TextEnd]


pieces = st.one_of(
    st.sampled_from("ab").map(TextPiece),
    st.sampled_from("xy").map(ThinkingPiece),
    st.integers(0, 3).map(lambda index: CallPiece(index, f"id{index}", "t")),
    st.tuples(st.integers(0, 3), st.sampled_from(["{", "}", '"k":1', "{}"])).map(lambda pair: ArgumentsPiece(*pair)),
)


@given(st.lists(pieces, max_size=25))
def test_blocks_never_interleave_and_the_text_arrives_whole(given_pieces: list[Piece]) -> None:
    reply, events = stream(*given_pieces)
    message = reply.finish()
    opened: str | None = None
    for event in events:
        kind = type(event).__name__
        if kind.endswith("Start"):
            assert opened is None
            opened = kind.removesuffix("Start")
        else:
            assert opened == kind.removesuffix("Delta").removesuffix("End")
            if kind.endswith("End"):
                opened = None
    assert opened is None
    told = "".join(event.text for event in events if type(event) is TextDelta)
    assert told == message.text == "".join(p.text for p in given_pieces if type(p) is TextPiece)


def test_what_comes_for_a_call_that_was_shown_as_ended_is_dropped() -> None:
    reply, events = stream(
        CallPiece(0, "a", "t"), ArgumentsPiece(0, "{}"), CallPiece(1, "b", "t"), ArgumentsPiece(0, ' {"k":1}')
    )
    assert [call.arguments for call in reply.finish().tool_calls] == ["{}", "{}"]
    shown_arguments = "".join(e.text for e in events if type(e) is ToolCallDelta)
    assert shown_arguments == "{}", "what the client saw is what is run"


def test_quotes_braces_and_escapes_inside_strings_do_not_end_the_arguments() -> None:
    tricky = '{"a": "}\\"}\\\\", "b": {"c": [1, "]"]}}'
    for cut in range(len(tricky)):
        reply, events = stream(
            CallPiece(0, "a", "t"), ArgumentsPiece(0, tricky[:cut]), CallPiece(1, "b", "t"),
            ArgumentsPiece(0, tricky[cut:]), ArgumentsPiece(1, "{}"),
        )  # fmt: skip
        assert [call.arguments for call in reply.finish().tool_calls] == [tricky, "{}"]
        assert [e.call_id for e in events if type(e) is ToolCallEnd] == ["a", "b"]


def test_fresh_ids_take_the_place_of_a_provider_s() -> None:
    events: list[Event] = []
    reply = Reply(Emitter("run", send=events.append), set(), fresh=True)
    for piece in (CallPiece(0, "c1", "t"), ArgumentsPiece(0, "{}"), CallPiece(1, "c2", "t")):
        reply.take(piece)
    first, second = reply.finish().tool_calls
    assert not {first.id, second.id} & {"c1", "c2"}
    assert [given_id(call.id) for call in (first, second)] == ["c1", "c2"]
    again = Reply(Emitter("run", send=events.append), set(), fresh=True)
    again.take(CallPiece(0, "c1", "t"))
    assert again.finish().tool_calls[0].id != first.id
    assert first.arguments == "{}"


def test_more_calls_than_any_model_means_are_a_bad_answer() -> None:
    reply, _ = stream(*(CallPiece(index, f"c{index}", "t") for index in range(MOST_CALLS)))
    with pytest.raises(ModelError) as failed:
        reply.take(CallPiece(MOST_CALLS, "one-too-many", "t"))
    assert failed.value.code == "model_bad_answer"


def test_each_character_of_interleaved_arguments_is_looked_at_once() -> None:
    looked_at = 0
    real = reply_module._TOKENS

    class Counting:
        def findall(self, text: str) -> list[str]:
            nonlocal looked_at
            looked_at += len(text)
            return real.findall(text)

    given_pieces: list[Piece] = [CallPiece(0, "a", "t"), CallPiece(1, "b", "t")]
    for _ in range(500):
        given_pieces += [ArgumentsPiece(0, '[{"x":1},'), ArgumentsPiece(1, '[{"y":2},')]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reply_module, "_TOKENS", Counting())
        reply, _ = stream(*given_pieces)
        reply.finish()
    assert looked_at == sum(len(p.text) for p in given_pieces if type(p) is ArgumentsPiece)


@pytest.mark.parametrize("arguments", ['{"n":1}', '{"n":2}', ""])
def test_a_second_call_under_an_id_of_this_answer_is_dropped_with_its_arguments(arguments: str) -> None:
    pieces: list[Piece] = [CallPiece(0, "a", "t"), ArgumentsPiece(0, '{"n":1}'), CallPiece(1, "a", "t")]
    pieces += [ArgumentsPiece(1, arguments)] if arguments else []
    reply, events = stream(*pieces)
    assert [(call.id, call.arguments) for call in reply.finish().tool_calls] == [("a", '{"n":1}')]
    assert [type(event) for event in events].count(ToolCallStart) == 1


def test_calls_without_an_id_are_calls_of_their_own() -> None:
    reply, _ = stream(CallPiece(0, "", "t"), CallPiece(1, "", "t"))
    assert len({call.id for call in reply.finish().tool_calls}) == 2


ARGUMENTS: list[tuple[list[str], str, str, str, str]] = [
    # the pieces; the arguments of a server's call, as stored and as shown; those of a client's call, likewise
    ([], "{}", "", "{}", "{}"),
    ([" ", "\n"], "{}", "", "{}", "{}"),
    (["nu", "ll"], "{}", "{}", "{}", "{}"),
    ([" null "], "{}", "{}", "{}", "{}"),
    (["[", "]"], "[]", "[]", "{}", "{}"),
    (['"no"'], '"no"', '"no"', "{}", "{}"),
    (["7"], "7", "7", "{}", "{}"),
    (['"{\\"n\\":1}"'], '"{\\"n\\":1}"', '"{\\"n\\":1}"', '"{\\"n\\":1}"', '"{\\"n\\":1}"'),
    (["no JSON"], "no JSON", "no JSON", "no JSON", "no JSON"),
    ([" ", '{"n"', ":1}"], ' {"n":1}', ' {"n":1}', ' {"n":1}', ' {"n":1}'),
    (['{"n": '], '{"n": ', '{"n": ', '{"n": ', '{"n": '),
]


@pytest.mark.parametrize(("pieces", "ours", "ours_shown", "theirs", "theirs_shown"), ARGUMENTS)
@pytest.mark.parametrize("behind_another", [False, True])
def test_arguments_that_are_nothing_are_an_empty_object(
    pieces: list[str], ours: str, ours_shown: str, theirs: str, theirs_shown: str, behind_another: bool
) -> None:
    for names, kept, told in (((), ours, ours_shown), (("t",), theirs, theirs_shown)):
        first = [CallPiece(0, "a", "other")] if behind_another else []
        argued = [ArgumentsPiece(1, each) for each in pieces]
        reply, events = stream(*first, CallPiece(1, "b", "t"), *argued, theirs=names)
        assert reply.finish().tool_calls[-1].arguments == kept
        deltas = [event.text for event in events if isinstance(event, ToolCallDelta) and event.call_id == "b"]
        assert "".join(deltas) == told


def test_a_picture_holds_no_arguments_that_were_not_shown() -> None:
    reply, events = stream(CallPiece(0, "a", "t"), ArgumentsPiece(0, "nu"))
    assert [type(event) for event in reply.snapshot()[1]] == [type(event) for event in events] == [ToolCallStart]


def test_arguments_are_shown_as_they_come_once_they_begin_as_an_object() -> None:
    _, events = stream(CallPiece(0, "a", "t"), *(ArgumentsPiece(0, each) for each in (" ", "{", '"n"', ":1}")))
    assert [event.text for event in events if isinstance(event, ToolCallDelta)] == [" {", '"n"', ":1}"]
