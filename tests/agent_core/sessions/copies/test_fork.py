"""A fork has what was said up to its message, and nothing in it is open."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.errors import InvalidRequest
from agent_core.messages import ToolCall
from agent_core.pairing import open_calls
from agent_core.sessions.copies.fork import fork_entries
from agent_core.sessions.entries import Entry, body_of
from agent_core.sessions.history import history_of
from agent_core.sessions.kinds import EndBody, ForkedBody
from tests.agent_core.sessions.talk import CALL, OTHER, answered, kinds_of, marked, numbered, said, user
from tests.entries import end_entry, rewound_entry, run_entry, started_entry, state_entry, titled_entry


def forked(entries: Sequence[Entry], message_id: str, agent: str = "a") -> list[Entry]:
    return fork_entries(entries, agent, message_id, session_id="from")


def ids(entries: Sequence[Entry], agent: str = "a") -> list[str]:
    return [message.id for message in history_of(entries, agent).messages]


def talk() -> list[Entry]:
    return numbered(
        run_entry("r1", "a"),
        titled_entry("r1", "A talk"),
        user("u1"),
        said("m1"),
        end_entry("r1", "completed"),
        run_entry("r2", "a"),
        user("u2", run="r2"),
        said("m2", run="r2"),
        end_entry("r2", "completed"),
    )


def test_a_fork_has_all_up_to_and_with_the_message() -> None:
    whole = talk()
    copy = forked(whole, "u2")
    assert ids(copy) == ["u1", "m1", "u2"]
    assert copy[:7] == marked(whole[:7])
    assert body_of(copy[-1]) == ForkedBody(session_id="from", message_id="u2")


def test_a_run_that_the_fork_cuts_through_ends_as_cancelled() -> None:
    copy = forked(talk(), "m2")
    assert kinds_of(copy[8:]) == ["end", "forked"]
    end = body_of(copy[8])
    assert isinstance(end, EndBody)
    assert (copy[8].run_id, end.status) == ("r2", "cancelled")
    assert history_of(copy, "a").lost == {}


def test_a_fork_at_an_older_message_leaves_out_the_runs_after_it() -> None:
    copy = forked(talk(), "m1")
    assert ids(copy) == ["u1", "m1"]
    assert {entry.run_id for entry in copy[:-2]} == {"r1"}


def test_a_message_that_is_not_there_is_named() -> None:
    for message_id in ("", "nothing", "u1-thinking-1"):
        with pytest.raises(InvalidRequest) as caught:
            forked(talk(), message_id)
        assert caught.value.param == "messageId"
    with pytest.raises(InvalidRequest):
        forked(talk(), "u1", agent="b")


def test_a_message_that_was_dropped_by_rewinding_cannot_be_forked_at() -> None:
    entries = [*talk(), rewound_entry("r3", "a", "m1"), user("u3", run="r3")]
    with pytest.raises(InvalidRequest):
        forked(entries, "u2")
    assert ids(forked(entries, "u3")) == ["u1", "m1", "u3"]
    assert ids(forked(entries, "m1")) == ["u1", "m1"]


def test_a_message_that_came_again_after_rewinding_is_forked_at_where_it_stands_now() -> None:
    entries = [*talk(), rewound_entry("r3", "a", ""), user("other", run="r3"), user("u1", "again", run="r3")]
    copy = forked(entries, "u1")
    assert [m.text for m in history_of(copy, "a").messages] == ["hi", "again"]


def test_calls_that_have_no_result_in_the_cut_are_answered_as_not_run() -> None:
    entries = numbered(run_entry("r1", "a"), user("u1"), said("m1", "", CALL, OTHER), answered(CALL, "t1"))
    copy = history_of(forked(entries, "m1"), "a").messages
    assert [(m.tool_call_id, m.status) for m in copy[2:]] == [("c1", "not_run"), ("c2", "not_run")]
    assert open_calls(copy) == ()
    copy = history_of(forked(entries, "t1"), "a").messages
    assert [(m.tool_call_id, m.status) for m in copy[2:]] == [("c1", "ok"), ("c2", "not_run")]


def test_a_call_that_had_been_started_is_answered_as_interrupted() -> None:
    entries = numbered(
        run_entry("r1", "a"),
        user("u1"),
        said("m1", "", CALL, OTHER),
        started_entry("r1", "c1"),
        started_entry("r1", "c2"),
        answered(CALL, "t1"),
        answered(OTHER, "t2"),
    )
    [result] = history_of(forked(entries, "t1"), "a").messages[3:]
    assert (result.tool_call_id, result.status) == ("c2", "interrupted")


def test_a_fork_at_the_message_itself_knows_which_of_its_calls_were_started() -> None:
    running, untouched = OTHER, ToolCall(id="c3", name="x")
    entries = numbered(
        run_entry("r1", "a"),
        user("u1"),
        said("m1", "", CALL, running, untouched),
        started_entry("r1", CALL.id),
        started_entry("r1", running.id),
        answered(CALL, "t1"),
    )
    results = history_of(forked(entries, "m1"), "a").messages[2:]
    assert [(m.tool_call_id, m.status) for m in results] == [
        ("c1", "interrupted"),
        ("c2", "interrupted"),
        ("c3", "not_run"),
    ]


def test_the_other_agents_of_the_session_come_along_and_are_closed_too() -> None:
    entries = numbered(
        user("u1"), user("v1", agent="b"), said("n1", "", CALL, agent="b"), said("m1"), said("n2", agent="b")
    )
    copy = forked(entries, "m1")
    assert ids(copy) == ["u1", "m1"]
    assert ids(copy, "b")[:2] == ["v1", "n1"]
    assert open_calls(history_of(copy, "b").messages) == ()
    assert "n2" not in ids(copy, "b")


def test_the_state_is_that_of_the_message_and_the_title_that_of_today() -> None:
    entries = numbered(
        user("u1"),
        titled_entry("r1", "Old"),
        state_entry("r1", value={"n": 1}),
        said("m1"),
        state_entry("r1", value={"n": 2}),
        titled_entry("x", "New"),
    )
    copy = history_of(forked(entries, "m1"), "a")
    assert (copy.state, copy.title) == ({"n": 1}, "New")
    assert kinds_of(forked(entries[:4], "m1"))[4:] == ["forked"]


def test_a_fork_can_be_forked_again() -> None:
    copy = numbered(*forked(forked(talk(), "u2"), "m1"))
    assert ids(copy) == ["u1", "m1"]
    assert history_of(copy, "a").lost == {}


@given(st.lists(st.tuples(st.sampled_from(["add", "rewind"]), st.integers(0, 9)), max_size=30))
def test_whatever_was_rewound_the_fork_is_the_history_up_to_its_message(moves: list[tuple[str, int]]) -> None:
    entries: list[Entry] = []
    for kind, number in moves:
        here = ids(entries)
        if kind == "rewind":
            entries.append(rewound_entry("r", "a", here[number % len(here)] if here else ""))
        elif f"u{number}" not in here:
            entries.append(user(f"u{number}"))
    standing = ids(entries)
    for place, message_id in enumerate(standing):
        assert ids(forked(entries, message_id)) == standing[: place + 1]
