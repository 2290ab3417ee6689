"""The guard of the order: whatever is thrown at it, the client's rules hold for what comes out."""

import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from converters.agui.dialect import Dialect
from converters.agui.encode import frame
from converters.agui.lifecycle import failed, started
from converters.agui.stream_order import ENDS, KINDS, ONE_AT_A_TIME, Act, Order, State
from converters.wire import Frame
from tests.converters.agui.streams import MODELS, RUN, THREAD, Rejected, check, read

Members = dict[str, Any]

BEGIN: Members = {"type": "RUN_STARTED", "threadId": THREAD, "runId": RUN}
FINISH: Members = {"type": "RUN_FINISHED", "threadId": THREAD, "runId": RUN}
ERROR: Members = {"type": "RUN_ERROR", "message": "m"}


def text(what: str, name: str = "m", **more: Any) -> Members:
    delta = {"delta": "x"} if what == "CONTENT" else {}
    return {"type": f"TEXT_MESSAGE_{what}", "messageId": name, **delta, **more}


def reasoning(what: str, name: str = "m", **more: Any) -> Members:
    delta = {"delta": "x"} if what == "CONTENT" else {"role": "reasoning"} if what == "START" else {}
    return {"type": f"REASONING_MESSAGE_{what}", "messageId": name, **delta, **more}


def span(what: str, name: str = "m", **more: Any) -> Members:
    return {"type": f"REASONING_{what}", "messageId": name, **more}


def call(what: str, name: str = "m", **more: Any) -> Members:
    own = {"ARGS": {"delta": "x"}, "START": {"toolCallName": "n"}}.get(what, {})
    return {"type": f"TOOL_CALL_{what}", "toolCallId": name, **own, **more}


def result(name: str = "m", **more: Any) -> Members:
    return {"type": "TOOL_CALL_RESULT", "messageId": name, "toolCallId": "c", "content": "x", **more}


def step(what: str, name: str = "m", **more: Any) -> Members:
    return {"type": f"STEP_{what}", "stepName": name, **more}


def subagent(what: str, name: str = "s", **more: Any) -> Members:
    own = {"STARTED": {"name": "n"}, "ERROR": {"message": "m"}}.get(what, {})
    return {"type": f"SUBAGENT_{what}", "subagentRunId": name, **own, **more}


CUSTOM: Members = {"type": "CUSTOM", "name": "n", "value": None}


def make(dialect: Dialect = Dialect.V1) -> Order:
    return Order(started(THREAD, RUN), dialect)


def send(*events: Members, dialect: Dialect = Dialect.V1) -> list[Members]:
    order, out = make(dialect), list[bytes]()
    for each in events:
        order.admit(frame(each), out)
    return read(b"".join(out))


def kinds(events: list[Members]) -> list[str]:
    return [each["type"] for each in events]


def test_the_table_has_a_row_for_every_event_but_the_shorthands() -> None:
    known = {tag for tag in MODELS.json_schema()["discriminator"]["mapping"] if not tag.endswith("_CHUNK")}
    assert set(KINDS) == known
    assert {each.block for each in KINDS.values() if each.block} == set(ENDS)
    assert set(ONE_AT_A_TIME) < set(ENDS)


@pytest.mark.parametrize("kind", sorted(kind for kind, each in KINDS.items() if each.act is Act.OPEN))
def test_every_kind_of_block_that_opens_can_be_closed(kind: str) -> None:
    closers = [name for name, each in KINDS.items() if each.act is Act.CLOSE and each.block == KINDS[kind].block]
    assert ENDS[KINDS[kind].block][0] in closers


def test_a_run_in_order_passes_as_it_is() -> None:
    events = [
        BEGIN,
        step("STARTED"),
        span("START"),
        reasoning("START"),
        reasoning("CONTENT"),
        reasoning("END"),
        span("END"),
        text("START"),
        text("CONTENT"),
        text("END"),
        call("START", parentMessageId="m"),
        call("ARGS"),
        call("END"),
        result("r"),
        CUSTOM,
        step("FINISHED"),
        text("START"),
        text("END"),
        FINISH,
    ]
    assert send(*events) == events
    check(events)


@pytest.mark.parametrize(
    ("before", "wrong"),
    [
        ([], text("START")),
        ([], CUSTOM),
        ([BEGIN], BEGIN),
        ([BEGIN], BEGIN | {"runId": "other"}),
        ([BEGIN], FINISH | {"runId": "other"}),
        ([BEGIN], FINISH | {"threadId": "other"}),
        ([BEGIN], text("CONTENT")),
        ([BEGIN], text("END")),
        ([BEGIN, text("START")], text("START")),
        ([BEGIN, text("START")], text("CONTENT", "other")),
        ([BEGIN, text("START"), text("END")], text("CONTENT")),
        ([BEGIN, text("START"), text("END")], text("END")),
        ([BEGIN], call("ARGS")),
        ([BEGIN], call("END")),
        ([BEGIN, call("START")], call("START")),
        ([BEGIN, call("START"), call("END")], call("ARGS")),
        ([BEGIN, text("START")], call("ARGS")),
        ([BEGIN], reasoning("CONTENT")),
        ([BEGIN, span("START")], reasoning("CONTENT")),
        ([BEGIN, reasoning("START")], reasoning("START")),
        ([BEGIN, reasoning("START")], span("END")),
        ([BEGIN, span("START")], span("START")),
        ([BEGIN], step("FINISHED")),
        ([BEGIN, step("STARTED")], step("STARTED")),
        ([BEGIN, step("STARTED")], step("FINISHED", subagentRunId="s")),
        ([BEGIN], subagent("FINISHED")),
        ([BEGIN], subagent("ERROR")),
        ([BEGIN, subagent("STARTED")], subagent("STARTED")),
        ([BEGIN, subagent("STARTED"), subagent("FINISHED")], subagent("STARTED")),
        ([BEGIN], subagent("STARTED", parentSubagentRunId="nobody")),
        ([BEGIN, text("START")], text("CONTENT", subagentRunId="s")),
        ([BEGIN, text("START", subagentRunId="s")], text("END", subagentRunId="z")),
        ([BEGIN, text("START", subagentRunId="s"), text("END")], text("START", subagentRunId="z")),
        ([BEGIN, result(subagentRunId="s")], text("START", subagentRunId="z")),
        ([BEGIN, text("START")], call("START", parentMessageId="m", subagentRunId="s")),
        ([BEGIN, FINISH], CUSTOM),
        ([BEGIN, FINISH], ERROR),
        ([BEGIN, FINISH], FINISH),
        ([BEGIN, ERROR], FINISH),
        ([BEGIN, ERROR], ERROR),
        ([BEGIN, ERROR], BEGIN),
    ],
)
def test_a_frame_out_of_order_is_dropped(before: list[Members], wrong: Members) -> None:
    with pytest.raises(Rejected):
        check([*before, wrong], ended=False)
    assert send(*before, wrong) == before


def test_the_same_step_may_be_open_for_the_agent_and_a_subagent() -> None:
    events = [BEGIN, step("STARTED"), step("STARTED", subagentRunId="s"), step("FINISHED"), FINISH]
    assert send(*events) == [*events[:-1], step("FINISHED", subagentRunId="s"), FINISH]


OPENERS = [
    (text("START"), text("END")),
    (call("START"), call("END")),
    (reasoning("START"), reasoning("END")),
    (span("START"), span("END")),
    (step("STARTED"), step("FINISHED")),
    (step("STARTED", subagentRunId="s"), step("FINISHED", subagentRunId="s")),
    (text("START", subagentRunId="s"), text("END")),
]


@pytest.mark.parametrize("last", [FINISH, ERROR], ids=["finished", "error"])
@pytest.mark.parametrize(("opener", "ender"), OPENERS)
def test_what_is_open_at_the_end_is_ended_first(opener: Members, ender: Members, last: Members) -> None:
    stripped = {name: value for name, value in ender.items() if name != "role"}
    assert send(BEGIN, opener, last) == [BEGIN, opener, stripped, last]


def test_an_open_subagent_is_finished_or_failed_as_the_run_is() -> None:
    assert kinds(send(BEGIN, subagent("STARTED"), FINISH))[2] == "SUBAGENT_FINISHED"
    ended = send(BEGIN, subagent("STARTED"), subagent("STARTED", "t", parentSubagentRunId="s"), ERROR)
    assert [(each["type"], each["subagentRunId"]) for each in ended[3:5]] == [
        ("SUBAGENT_ERROR", "t"),
        ("SUBAGENT_ERROR", "s"),
    ]
    check(ended)


def test_everything_open_is_ended_from_the_inside_out() -> None:
    opened = [opener for opener, _ in OPENERS[:5]]
    ended = send(BEGIN, subagent("STARTED"), *reversed(opened), FINISH)
    assert kinds(ended[7:]) == [
        "TEXT_MESSAGE_END",
        "TOOL_CALL_END",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "STEP_FINISHED",
        "SUBAGENT_FINISHED",
        "RUN_FINISHED",
    ]
    check(ended)


@pytest.mark.parametrize("last", [FINISH, ERROR])
def test_a_run_that_ends_before_it_began_is_begun_first(last: Members) -> None:
    assert send(last) == [BEGIN | {"protocolVersion": "1.0"}, last]


def test_to_a_new_client_blocks_may_interleave() -> None:
    events = [BEGIN, text("START"), call("START"), text("CONTENT"), call("END"), text("END"), FINISH]
    assert send(*events) == events


@pytest.mark.parametrize("second", [text("START", "n"), call("START"), reasoning("START"), span("START")])
@pytest.mark.parametrize(("opener", "ender"), OPENERS[:4])
def test_to_an_old_client_a_block_ends_the_one_before(opener: Members, ender: Members, second: Members) -> None:
    if (opener["type"], second["type"]) == ("REASONING_START", "REASONING_MESSAGE_START"):
        return  # a message inside its span
    if opener["type"] == second["type"] and opener["type"] != "TEXT_MESSAGE_START":
        second = second | {name: "n" for name in second if name.endswith("Id")}
    sent = send(BEGIN, opener, second, FINISH, dialect=Dialect.OLD)
    assert sent[2] == {name: value for name, value in ender.items() if name != "role"}
    check(sent, old=True)


def test_a_block_that_was_ended_for_an_old_client_is_not_continued() -> None:
    events = [BEGIN, text("START"), call("START"), text("CONTENT"), call("ARGS"), text("END"), call("END"), FINISH]
    assert kinds(send(*events, dialect=Dialect.OLD)) == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "RUN_FINISHED",
    ]


def test_to_an_old_client_nothing_of_a_subagent_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    events = [
        subagent("STARTED"),
        text("START", subagentRunId="s"),
        text("CONTENT", subagentRunId="s"),
        text("END", subagentRunId="s"),
        CUSTOM | {"subagentRunId": "s"},
        subagent("FINISHED"),
    ]
    assert send(BEGIN, *events, FINISH, dialect=Dialect.OLD) == [BEGIN, FINISH]
    assert caplog.records == []


def test_shapes_that_an_old_client_cannot_take_are_replaced() -> None:
    parts = result("r") | {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    stopped = FINISH | {"outcome": {"type": "cancelled"}}
    assert send(BEGIN, parts, stopped) == [BEGIN, parts, stopped]
    assert send(BEGIN, parts, stopped, dialect=Dialect.OLD) == [
        BEGIN,
        result("r") | {"content": "ab"},
        FINISH | {"result": {"status": "cancelled"}},
    ]


def test_a_frame_of_an_unknown_kind_is_dropped() -> None:
    order, out = make(), list[bytes]()
    for each in (frame(BEGIN), Frame("THINKING_START", b"data: {}\n\n")):
        order.admit(each, out)
    assert kinds(read(b"".join(out))) == ["RUN_STARTED"]


def test_one_warning_is_logged_a_reader_and_it_quotes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    order = make()
    for _ in range(3):
        order.admit(frame(text("CONTENT", "secret")), [])
        order.admit(frame(CUSTOM | {"name": "secret"}), [])
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "TEXT_MESSAGE_CONTENT" in caplog.text
    assert "secret" not in caplog.text
    make().admit(frame(CUSTOM), [])
    assert len(caplog.records) == 2


names = st.sampled_from(["a", "b"])
tags = st.sampled_from([{}, {}, {}, {"subagentRunId": "s"}, {"subagentRunId": "t"}])


@st.composite
def any_members(draw: st.DrawFn) -> Members:
    """Any event about one of few ids, so that sequences of them often meet."""
    name, tag = draw(names), draw(tags)
    parent = draw(st.sampled_from([{}, {"parentMessageId": "a"}, {"parentMessageId": "b"}]))
    above = draw(st.sampled_from([{}, {"parentSubagentRunId": "a"}]))
    triad = st.sampled_from(["START", "CONTENT", "END"])
    return draw(
        st.one_of(
            st.builds(text, triad, st.just(name)).map(lambda made: made | tag),
            st.builds(reasoning, triad, st.just(name)).map(lambda made: made | tag),
            st.builds(span, st.sampled_from(["START", "END"]), st.just(name)).map(lambda made: made | tag),
            st.builds(call, st.sampled_from(["ARGS", "END"]), st.just(name)).map(lambda made: made | tag),
            st.just(call("START", name, **parent) | tag),
            st.just(result(name) | tag),
            st.builds(step, st.sampled_from(["STARTED", "FINISHED"]), st.just(name)).map(lambda made: made | tag),
            st.builds(subagent, st.sampled_from(["FINISHED", "ERROR"]), st.just(name)),
            st.just(subagent("STARTED", name, **above)),
            st.sampled_from([CUSTOM, CUSTOM, BEGIN]),
        )
    )


@settings(max_examples=150, deadline=None)
@given(
    st.lists(any_members(), max_size=30),
    st.sampled_from([FINISH, ERROR]),
    st.lists(any_members() | st.sampled_from([FINISH, ERROR]), max_size=3),
    st.booleans(),
    st.sampled_from(Dialect),
)
def test_whatever_comes_in_the_client_accepts_what_goes_out(
    events: list[Members], last: Members, after: list[Members], begun: bool, dialect: Dialect
) -> None:
    sent = send(*([BEGIN] if begun else []), *events, last, *after, dialect=dialect)
    check(sent, old=dialect is Dialect.OLD)


@settings(max_examples=150, deadline=None)
@given(st.lists(any_members(), max_size=12))
def test_nothing_is_dropped_that_the_client_would_accept(events: list[Members]) -> None:
    accepted = [BEGIN]
    for each in events:
        try:
            check([*accepted, each], ended=False)
        except Rejected:
            continue
        accepted.append(each)
    assert send(BEGIN, *events) == accepted


def test_the_state_is_over_after_the_terminal_event_only() -> None:
    order = make()
    states = [order.state]
    for each in (frame(BEGIN), failed("m", "internal")):
        order.admit(each, [])
        states.append(order.state)
    assert states == [State.WAITING, State.RUNNING, State.OVER]


def test_whatever_is_open_can_be_ended_without_the_run_being_over() -> None:
    order, out = make(), list[bytes]()
    for members in (BEGIN, step("STARTED"), text("START"), text("CONTENT")):
        order.admit(frame(members), out)
    out.clear()
    order.end_open(out)
    assert [each["type"] for each in read(b"".join(out))] == ["TEXT_MESSAGE_END", "STEP_FINISHED"]
    order.end_open(out)
    assert len(out) == 2, "once"
    order.admit(frame(FINISH), out)
    assert read(out[-1])[0]["type"] == "RUN_FINISHED"
