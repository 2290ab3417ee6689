"""A user's own converters. They make AG-UI frames, and serve both endpoints."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agent_core.events import AgentEnd, AgentStart, Event, ExceedMaxIters, RunFailed, TextDelta, ToolCallStart
from converters.agui.encode import frame
from converters.wire import Frame
from tests.converters.openai.streams import RUN, START, follow, open_answer, open_stream, text, tool_call

END = AgentEnd(run_id=RUN, status="completed")


class Mine:
    """Claims one type and shows what `make` makes of it."""

    def __init__(self, claimed: type[Event], make: Callable[[Any], Any]) -> None:
        self.claims = (claimed,)
        self.make = make

    def convert(self, event: Event) -> Sequence[Frame]:
        frames: Sequence[Frame] = self.make(event)
        return frames


def masked(event: TextDelta) -> list[Frame]:
    hidden = event.text.replace("secret", "***")
    return [frame({"type": "TEXT_MESSAGE_CONTENT", "messageId": event.reply_id, "delta": hidden})]


def test_a_converter_that_masks_text_masks_it_here_too() -> None:
    events = [START, *text("m1", "a secret"), *text("m2", "b"), END]
    assert follow(open_stream(converters=[Mine(TextDelta, masked)]).feed(events)).content == "a ***\n\nb"


def test_the_whole_answer_is_masked_as_the_stream_is() -> None:
    answer = open_answer(converters=[Mine(TextDelta, masked)])
    answer.feed([START, *text("m1", "a secret"), END])
    assert b'"content":"a ***"' in answer.body()


def test_reasoning_can_be_made_of_anything() -> None:
    def thought(event: ExceedMaxIters) -> list[Frame]:
        return [frame({"type": "REASONING_MESSAGE_CONTENT", "messageId": "t", "delta": f"{event.max_iters} rounds"})]

    events = [START, ExceedMaxIters(run_id=RUN, max_iters=3, current_iter=3), END]
    assert follow(open_stream(converters=[Mine(ExceedMaxIters, thought)]).feed(events)).reasoning == "3 rounds"


def note(_: Event) -> list[Frame]:
    return [frame({"type": "CUSTOM", "name": "note", "value": 1})]


@pytest.mark.parametrize("shown", [False, True])
def test_other_frames_are_shown_where_events_were_asked_for(shown: bool) -> None:
    mine = Mine(ExceedMaxIters, note)
    events = [START, ExceedMaxIters(run_id=RUN, max_iters=3, current_iter=3), END]
    client = follow(open_stream(events=shown, converters=[mine]).feed(events))
    assert client.asides[1:] == ([{"type": "CUSTOM", "name": "note", "value": 1}] if shown else [])


def test_a_type_that_a_user_hides_is_hidden() -> None:
    events = [START, *tool_call("m1", "c1", "pick", "{}"), END]
    assert follow(open_stream(converters=[Mine(ToolCallStart, lambda _: [])]).feed(events)).calls == []


BAD: dict[str, Callable[[Event], Any]] = {
    "None": lambda _: None,
    "no frame": lambda _: ["data: x\n\n"],
    "no JSON": lambda _: [Frame("CUSTOM", b"data: {\n\n")],
    "no object": lambda _: [Frame("CUSTOM", b"data: [1]\n\n")],
    "a text that is none": lambda _: [Frame("TEXT_MESSAGE_CONTENT", b'data: {"delta":[1]}\n\n')],
    "an end of its own": lambda _: [Frame("RUN_ERROR", b'data: {"type":"RUN_ERROR","message":"m"}\n\n')],
    "an error for OpenAI": lambda _: [Frame("error", b'data: {"error":null,"choices":null}\n\n')],
}


@pytest.mark.parametrize("claimed", [AgentStart, TextDelta, AgentEnd])
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_no_converter_of_a_user_breaks_a_client(bad: Callable[[Event], Any], claimed: type[Event]) -> None:
    stream = open_stream(events=True, include_usage=True, converters=[Mine(claimed, bad)])
    client = follow(stream.feed([START, *text("m1", "hi"), END]))
    assert client.finish == "stop"


def test_a_failure_is_told_whoever_claims_it() -> None:
    stream = open_stream(converters=[Mine(RunFailed, note)])
    client = follow(stream.feed([START, RunFailed(run_id=RUN, code="model_auth", message="m")]))
    assert client.error is not None
    assert client.error["code"] == "model_auth"
