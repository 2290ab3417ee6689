"""Converters of the user's own that misbehave: their events are left out, and the stream goes on."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from agent_core.events import AgentEnd, AgentStart, Event, TextDelta, TextEnd, TextStart
from converters.agui.dialect import Dialect
from converters.agui.encode import frame
from converters.agui.stream import AguiStream
from converters.wire import Frame


def raising(error: BaseException) -> Callable[[Event], Any]:
    def convert(event: Event) -> Any:
        raise error

    return convert


def late(event: Event) -> Any:
    yield frame({"type": "CUSTOM", "name": "n", "value": 1})
    raise ValueError("late")


GOOD = frame({"type": "CUSTOM", "name": "n", "value": 1})
BAD: dict[str, Callable[[Event], Any]] = {
    "None": lambda _: None,
    "one frame instead of a list": lambda _: GOOD,
    "text": lambda _: ["data: x\n\n"],
    "a dict": lambda _: [{"type": "CUSTOM"}],
    "a frame of text": lambda _: [Frame("CUSTOM", "data: x\n\n")],  # type: ignore[arg-type]
    "no event": lambda _: [Frame("CUSTOM", b"garbage\r\n")],
    "two events in one": lambda _: [Frame("CUSTOM", b"data: {}\n\ndata: {}\n\n")],
    "an odd key": lambda _: [Frame("CUSTOM", GOOD.data, ["k"])],  # type: ignore[arg-type]
    "an error": raising(ValueError("mine")),
    "an error that comes late": late,
    "sys.exit": raising(SystemExit(3)),
    "another end": raising(KeyboardInterrupt()),
}

RUN = [
    AgentStart(run_id="r", agent="a"),
    TextStart(run_id="r", reply_id="m"),
    TextDelta(run_id="r", reply_id="m", text="hi"),
    TextEnd(run_id="r", reply_id="m"),
    AgentEnd(run_id="r", status="completed"),
]


@pytest.mark.parametrize("claimed", [TextDelta, AgentStart, AgentEnd])
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_stream_with_a_broken_converter_still_has_one_start_and_one_end(
    bad: Callable[[Event], Any], claimed: type[Event]
) -> None:
    class Mine:
        claims = (claimed,)
        convert = staticmethod(bad)

    stream = AguiStream("t", "r", Dialect.V1, [Mine()])
    sent = stream.feed(RUN) + stream.finish()
    frames = sent.decode().split("\n\n")
    assert frames.pop() == ""
    assert all(re.match(r'id: [0-9]+\.[0-9]+\ndata: {"type":"', each) for each in frames)
    assert '"RUN_STARTED"' in frames[0]
    assert sum('"RUN_FINISHED"' in each or '"RUN_ERROR"' in each for each in frames) == 1
    assert '"RUN_FINISHED"' in frames[-1] or '"RUN_ERROR"' in frames[-1]
