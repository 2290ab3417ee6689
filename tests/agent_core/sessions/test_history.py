"""The folds of a session's entries."""

from typing import Any

import msgspec
import pytest

from agent_core.messages import Message, ToolCall
from agent_core.sessions.entries import Entry
from agent_core.sessions.history import history_of
from tests.entries import (
    end_entry,
    forked_entry,
    message_entry,
    rewound_entry,
    run_entry,
    started_entry,
    state_entry,
    titled_entry,
)


def said(message_id: str, **members: object) -> Message:
    return Message(id=message_id, role="user", content=f"text of {message_id}", **members)  # type: ignore[arg-type]


def ids(entries: list[Entry], agent: str = "a") -> list[str]:
    return [message.id for message in history_of(entries, agent).messages]


THREE = [message_entry("r", "a", said(f"m{number}")) for number in (1, 2, 3)]


def test_messages_are_each_agent_s_own_and_call_ids_the_session_s() -> None:
    asking = Message(id="x", role="assistant", tool_calls=(ToolCall(id="c1", name="t"),))
    entries = [THREE[0], message_entry("r", "b", asking)]
    assert (ids(entries), ids(entries, "b")) == (["m1"], ["x"])
    assert history_of(entries, "a").call_ids == {"c1"}


@pytest.mark.parametrize(
    ("after", "left"), [("m2", ["m1", "m2"]), ("m3", ["m1", "m2", "m3"]), ("", []), ("gone", ["m1", "m2", "m3"])]
)
def test_rewinding_forgets_what_comes_behind_a_message(after: str, left: list[str]) -> None:
    entries = [*THREE, rewound_entry("r", "a", after)]
    assert ids(entries) == left
    assert history_of(entries, "a").message_ids == set(left)


def test_rewinding_leaves_other_agents_alone_and_a_message_may_come_again_behind_it() -> None:
    edited = Message(id="m2", role="user", content="edited")
    entries = [
        *THREE,
        message_entry("r", "b", said("b1")),
        rewound_entry("r", "a", "m1"),
        message_entry("r", "a", edited),
    ]
    assert [message.text for message in history_of(entries, "a").messages] == ["text of m1", "edited"]
    assert ids(entries, "b") == ["b1"]
    assert ids([*entries, rewound_entry("r", "a", "m2")]) == ["m1", "m2"]


def test_a_run_without_an_end_is_lost_until_somebody_writes_its_end() -> None:
    entries = [run_entry("r1", "a"), end_entry("r1", "completed"), run_entry("r2", "a"), run_entry("r3", "b")]
    assert history_of(entries, "a").lost == {"r2": "a", "r3": "b"}
    assert history_of([*entries, end_entry("r2", "failed", "worker_lost")], "a").lost == {"r3": "b"}


def test_a_run_id_that_comes_again_is_lost_again() -> None:
    entries = [run_entry("r", "a"), end_entry("r", "completed"), run_entry("r", "a")]
    assert history_of(entries, "a").lost == {"r": "a"}


def test_the_last_run_s_end_says_whether_anybody_read_it() -> None:
    unread = [run_entry("r1", "a"), end_entry("r1", "completed", unread=True)]
    for entries, agent, run in (
        (unread, "a", ("completed", True)),
        (unread, "b", None),
        ([*unread, run_entry("r2", "a")], "a", ("", False)),
        ([*unread, run_entry("r2", "b"), end_entry("r2", "completed")], "a", ("completed", True)),
    ):
        found = history_of(entries, agent).run
        assert (None if found is None else (found.status, found.unread)) == run


def test_started_calls_keep_their_idempotency_keys() -> None:
    entries = [started_entry("r", "c1", "r:0:c1"), started_entry("r", "c2")]
    assert history_of(entries, "a").started == {"c1": "r:0:c1", "c2": ""}


def test_state_is_its_last_value_with_the_patches_since() -> None:
    entries = [
        state_entry("r", value={"n": 1}),
        state_entry("r", patch=[{"op": "replace", "path": "/n", "value": 2}]),
        state_entry("r", patch=[{"op": "add", "path": "/more", "value": [None]}]),
    ]
    history = history_of(entries, "a")
    assert (history.state, history.session.changes.weight) == ({"n": 2, "more": [None]}, 2)
    history = history_of([*entries, state_entry("r", value=None)], "a")
    assert (history.state, history.session.changes.weight) == (None, 0)


def test_the_last_title_counts_and_a_fork_says_so_without_changing_anything() -> None:
    entries = [titled_entry("r", "one"), titled_entry("r", "two"), forked_entry("r", "s", "m1")]
    assert history_of(entries, "a").title == "two"


@pytest.mark.parametrize(
    "entry",
    [
        Entry(run_id="r", kind="message", body=b"{}"),
        Entry(run_id="r", kind="end", body=b"[]"),
        Entry(run_id="r", kind="state", body=b'{"patch":[5]}'),
        Entry(run_id="r", kind="titled", body=b"not json"),
    ],
)
def test_a_body_that_cannot_be_read_raises_one_kind_of_error(entry: Entry) -> None:
    with pytest.raises(msgspec.MsgspecError):
        history_of([entry], "a")


MISFITS: list[dict[str, Any]] = [
    {"op": "replace", "path": "/gone", "value": 1},
    {"op": "remove", "path": "/n/deeper"},
    {"op": "burn"},
    {"path": "/n"},
    {"op": "add", "path": 5, "value": 1},
    {"op": "add", "path": "no pointer", "value": 1},
    {"op": "test", "path": "/n", "value": "other"},
]


@pytest.mark.parametrize("bad", MISFITS)
def test_a_change_of_the_state_that_does_not_fit_is_passed_over_whole(bad: dict[str, Any]) -> None:
    good = {"op": "add", "path": "/list/-", "value": {"more": []}}
    entries = [
        state_entry("r", value={"n": 1, "list": []}),
        state_entry("r", patch=[good]),
        state_entry("r", patch=[{"op": "add", "path": "/half", "value": True}, bad]),
        state_entry("r", patch=[{"op": "add", "path": "/list/0/more/-", "value": 2}]),
    ]
    history = history_of(entries, "a")
    assert history.state == {"n": 1, "list": [{"more": [2]}]}
    assert (history.session.changes.weight, history.session.changes.misfits) == (3, 1)
    assert history_of([*entries, state_entry("r", value={"n": 2})], "a").session.changes.misfits == 0
