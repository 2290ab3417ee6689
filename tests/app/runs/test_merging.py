"""Deltas that a reader is behind on are merged: the same text of each block, in few pieces, under the last number."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.events import (
    AgentEnd,
    AgentStart,
    Event,
    StepEnd,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
)
from app.runs.merging import LONGEST, merged
from converters.agui.dialect import Dialect
from converters.agui.stream import AguiStream


def text(words: str, reply: str = "m", lane: str = "root") -> TextDelta:
    return TextDelta(run_id="r", lane=lane, reply_id=reply, text=words)


def arguments(words: str, call: str = "c") -> ToolCallDelta:
    return ToolCallDelta(run_id="r", reply_id="m", call_id=call, text=words)


def thought(words: str, block: str = "t") -> ThinkingDelta:
    return ThinkingDelta(run_id="r", reply_id="m", block_id=block, text=words)


def test_neighbours_of_one_block_become_one_under_the_last_number() -> None:
    events: list[Event] = [
        TextStart(run_id="r", reply_id="m"),
        text("a"),
        text("b"),
        text("c"),
        TextEnd(run_id="r", reply_id="m"),
        arguments("{"),
        arguments("}"),
        arguments("{", "d"),
        thought("x"),
        thought("y", "u"),
    ]
    made, numbers = merged(events, 17)
    assert numbers == [8, 11, 12, 14, 15, 16, 17]
    assert [getattr(each, "text", None) for each in made] == [None, "abc", None, "{}", "{", "x", "y"]
    assert made[1].at == events[3].at


def test_blocks_of_other_lanes_and_replies_stay_apart() -> None:
    made, numbers = merged([text("a"), text("b", lane="c1"), text("c", lane="c1"), text("d", "n", "c1")], 4)
    assert [each.text for each in made if isinstance(each, TextDelta)] == ["a", "bc", "d"]
    assert numbers == [1, 3, 4]


@pytest.mark.parametrize(("sign", "each"), [("x", 1), ("é", 2), ("\N{SNOWMAN}", 3), ("\N{MUSICAL SYMBOL G CLEF}", 4)])
def test_a_piece_has_at_most_four_kilobytes_unless_it_came_so(sign: str, each: int) -> None:
    long = text("y" * (LONGEST + 1))
    made, numbers = merged([*(text(sign) for _ in range(LONGEST // each + 1)), long, text("z")], 10_000)
    sizes = [len(event.text.encode()) for event in made if isinstance(event, TextDelta)]
    assert sizes == [LONGEST // each * each, each, LONGEST + 1, 1]
    assert numbers[-1] == 10_000


def test_a_lone_surrogate_is_counted_and_kept() -> None:
    made, _ = merged([text("\ud800"), text("x")], 2)
    assert [each.text for each in made if isinstance(each, TextDelta)] == ["\ud800x"]


EVENTS = st.lists(
    st.one_of(
        st.builds(text, st.text(max_size=3), st.sampled_from("mn"), st.sampled_from(["root", "c1"])),
        st.builds(arguments, st.text(max_size=3), st.sampled_from("cd")),
        st.builds(thought, st.text(max_size=3), st.sampled_from("tu")),
        st.just(StepEnd(run_id="r", iteration=0)),
    )
)


@given(EVENTS, st.integers(0, 1_000))
def test_what_is_told_stays_the_same(events: list[Event], before: int) -> None:
    def told(some: list[Event]) -> list[tuple[object, str]]:
        def block(event: Event) -> object:
            names = ("reply_id", "block_id", "call_id")
            return (type(event), event.lane, *(getattr(event, name, None) for name in names))

        return [(key, "".join(getattr(each, "text", "|") for each in group)) for key, group in groupby(some, block)]

    made, numbers = merged(events, before + len(events))
    assert told(made) == told(events)
    assert numbers == sorted(set(numbers))
    assert not events or numbers[-1] == before + len(events)
    for event, number in zip(made, numbers, strict=True):
        assert type(event) is type(events[number - before - 1])


def test_a_frame_has_the_number_of_the_last_event_that_it_tells() -> None:
    events: list[Event] = [
        AgentStart(run_id="r", agent="a"),
        ToolCallStart(run_id="r", reply_id="m", call_id="c", name="f"),
        *(arguments("1") for _ in range(5)),
        AgentEnd(run_id="r", status="completed"),
    ]
    frames = AguiStream("t", "r", Dialect.of("1.0")).feed(*merged(events, 8)).split(b"\n\n")
    ids = [each.split(b"\n")[0] for each in frames if each]
    assert ids == [b"id: 1.0", b"id: 2.0", b"id: 7.0", b"id: 8.0", b"id: 8.1"]
    assert b'"delta":"11111"' in frames[2]
