"""Any run that the engine can make: its stream keeps the grammar that every client can read, and says what
was said."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.events import (
    AgentEnd,
    Custom,
    Event,
    ExceedMaxIters,
    FinalOutput,
    RequireExternalExecution,
    Retry,
    RunFailed,
    StepEnd,
    StepStart,
)
from agent_core.messages import well_formed
from agent_core.usage import Usage
from tests.converters.openai.streams import (
    CLIENT_TOOLS,
    RUN,
    START,
    follow,
    model_call,
    open_answer,
    open_stream,
    text,
    thinking,
    tool_call,
    tool_result,
)

words = st.text(st.characters(codec=None, categories=None), max_size=6) | st.sampled_from(["\n\n", "data: ", "\ud83d"])
pieces = st.lists(words, max_size=4)
counts = st.none() | st.integers(0, 50)
usages = st.builds(
    Usage,
    provider=st.just("p"),
    model=st.sampled_from(["m", "n"]),
    input_tokens=counts,
    output_tokens=counts,
    total_tokens=counts,
    cached_input_tokens=counts,
    reasoning_tokens=counts,
)


@dataclass
class Told:
    """A run, with what a client is to make of it."""

    events: list[Event] = field(default_factory=lambda: [START])
    texts: list[str] = field(default_factory=list)
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    end: AgentEnd | RunFailed | None = None


def _round(draw: Callable[[Any], Any], told: Told, number: int) -> None:
    """One model call with its blocks, and the results of the server's calls."""
    reply, said, blocks, results = f"m{number}", "", [], []
    for at, kind in enumerate(draw(st.lists(st.sampled_from(["text", "thinking", "server", "client"]), max_size=4))):
        parts, call = draw(pieces), f"c{number}_{at}"
        if kind == "text":
            blocks.append(text(reply, *parts))
            said += "".join(map(well_formed, parts))
        elif kind == "thinking":
            blocks.append(thinking(reply, *parts, block=str(at)))
        elif kind == "server":
            blocks.append(tool_call(reply, call, "clock", *parts))
            results += tool_result(call, "clock", "".join(parts))
        else:
            name = draw(st.sampled_from(sorted(CLIENT_TOOLS)))
            blocks.append(tool_call(reply, call, name, *parts))
            told.calls.append((call, name, "".join(map(well_formed, parts)) or "{}"))
            told.waiting.append(call)
    if said:
        told.texts.append(said)
    told.events += [*model_call(reply, *blocks, usage=draw(st.none() | usages)), *results]


@st.composite
def runs(draw: Callable[[Any], Any]) -> Told:
    told = Told()
    for number in range(draw(st.integers(0, 4))):
        told.events.append(StepStart(run_id=RUN, iteration=number))
        if draw(st.booleans()):
            told.events.append(Retry(run_id=RUN, code="model_timeout", attempt=1, delay=0.5))
        _round(draw, told, number)
        if draw(st.booleans()):
            told.events.append(Custom(run_id=RUN, name="n", value=draw(words)))
        told.events.append(StepEnd(run_id=RUN, iteration=number))
        if told.waiting:
            break
    if told.waiting:
        told.events.append(RequireExternalExecution(run_id=RUN, call_ids=tuple(told.waiting)))
    elif draw(st.booleans()):
        told.events.append(ExceedMaxIters(run_id=RUN, max_iters=1, current_iter=1))
        told.events.append(FinalOutput(run_id=RUN, text=draw(words)))
    if draw(st.integers(0, 3)) == 0:
        told.end = RunFailed(run_id=RUN, code="internal", message=draw(words))
    else:
        ends = ["client_tools"] if told.waiting else ["completed", "max_iterations", "cancelled"]
        used = draw(st.lists(usages, max_size=2).map(tuple))
        told.end = AgentEnd(run_id=RUN, status=draw(st.sampled_from(ends)), usage=used)
    told.events.append(told.end)
    return told


@settings(max_examples=300, deadline=None)
@given(runs(), st.booleans(), st.booleans(), st.data())
def test_every_run_makes_a_stream_that_every_client_can_read(
    told: Told, shown: bool, include_usage: bool, data: st.DataObject
) -> None:
    stream, sent, left = open_stream(events=shown, include_usage=include_usage), b"", told.events
    while left:
        size = data.draw(st.integers(1, len(left)))
        sent += (stream.heartbeat() if data.draw(st.booleans()) else b"") + stream.feed(left[:size])
        left = left[size:]
    client = follow(sent + stream.finish())
    assert client.content == "\n\n".join(told.texts)
    accepted = [] if isinstance(told.end, RunFailed) else told.calls
    assert [(each["id"], each["name"], each["arguments"]) for each in client.calls] == accepted
    assert bool(client.asides) == shown
    if isinstance(told.end, RunFailed):
        assert (stream.failure, client.finish, client.usage) == (told.end, None, None)
    else:
        assert client.finish == ("tool_calls" if told.calls else "stop")
        assert (client.usage is not None) == include_usage


@settings(max_examples=150, deadline=None)
@given(runs())
def test_every_run_has_a_whole_answer_that_says_what_its_stream_says(told: Told) -> None:
    answer, client = open_answer(), follow(open_stream(include_usage=True).feed(told.events))
    answer.feed(told.events)
    assert (answer.failure is None) == (client.error is None)
    if client.error is not None:
        return
    body = orjson.loads(answer.body())
    [choice] = body["choices"]
    assert choice["finish_reason"] == client.finish
    assert (choice["message"]["content"] or "") == client.content
    assert choice["message"].get("reasoning_content", "") == client.reasoning
    assert [each["id"] for each in choice["message"].get("tool_calls", [])] == [call for call, _, _ in told.calls]
    assert (body["usage"], body["x_agent"]) == (client.usage, client.about)
