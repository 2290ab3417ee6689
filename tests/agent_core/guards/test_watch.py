"""The guards of a run: one table of a model's calls and the guards' trips."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_core.guards.digests import bare, canonical, noted
from agent_core.guards.settings import Guards
from agent_core.guards.watch import BLOCKED, CLOSING, NO_SUMMARY, Trip, Watch, closing, doubted, fallback, rewatched
from agent_core.messages import Message, ResultStatus, TextPart, ToolCall

Call = tuple[str, str, ResultStatus, str, str]
"""name, arguments, status, error class, the result's text"""


def ran(name: str, arguments: str = "{}", result: str = "r") -> Call:
    return name, arguments, "ok", "", result


def failed(name: str, error: str = "ValueError", arguments: str = "{}", status: ResultStatus = "error") -> Call:
    return name, arguments, status, error, ""


def result_for(call: ToolCall, status: ResultStatus = "ok", error: str = "", text: str = "r") -> Message:
    return Message(
        id=f"result of {call.id}",
        role="tool",
        tool_call_id=call.id,
        name=call.name,
        status=status,
        content=text,
        error=error,
    )


def answer(*calls: ToolCall) -> Message:
    return Message(id="m", role="assistant", tool_calls=calls)


class Script:
    """Plays batches of calls to a Watch as the loop does, and notes what trips, and what would be stored. With
    `order`, the calls of a batch run side by side, and their results come in as it says."""

    def __init__(
        self, guards: Guards, repeatable: Iterable[str] = (), order: Callable[[list[int]], list[int]] | None = None
    ) -> None:
        self.watch = Watch(guards, frozenset(repeatable))
        self.trips: list[Trip] = []
        self.acted: list[Message] = []
        self.ran = 0
        self.made = 0
        self.ended = False
        self.order = order

    def batch(self, *calls: Call) -> None:
        """One answer of the model. All its calls are judged before the first is run."""
        asked = [ToolCall(id=f"c{self.made + n}", name=call[0], arguments=call[1]) for n, call in enumerate(calls)]
        self.made += len(calls)
        self.acted.append(answer(*asked))
        blocks = self.watch.asked(asked)
        for call in asked:
            if call.id in blocks:
                self.block(call, blocks[call.id])
        cleared = [n for n, call in enumerate(asked) if call.id not in blocks]
        for n in cleared if self.order is None else self.order(cleared):
            trip = None if self.order else self.watch.due(asked[n].id)
            if trip is not None:
                self.block(asked[n], trip)
                continue
            self.ran += 1
            result = result_for(asked[n], *calls[n][2:])
            trip = self.note(self.watch.result(result))
            self.acted.append(noted(result, trip.told) if trip else result)

    def block(self, call: ToolCall, trip: Trip) -> None:
        assert trip.action == "block"
        self.note(trip)
        self.acted.append(result_for(call, "error", BLOCKED, trip.told))

    def round(self, seconds: float = 0.0, tokens: int = 0) -> bool:
        """The checkpoint. Whether the rounds are over."""
        trip = self.note(self.watch.round(seconds, tokens, 0))
        assert trip is None or trip.action == "answer"
        self.ended = trip is not None
        return self.ended

    def note(self, trip: Trip | None) -> Trip | None:
        if trip is not None:
            self.trips.append(trip)
        return trip

    @property
    def seen(self) -> list[tuple[str, str, str, int]]:
        return [(trip.guard, trip.action, trip.tool, trip.count) for trip in self.trips]


def play(batches: Iterable[tuple[Call, ...]], repeatable: Iterable[str] = (), **limits: Any) -> Script:
    script = Script(Guards(**limits), repeatable)
    for calls in batches:
        if script.round():
            break
        script.batch(*calls)
    else:
        script.round()
    return script


def one_by_one(*calls: Call) -> list[tuple[Call, ...]]:
    return [(call,) for call in calls]


UNRUN: tuple[ResultStatus, ...] = ("denied", "not_run", "interrupted")

A, B, C = ran("t", '{"x":1}', "a"), ran("t", '{"x":2}', "b"), ran("u", "{}", "c")

TABLE: list[tuple[str, list[tuple[Call, ...]], dict[str, Any], list[tuple[str, str, str, int]]]] = [
    ("twice the same call", one_by_one(A, A), {}, []),
    ("three in a row", one_by_one(A, A, A), {}, [("repeats", "nudge", "t", 3)]),
    (
        "nine in a row whose results change, as those of a cursor do",
        one_by_one(*(ran("t", "{}", str(n)) for n in range(9))),
        {},
        [],
    ),
    (
        "ten in a row whose results change, and on",
        one_by_one(*(ran("t", "{}", str(n)) for n in range(13))),
        {},
        [
            ("repeats", "nudge", "t", 10),
            ("repeats", "block", "t", 11),
            ("repeats", "block", "t", 12),
            ("repeats", "answer", "t", 12),
        ],
    ),
    (
        "two results in turn are no circle of one call",
        one_by_one(*(ran("t", "{}", str(n % 2)) for n in range(9))),
        {},
        [],
    ),
    (
        "a result that stays the same at last",
        one_by_one(*(ran("t", "{}", str(min(n, 3))) for n in range(6))),
        {},
        [("repeats", "nudge", "t", 3)],
    ),
    (
        "ten in one answer whose results change, and fourteen more",
        [tuple(ran("t", "{}", str(n)) for n in range(24))],
        {},
        [*[("repeats", "block", "t", n) for n in range(11, 25)]],
    ),
    ("repeats=12 is more than ten", one_by_one(*(ran("t", "{}", str(n)) for n in range(11))), {"repeats": 12}, []),
    (
        "an answer that has the same call three times and another behind it",
        [(A, A, A, B)],
        {},
        [("repeats", "nudge", "t", 3)],
    ),
    (
        "three in a row, whatever the order of the members",
        one_by_one(ran("t", '{"a":1,"b":2}'), ran("t", '{ "b": 2, "a": 1 }'), ran("t", '{"b":2,"a":1}')),
        {},
        [("repeats", "nudge", "t", 3)],
    ),
    ("the same arguments of two tools", one_by_one(ran("t"), ran("u"), ran("v")), {}, []),
    ("a row that is broken", one_by_one(A, A, B, A, A, C, A, A), {}, []),
    (
        "nudge, block, answer",
        one_by_one(A, A, A, A, A, A),
        {},
        [
            ("repeats", "nudge", "t", 3),
            ("repeats", "block", "t", 4),
            ("repeats", "block", "t", 5),
            ("repeats", "answer", "t", 5),
        ],
    ),
    (
        "one answer full of the same call: the model has read no nudge yet, so nothing ends",
        [(A,) * 6],
        {},
        [("repeats", "nudge", "t", 3), *(("repeats", "block", "t", n) for n in (4, 5, 6))],
    ),
    (
        "and when it goes on after that",
        [(A,) * 4, (A, A), (A,), (A,)],
        {},
        [
            ("repeats", "nudge", "t", 3),
            *(("repeats", "block", "t", n) for n in (4, 5, 6, 7)),
            ("repeats", "answer", "t", 7),
        ],
    ),
    ("a model that heeds the nudge", one_by_one(A, A, A, B, C), {}, [("repeats", "nudge", "t", 3)]),
    (
        "a model that heeds it for a while",
        one_by_one(A, A, A, B, A, A, A, A),
        {},
        [
            ("repeats", "nudge", "t", 3),
            ("repeats", "block", "t", 3),
            ("repeats", "block", "t", 4),
            ("repeats", "answer", "t", 4),
        ],
    ),
    ("repeats=2", one_by_one(A, A), {"repeats": 2}, [("repeats", "nudge", "t", 2)]),
    ("repeats=5", one_by_one(A, A, A, A), {"repeats": 5}, []),
    ("repeats off", one_by_one(*[A] * 30), {"repeats": None}, []),
    ("repeats off, circles too", one_by_one(*[A, B] * 15), {"repeats": 0}, []),
    ("A-B-A", one_by_one(A, B, A), {}, []),
    ("A-B-A-B", one_by_one(A, B, A, B), {}, [("repeats", "nudge", "t", 2)]),
    (
        "A-B-A-B in batches, and on",
        [(A, B), (A, B), (A, B), (A, B), (A, B)],
        {},
        [
            ("repeats", "nudge", "t", 2),
            *[("repeats", "block", "t", 3)] * 4,
            ("repeats", "answer", "t", 3),
        ],
    ),
    (
        "A-B-A-B, one by one, and on",
        one_by_one(A, B, A, B, A, B, A),
        {},
        [
            ("repeats", "nudge", "t", 2),
            ("repeats", "block", "t", 3),
            ("repeats", "block", "t", 3),
            ("repeats", "answer", "t", 3),
        ],
    ),
    (
        "A-B-A-B whose results change",
        one_by_one(*(ran("t", f'{{"x":{n % 2}}}', str(n)) for n in range(12))),
        {},
        [],
    ),
    (
        "A-B-A-B where one result changes",
        one_by_one(*(A if n % 2 else ran("u", "{}", str(n)) for n in range(12))),
        {},
        [],
    ),
    ("A-B-C-A-B-C", one_by_one(A, B, C, A, B, C), {}, [("repeats", "nudge", "u", 2)]),
    ("A-A-B-A-A-B", one_by_one(A, A, B, A, A, B), {}, [("repeats", "nudge", "t", 2)]),
    ("a circle of four is left to the other limits", one_by_one(*[A, B, C, ran("v")] * 5), {}, []),
    ("A-B-A-B with repeats=4", one_by_one(A, B, A, B, A), {"repeats": 4}, []),
    ("A-B-A-B-A-B with repeats=4", one_by_one(A, B, A, B, A, B), {"repeats": 4}, [("repeats", "nudge", "t", 3)]),
    (
        "a circle of failures, whose texts are never the same",
        one_by_one(*[failed("t", "KeyError"), failed("u", "OSError")] * 2),
        {},
        [("repeats", "nudge", "u", 2)],
    ),
    (
        "three failures",
        one_by_one(*(failed("t", arguments=f'{{"n":{n}}}') for n in range(3))),
        {},
        [("failures", "answer", "t", 3)],
    ),
    (
        "three time-outs",
        one_by_one(*(failed("t", "", f'{{"n":{n}}}', "timed_out") for n in range(3))),
        {},
        [("failures", "answer", "t", 3)],
    ),
    (
        "three failures of three classes",
        one_by_one(*(failed("t", error, f'"{error}"') for error in "XYZ")),
        {},
        [],
    ),
    (
        "three failures of three tools",
        one_by_one(*(failed(name) for name in "xyz")),
        {},
        [],
    ),
    (
        "three of five",
        one_by_one(*(failed("t", arguments=str(n)) if n % 2 else ran("t", str(n), str(n)) for n in range(1, 6))),
        {},
        [("failures", "answer", "t", 3)],
    ),
    (
        "one of three, for ever",
        one_by_one(*(ran("t", str(n), str(n)) if n % 3 else failed("t", arguments=str(n)) for n in range(30))),
        {},
        [],
    ),
    (
        "what a person denies, and what is not run, is no failure",
        one_by_one(*(failed("t", "x", str(n), UNRUN[n % 3]) for n in range(12))),
        {},
        [],
    ),
    (
        "failures in one answer: the siblings of another tool go on",
        [(*(failed("t", arguments=str(n)) for n in range(5)), C)],
        {},
        [("failures", "answer", "t", 3)],
    ),
    (
        "disable",
        one_by_one(*(failed("t", arguments=str(n)) for n in range(3)), C, failed("t", arguments="9"), C),
        {"on_tool_failure": "disable"},
        [("failures", "disable", "t", 3), ("failures", "block", "t", 3)],
    ),
    ("failures off", one_by_one(*(failed("t", arguments=str(n)) for n in range(30))), {"failures": 0}, []),
    ("failures=1", one_by_one(failed("t")), {"failures": 1}, [("failures", "answer", "t", 1)]),
    ("40 calls of one tool", one_by_one(*(ran("t", str(n), str(n)) for n in range(40))), {}, []),
    (
        "41 calls of one tool",
        one_by_one(*(ran("t", str(n), str(n)) for n in range(41))),
        {},
        [("calls_per_tool", "block", "t", 40), ("calls_per_tool", "answer", "t", 40)],
    ),
    ("calls per tool off", one_by_one(*(ran("t", str(n), str(n)) for n in range(99))), {"calls_per_tool": 0}, []),
    ("150 calls", one_by_one(*(ran(f"t{n % 5}", str(n), str(n)) for n in range(150))), {}, []),
    (
        "151 calls",
        one_by_one(*(ran(f"t{n % 5}", str(n), str(n)) for n in range(151))),
        {},
        [("calls_per_run", "block", "", 150), ("calls_per_run", "answer", "", 150)],
    ),
    (
        "a batch over the limit",
        [tuple(ran("t", str(n), str(n)) for n in range(5)), (C,)],
        {"calls_per_run": 3},
        [*[("calls_per_run", "block", "", 3)] * 2, ("calls_per_run", "answer", "", 3)],
    ),
]


@pytest.mark.parametrize(
    ("batches", "limits", "trips"), [row[1:] for row in TABLE], ids=[row[0].replace(" ", "-") for row in TABLE]
)
def test_the_guards_trip_as_the_table_says(
    batches: list[tuple[Call, ...]], limits: dict[str, Any], trips: list[tuple[str, str, str, int]]
) -> None:
    assert play(batches, **limits).seen == trips


def test_a_polling_tool_that_is_exempt_trips_nothing_in_60_calls() -> None:
    script = play([(ran("poll", '{"job":1}', "busy"),)] * 60, {"poll"})
    assert (script.trips, script.ran) == ([], 60)


def test_an_exempt_tool_still_counts_for_the_run() -> None:
    script = play([(ran("poll"),)] * 200, {"poll"})
    assert script.seen == [("calls_per_run", "block", "", 150), ("calls_per_run", "answer", "", 150)]


def test_an_exempt_tool_that_fails_trips_all_the_same() -> None:
    assert play([(failed("poll"),)] * 9, {"poll"}).seen == [("failures", "answer", "poll", 3)]


def test_an_exempt_call_breaks_rows_and_circles() -> None:
    poll = ran("poll")
    assert play(one_by_one(*[A, poll] * 10), {"poll"}).trips == []
    assert play(one_by_one(*[A, B, poll] * 10), {"poll"}).trips == []


@pytest.mark.parametrize(
    ("limits", "spent", "trip"),
    [
        ({"seconds": 60}, (59.9, 0), None),
        ({"seconds": 60}, (60.0, 0), ("seconds", 60)),
        ({"seconds": 0.5}, (0.5, 0), ("seconds", 0)),
        ({"tokens": 1000}, (0.0, 999), None),
        ({"tokens": 1000}, (0.0, 1000), ("tokens", 1000)),
        ({"seconds": 1, "tokens": 1}, (9.0, 9), ("seconds", 1)),
        ({}, (1e9, 10**12), None),
        ({"seconds": 0, "tokens": 0}, (1e9, 10**12), None),
    ],
)
def test_time_and_tokens_end_in_an_answer(
    limits: dict[str, Any], spent: tuple[float, int], trip: tuple[str, int] | None
) -> None:
    found = Watch(Guards(**limits)).round(*spent, 0)
    assert (found and (found.guard, found.count)) == trip
    assert found is None or (found.action == "answer" and found.told)


def test_a_failed_tool_that_is_disabled_is_named() -> None:
    script = play([(failed("t", arguments=str(n)),) for n in range(3)], on_tool_failure="disable")
    assert script.watch.disabled == {"t"}
    assert not script.ended
    assert play([(failed("t", arguments=str(n)),) for n in range(3)]).watch.disabled == frozenset()


def test_the_first_reason_to_end_stands_and_is_told_until_then() -> None:
    script = play([tuple(failed("t", arguments=str(n)) for n in range(3))])
    assert script.watch.round(1e9, 0, 10**6) == script.trips[-1]


def test_a_turn_has_a_hundred_rounds() -> None:
    watch = Watch(Guards())
    assert watch.round(0, 0, 99) is None
    trip = watch.round(0, 0, 100)
    assert trip is not None
    assert (trip.guard, trip.action, trip.count) == ("turn_iterations", "answer", 100)
    assert Watch(Guards(turn_iterations=None)).round(0, 0, 10**6) is None


def test_calls_that_run_side_by_side_are_put_in_their_order() -> None:
    script = Script(Guards(), order=lambda places: places[::-1])
    script.batch(ran("a", result="1"), ran("b", result="2"))
    assert script.seen == []
    script.batch(ran("a", result="1"), ran("b", result="2"))
    assert script.seen == [("repeats", "nudge", "a", 2)]


def test_a_call_whose_result_never_came_trips_nothing() -> None:
    watch = Watch(Guards())
    for number, name in enumerate("abababab"):
        assert watch.asked([ToolCall(id=f"c{number}", name=name)]) == {}
    assert watch.result(result_for(ToolCall(id="other", name="never called"))) is None
    assert watch.due("other") is None


def test_what_the_guards_add_to_a_result_is_no_part_of_it() -> None:
    result = result_for(ToolCall(id="c", name="t"), text="12")
    parts = replace(result, content=(TextPart(text="a"), TextPart(text="b")))
    for each in (result, parts, replace(result, content="")):
        more = noted(each, "Stop it.")
        assert bare(more) == each.content
        assert more.text.endswith("Stop it.")
        assert noted(more, "Again.") is more, "it is said once"
    assert noted(result, "").content == "12"
    assert noted(result, "Stop it.").content == "12\n\nStop it."


def test_what_the_model_is_told_names_the_tool_and_what_is_missing() -> None:
    script = play(one_by_one(A, A, A, A, A))
    nudge, block, _, answer = script.trips
    assert "3 times in a row" in nudge.told
    assert block.told.startswith("This call was not run")
    assert closing(answer).startswith("The tool 't' was called again and again")
    assert closing(answer).endswith(CLOSING)
    assert "honestly what is missing" in CLOSING
    assert fallback(answer) == f"{answer.told} {NO_SUMMARY}"
    [failures] = play([(failed("t", arguments=str(n)),) for n in range(3)]).trips
    assert failures.told == "The tool 't' has failed 3 times in the same way (ValueError)."


def test_a_name_that_the_model_made_up_is_told_shortened() -> None:
    wild = "x\ud800" * 10_000
    script = play([(ran(wild),)] * 5)
    assert {trip.tool for trip in script.trips} == {"x\ufffd" * 32}
    assert all(len(trip.told) < 400 and trip.told.encode() for trip in script.trips)


@pytest.mark.parametrize(
    ("limits", "replies", "trips"),
    [
        ({}, ["0"], [None]),
        ({"confidence": 0}, ["0"], [None]),
        ({"confidence": 0.7}, ["70"], [None]),
        ({"confidence": 0.7}, ["40%"], [40]),
        ({"confidence": 0.7}, ["no idea"], [None]),
        ({"confidence": 0.7}, ["90", "40"], [None, 40]),
    ],
)
def test_an_unsure_answer_gets_one_more_round(
    limits: dict[str, Any], replies: list[str], trips: list[int | None]
) -> None:
    found = [doubted(Guards(**limits).confidence, reply) for reply in replies]
    assert [trip and trip.count for trip in found] == trips
    assert all((trip.guard, trip.action) == ("confidence", "nudge") for trip in found if trip)


@pytest.mark.parametrize(
    ("arguments", "form"),
    [
        ("", b"{}"),
        ("{}", b"{}"),
        ("null", b"{}"),
        (' { "b" : [1, 2.5], "a": {"d": 1, "c": "\\u00e9"} } ', '{"a":{"c":"é","d":1},"b":[1,2.5]}'.encode()),
        ("[1, 2]", b"[1,2]"),
        ('{"a":', b'{"a":'),
        ("a\ud800", "a\ufffd".encode()),
        ('"\\ud800"', b'"\\ud800"'),
        ("1e999", b"1e999"),
        ("[" * 300 + "]" * 300, b"[" * 300 + b"]" * 300),
        ("[" * 9_999, b"[" * 9_999),
    ],
)
def test_arguments_have_one_form(arguments: str, form: bytes) -> None:
    assert canonical(arguments) == form


NAMES = st.sampled_from(["a", "b", "c", "poll"])
STATUSES = st.sampled_from([*["ok"] * 6, "error", "timed_out", "denied", "not_run", "interrupted"])
CALLS = st.builds(
    lambda name, arguments, status, error, result: (name, arguments, status, error, result),
    NAMES,
    st.sampled_from(["{}", '{"x":1}', "broken", "", "null", "[1]"]) | st.text(max_size=3),
    STATUSES,
    st.sampled_from(["", "ValueError", "arguments"]),
    st.sampled_from(["", "1", "2"]) | st.text(max_size=2),
)
SCRIPTS = st.lists(st.lists(CALLS, min_size=1, max_size=8), min_size=1, max_size=8)
LIMITS = st.fixed_dictionaries(
    {
        "repeats": st.none() | st.integers(2, 6),
        "failures": st.none() | st.integers(1, 6),
        "on_tool_failure": st.sampled_from(["answer", "disable"]),
        "calls_per_tool": st.none() | st.integers(1, 60),
        "calls_per_run": st.integers(1, 60),
    }
)


@given(SCRIPTS, LIMITS)
def test_no_script_lets_a_run_go_on_for_ever(script: list[list[Call]], limits: dict[str, Any]) -> None:
    run = Script(Guards(**limits), {"poll"})
    for turn in range(limits["calls_per_run"] + 2):  # each turn makes one call at least
        if run.round():
            break
        run.batch(*script[turn % len(script)])
    assert run.ended
    assert run.ran <= limits["calls_per_run"]
    assert run.trips[-1].action == "answer"
    assert all(trip.told for trip in run.trips)


@given(SCRIPTS, st.integers(2, 6))
def test_a_model_that_does_the_same_in_every_turn_is_stopped_by_the_guard_on_repeats(
    script: list[list[Call]], times: int
) -> None:
    [call, *_] = script[0]
    run = play([(call,)] * (times + 3), repeats=times, failures=None)
    assert run.ended
    assert [trip.action for trip in run.trips] == ["nudge", "block", "block", "answer"]
    assert run.ran == times


@given(st.lists(st.tuples(NAMES, st.integers(0, 3)), max_size=35), st.integers(1, 5))
def test_a_varied_script_whose_results_are_new_never_trips(steps: list[tuple[str, int]], size: int) -> None:
    calls: list[Call] = []
    for number, (name, argument) in enumerate(steps):
        row = [(each[0], each[1]) for each in calls[-2:]] == [(name, str(argument))] * 2
        calls.append(ran(name, str(argument + 10 if row else argument), f"result {number}"))
    batches = [tuple(calls[start : start + size]) for start in range(0, len(calls), size)]
    run = play(batches)
    assert (run.trips, run.ran) == ([], len(calls))


@given(st.lists(CALLS, max_size=40), st.integers(2, 5))
def test_no_call_is_blocked_by_repeats_before_the_model_was_told(calls: list[Call], times: int) -> None:
    run = play(one_by_one(*calls), repeats=times, failures=None)
    actions = [trip.action for trip in run.trips if trip.guard == "repeats"]
    assert actions[:1] in ([], ["nudge"])
    assert "answer" not in actions[:3]


@given(SCRIPTS, LIMITS, st.none() | st.integers(0, 9))
def test_what_was_stored_makes_the_very_watch_that_was_kept(
    script: list[list[Call]], limits: dict[str, Any], seed: int | None
) -> None:
    chance = None if seed is None else Random(seed)
    order = None if chance is None else lambda places: chance.sample(places, len(places))
    run = Script(Guards(**limits), {"poll"}, order)
    for number in range(12):
        assert rewatched(run.watch.guards, run.watch.repeatable, run.acted) == run.watch
        if run.round():
            break
        run.batch(*script[number % len(script)])


@given(SCRIPTS, st.integers(0, 9))
def test_what_trips_of_repeats_does_not_depend_on_which_result_comes_in_first(
    script: list[list[Call]], seed: int
) -> None:
    chance = Random(seed)
    seen = []
    for order in (lambda places: places, lambda places: chance.sample(places, len(places))):
        run = Script(Guards(failures=None), {"poll"}, order)
        for calls in script:
            run.round()
            run.batch(*calls)
        seen.append([(trip.guard, trip.action, trip.count) for trip in run.trips])
    assert seen[0] == seen[1]
