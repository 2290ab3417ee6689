"""Streamed chat completions: the golden bytes, each rule of the format, and how a run's end is told."""

import logging
import time
from typing import Any

import pytest
from ag_ui.core import Event as AguiEvent
from pydantic import TypeAdapter

from agent_core.events import (
    AgentEnd,
    Custom,
    Event,
    ExceedMaxIters,
    FinalOutput,
    RequireExternalExecution,
    Retry,
    RunFailed,
    RunStatus,
    StepEnd,
    StepStart,
    TextDelta,
)
from agent_core.usage import Usage
from converters.openai.chat import ChatStream
from converters.wire import FRAME_LIMIT
from tests.converters.openai.streams import (
    CLIENT_TOOLS,
    MODEL,
    RUN,
    SESSION,
    START,
    Client,
    follow,
    model_call,
    open_stream,
    read,
    text,
    thinking,
    tool_call,
    tool_result,
)

USAGE = Usage(provider="p", model="m", input_tokens=9, output_tokens=2, total_tokens=11)


def end(status: RunStatus = "completed", *usage: Usage) -> AgentEnd:
    return AgentEnd(run_id=RUN, status=status, usage=usage)


def waiting(*calls: str) -> list[Event]:
    return [RequireExternalExecution(run_id=RUN, reply_id="m1", call_ids=calls), end("client_tools")]


GREETING = [START, *model_call("m1", thinking("m1", "Hm."), text("m1", "Hi", " “you”\n")), end("completed", USAGE)]

SERVER_TOOL: list[Event] = [
    START,
    StepStart(run_id=RUN, iteration=0),
    *model_call("m1", text("m1", "Let me look."), tool_call("m1", "c1", "clock", "{}")),
    *tool_result("c1", "clock", "noon"),
    StepEnd(run_id=RUN, iteration=0),
    ExceedMaxIters(run_id=RUN, max_iters=1, current_iter=1),
    *model_call("m2", text("m2", "It is ", "noon."), usage=USAGE),
    FinalOutput(run_id=RUN, reply_id="m2", text="It is noon."),
    end("max_iterations", USAGE),
]

MIXED: list[Event] = [
    START,
    *model_call(
        "m1",
        tool_call("m1", "c1", "clock", "{}"),
        tool_call("m1", "c2", "pick", '{"a"', ":1}"),
        tool_call("m1", "c3", "clock"),
        tool_call("m1", "c4", "show"),
    ),
    *tool_result("c1", "clock", "noon"),
    *waiting("c2", "c4"),
]

FAILED: list[Event] = [START, *text("m1", "Hi"), RunFailed(run_id=RUN, code="model_unreachable", message="Gone.")]

RUNS = {"greeting": GREETING, "server tool": SERVER_TOOL, "mixed": MIXED, "failed": FAILED}

EACH_RUN = pytest.mark.parametrize("events", RUNS.values(), ids=RUNS)


def stream_of(events: list[Event], /, **options: Any) -> bytes:
    return open_stream(**options).feed(events)


def client_of(events: list[Event], /, **options: Any) -> Client:
    return follow(stream_of(events, **options))


HEAD = b'data: {"id":"chatcmpl-run_1","object":"chat.completion.chunk","created":1764500000,"model":"agent",'


def test_a_stream_is_byte_for_byte_what_was_tried_with_the_clients() -> None:
    def chunk(delta: bytes) -> bytes:
        return HEAD + b'"choices":[{"index":0,"delta":' + delta + b',"finish_reason":null}]}\n\n'

    assert stream_of(GREETING, include_usage=True) == (
        chunk(b'{"role":"assistant","content":""}')
        + chunk(b'{"reasoning_content":"Hm."}')
        + chunk(b'{"content":"Hi"}')
        + chunk('{"content":" “you”\\n"}'.encode())
        + HEAD
        + b'"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],'
        + b'"x_agent":{"status":"completed","run_id":"run_1","session_id":"session_1"}}\n\n'
        + HEAD
        + b'"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}\n\n'
        + b"data: [DONE]\n\n"
    )


def test_a_clients_call_is_byte_for_byte_what_was_tried_with_the_clients() -> None:
    events = [START, *tool_call("m1", "c2", "pick", '{"a"', ":1}"), *waiting("c2")]
    role, *rest = stream_of(events).removesuffix(b"\n\n").split(b"\n\n")
    deltas = [
        b'{"tool_calls":[{"index":0,"id":"c2","type":"function","function":{"name":"pick","arguments":""}}]}',
        b'{"tool_calls":[{"index":0,"function":{"arguments":"{\\"a\\""}}]}',
        b'{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}',
    ]
    whole = [HEAD + b'"choices":[{"index":0,"delta":' + each + b',"finish_reason":null}]}' for each in deltas]
    about = b'"x_agent":{"status":"client_tools","run_id":"run_1","session_id":"session_1","waiting":["c2"]}}'
    finish = HEAD + b'"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],' + about
    assert b'"role":"assistant"' in role
    assert rest == [*whole, finish, b"data: [DONE]"]


@EACH_RUN
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("include_usage", [False, True])
def test_no_client_breaks_on_a_stream(events: list[Event], shown: bool, include_usage: bool) -> None:
    client = client_of(events, events=shown, include_usage=include_usage)
    assert client.roles == 1
    assert (client.usage is not None) == (include_usage and client.error is None)


@EACH_RUN
def test_however_the_events_are_cut_the_bytes_are_the_same(events: list[Event]) -> None:
    stream = open_stream(events=True, include_usage=True)
    assert b"".join(stream.feed([each]) for each in events) == stream_of(events, events=True, include_usage=True)


@EACH_RUN
def test_a_heartbeat_between_any_two_events_breaks_nothing(events: list[Event]) -> None:
    stream = open_stream(include_usage=True)
    beating = b"".join(stream.heartbeat() + stream.feed([each]) for each in events)
    assert vars(follow(beating + stream.heartbeat())) == vars(client_of(events, include_usage=True))


def test_a_heartbeat_is_an_empty_delta_and_the_first_one_brings_the_role() -> None:
    stream = open_stream()
    assert b'"delta":{"role":"assistant","content":""}' in stream.heartbeat()
    assert b'"delta":{},"finish_reason":null' in stream.heartbeat()
    assert b"role" not in stream.feed(GREETING)
    assert stream.heartbeat() == b""


def test_the_servers_own_calls_are_hidden() -> None:
    client = client_of(SERVER_TOOL)
    assert (client.calls, client.asides, client.finish) == ([], [], "stop")
    assert "clock" not in client.content + client.reasoning


def test_the_texts_of_two_model_calls_are_kept_apart() -> None:
    assert client_of(SERVER_TOOL).content == "Let me look.\n\nIt is noon."


def test_text_of_one_message_is_not_torn_apart_by_a_call() -> None:
    events = [START, *text("m1", "be"), *tool_call("m1", "c1", "clock", "{}"), *text("m1", "fore"), end()]
    assert client_of(events).content == "before"


def test_two_blocks_of_reasoning_are_kept_apart() -> None:
    events = [START, *thinking("m1", "One", "."), *thinking("m1", "Two.", block="2"), *text("m1", "A"), end()]
    client = client_of(events)
    assert (client.reasoning, client.content) == ("One.\n\nTwo.", "A")


def test_an_empty_piece_sends_nothing_and_opens_nothing() -> None:
    events = [START, *text("m1", "a"), *text("m2", "", ""), *text("m3", "b"), end()]
    assert client_of(events).content == "a\n\nb"
    assert len(read(stream_of(events))) == 5


def test_calls_of_the_client_have_dense_indexes_among_hidden_ones() -> None:
    client = client_of(MIXED)
    assert client.calls == [
        {"id": "c2", "name": "pick", "arguments": '{"a":1}'},
        {"id": "c4", "name": "show", "arguments": "{}"},
    ]
    assert client.finish == "tool_calls"


def test_a_call_without_arguments_has_an_empty_object() -> None:
    client = client_of([START, *tool_call("m1", "c1", "pick"), *waiting("c1")])
    assert client.calls == [{"id": "c1", "name": "pick", "arguments": "{}"}]


def test_a_call_that_the_server_answered_itself_is_no_reason_to_finish_with_tool_calls() -> None:
    events = [START, *tool_call("m1", "c1", "pick", "[broken"), *tool_result("c1", "pick", "Error"), *text("m2", "So.")]
    assert client_of([*events, end()]).finish == "stop"


def test_a_run_that_waits_only_for_calls_of_an_earlier_answer_finishes_with_stop() -> None:
    client = client_of([START, *waiting("c_old")])
    assert (client.finish, client.calls) == ("stop", [])
    assert client.about is not None
    assert client.about["status"] == "client_tools"


@pytest.mark.parametrize("status", ["completed", "max_iterations", "cancelled"])
def test_every_other_end_finishes_with_stop_and_tells_its_status(status: RunStatus) -> None:
    client = client_of([START, *text("m1", "a"), end(status)])
    assert client.finish == "stop"
    assert client.about == {"status": status, "run_id": RUN, "session_id": SESSION}


def test_all_other_events_are_shown_on_request_as_ag_ui_has_them() -> None:
    asides = client_of(SERVER_TOOL, events=True).asides
    assert [each["type"] for each in asides] == [
        "RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "RAW", "CUSTOM",
    ]  # fmt: skip
    assert asides[1] == {
        "type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "clock", "parentMessageId": "m1",
    }  # fmt: skip
    assert asides[5]["event"]["type"] == "EXCEED_MAX_ITERS"
    assert asides[5]["event"]["maxIters"] == 1
    assert asides[6]["name"] == "token_usage"
    assert asides[6]["value"]["inputTokens"] == 9


@EACH_RUN
def test_each_event_that_is_shown_is_one_that_ag_ui_has(events: list[Event]) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(AguiEvent)
    for aside in client_of(events, events=True).asides:
        adapter.validate_python(aside)


def test_calls_of_the_client_are_not_shown_twice() -> None:
    asides = client_of(MIXED, events=True).asides
    assert {each["toolCallId"] for each in asides if each["type"].startswith("TOOL_CALL_")} == {"c1", "c3"}


REFUSED: list[Event] = [
    START,
    *tool_call("m1", "c1", "pick", '{"a":'),
    *tool_call("m1", "c2", "show", "{}"),
    *tool_result("c1", "pick", "Error: cut"),
]


def test_a_call_that_was_refused_never_leaves_as_a_call() -> None:
    client = client_of([*REFUSED, *waiting("c2")])
    assert [each["id"] for each in client.calls] == ["c2"]
    assert client.finish == "tool_calls"
    told = client_of([*REFUSED, *waiting("c2")], events=True).asides
    assert [(each["type"], each["toolCallId"]) for each in told[1:]] == [
        ("TOOL_CALL_START", "c1"), ("TOOL_CALL_ARGS", "c1"), ("TOOL_CALL_END", "c1"), ("TOOL_CALL_RESULT", "c1"),
    ]  # fmt: skip


def test_a_call_leaves_only_once_the_run_has_said_that_it_waits() -> None:
    stream = open_stream()
    assert b"tool_calls" not in stream.feed(REFUSED)
    assert stream.begun
    assert b'"id":"c2"' in stream.feed(waiting("c2"))


@pytest.mark.parametrize("last", [end("approval"), end("cancelled"), FAILED[-1]])
def test_a_call_whose_turn_it_is_not_stays_here(last: Event) -> None:
    events = [*REFUSED, RequireExternalExecution(run_id=RUN, call_ids=("c2",)), last]
    assert client_of(events).calls == []
    assert client_of(events).finish != "tool_calls"


def test_what_the_client_is_told_of_a_run_is_the_same_with_events_and_without() -> None:
    plain, chatty = vars(client_of(SERVER_TOOL)), vars(client_of(SERVER_TOOL, events=True))
    assert plain | {"asides": chatty["asides"]} == chatty


def test_an_event_that_holds_anything_at_all_is_shown_as_json() -> None:
    events = [START, Custom(run_id=RUN, name="n", value=[float("nan"), "\ud800", {1, 2}]), end()]
    assert client_of(events, events=True).asides[1]["value"] == [None, "\ufffd", [1, 2]]


def test_lone_surrogates_are_replaced_wherever_they_come() -> None:
    call = tool_call("m1", "c1", "pick", '{"a":"\ud83d', '"}')
    events = [START, *thinking("m1", "a\udc00"), *text("m1", "x\ud800", "y"), *call, *waiting("c1")]
    client = client_of(events)
    assert (client.reasoning, client.content) == ("a\ufffd", "x\ufffdy")
    assert client.calls[0]["arguments"] == '{"a":"\ufffd"}'


def test_separators_inside_json_do_not_end_a_line() -> None:
    said = "a\u2028b\u0085c\r\nd\n\ndata: [DONE]\n\n"
    assert client_of([START, *text("m1", said), end()]).content == said


def test_a_text_that_is_too_long_for_a_frame_comes_in_several() -> None:
    said = "é\n" * 900_000
    stream = stream_of([START, *text("m1", said), *tool_call("m1", "c1", "pick", said), *waiting("c1")])
    assert max(map(len, stream.split(b"\n\n"))) <= FRAME_LIMIT
    assert follow(stream).content == said
    assert follow(stream).calls[0]["arguments"] == said


def test_an_event_that_is_too_long_for_a_frame_is_cut() -> None:
    stream = stream_of([START, *tool_result("c1", "t", "x" * 2_000_000), end()], events=True)
    assert max(map(len, stream.split(b"\n\n"))) <= FRAME_LIMIT
    assert "cut here" in follow(stream).asides[-1]["content"]


def test_a_failure_in_the_middle_is_one_error_frame_and_done() -> None:
    stream = open_stream(include_usage=True)
    told = read(stream.feed(FAILED))
    error = {"message": "Gone.", "type": "server_error", "param": None, "code": "model_unreachable"}
    assert told[-2:] == [{"error": error}, "[DONE]"]
    assert stream.failure == FAILED[-1]
    assert stream.finished


def test_a_stream_without_an_end_is_ended_as_internal() -> None:
    stream = open_stream()
    client = follow(stream.feed(GREETING[:-1]) + stream.finish())
    assert client.error is not None
    assert client.error["code"] == "internal"
    assert stream.failure is not None
    assert stream.failure.code == "internal"


def test_a_stream_that_ended_well_needs_no_other_end() -> None:
    stream = open_stream()
    stream.feed(GREETING)
    assert (stream.finish(), stream.feed(GREETING), stream.failure) == (b"", b"", None)


def test_nothing_comes_after_the_end_in_the_same_batch() -> None:
    assert stream_of([*GREETING, *text("m9", "late"), *GREETING]) == stream_of(GREETING)


def test_no_events_make_no_bytes() -> None:
    stream = open_stream()
    assert stream.feed([]) == b""
    assert not stream.finished


RETRY = Retry(run_id=RUN, code="model_timeout", attempt=1, delay=0.1)


@pytest.mark.parametrize(
    ("event", "begun"),
    [
        (START, False),
        (RETRY, False),
        (TextDelta(run_id=RUN, reply_id="m", text=""), False),
        (TextDelta(run_id=RUN, reply_id="m", text="a"), True),
        (thinking("m1", "a")[1], True),
        (tool_call("m1", "c1", "pick")[0], True),
        (tool_call("m1", "c1", "clock")[0], True),
        (RunFailed(run_id=RUN, code="internal", message="m"), True),
        (end(), True),
    ],
)
@pytest.mark.parametrize("shown", [False, True])
def test_a_stream_has_begun_with_the_first_delta_call_or_end(event: Event, begun: bool, shown: bool) -> None:
    stream = open_stream(events=shown)
    assert not stream.begun
    stream.heartbeat()
    stream.feed([START, event])
    assert stream.begun == begun


def test_the_names_in_the_chunks_are_escaped() -> None:
    stream = ChatStream('r"1', "s\\", 'a"\n', CLIENT_TOOLS)
    first = read(stream.feed([START]))[0]
    assert isinstance(first, dict)
    assert (first["id"], first["model"]) == ('chatcmpl-r"1', 'a"\n')


def test_the_time_is_that_of_the_answers_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1764500123.9)
    stream = ChatStream(RUN, SESSION, MODEL, CLIENT_TOOLS)
    monkeypatch.setattr(time, "time", lambda: 1764500999.0)
    created = {each["created"] for each in read(stream.feed(GREETING)) if isinstance(each, dict)}
    assert created == {1764500123}


def test_an_event_that_cannot_be_shown_is_left_out_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        claims = (Custom,)

        def convert(self, event: Event) -> Any:
            raise ValueError("mine")

    custom = Custom(run_id=RUN, name="n", value=1)
    with caplog.at_level(logging.ERROR):
        client = client_of([START, custom, custom, *text("m1", "a"), end()], converters=[Broken()])
    assert client.content == "a"
    assert len(caplog.records) == 1
