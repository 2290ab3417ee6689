"""Each kind of entry in one class; a kind that only a later version knows; agents and lanes in one list."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_core.errors import InvalidRequest
from agent_core.interrupts import Interrupt
from agent_core.messages import Message, ToolCall
from agent_core.names import SessionKey
from agent_core.sessions.copies.fork import copy_entries, fork_entries
from agent_core.sessions.copies.portable import export_lines, import_entries
from agent_core.sessions.copies.snapshot import entries_of, snapshot_of
from agent_core.sessions.entries import Entry, body_of, copied, entry_of
from agent_core.sessions.history import history_of, standing_of, state_since
from agent_core.sessions.journal.anchor import ANCHOR_FILE
from agent_core.sessions.kinds import (
    KINDS,
    AskedBody,
    Body,
    EndBody,
    MessageBody,
    RewoundBody,
    RunBody,
    StartedBody,
    StateBody,
    TitledBody,
)
from agent_core.sessions.sql.database_file import DATABASE
from agent_core.sessions.sql.offline import verify_database
from agent_core.sessions.storage import open_store
from tests.agent_core.sessions.talk import CALL, numbered, said, user
from tests.entries import end_entry, run_entry, titled_entry

LATER = Entry(run_id="r1", kind="weather", body=b'{"of":"a later version"}')

TALK = numbered(run_entry("r1", "a"), LATER, user("u1"), LATER, said("m1"), titled_entry("r1", "T"), LATER)


def test_the_kinds_are_those_that_were_ever_stored() -> None:
    assert set(KINDS) == {
        *("run", "message", "started", "end", "rewound", "state", "titled", "forked", "asked", "answered")
    }, "a word that was stored is never given up"


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_marked_just_where_its_kind_has_a_mark(kind: str) -> None:
    bodies: dict[str, Body] = {"message": MessageBody(agent="a", message=Message(id="m", role="user", content="hi"))}
    bodies |= {"started": StartedBody(call_id="c"), "titled": TitledBody(title="T"), "run": RunBody(agent="a")}
    if kind in bodies:
        entry = entry_of("r", bodies[kind])
        marked = b'"origin":"copied"' in copied(entry, body_of(entry)).body
        assert marked == ("origin" in KINDS[kind].__struct_fields__)


def test_an_unknown_kind_is_skipped_in_a_history_and_keeps_its_number() -> None:
    history = history_of(TALK, "a")
    assert [node.seq for node in history.tree.nodes()] == [3, 5]
    assert (history.title, history.lost) == ("T", {"r1": "a"})
    assert state_since([*TALK, *numbered(LATER)], "a", 1) is None


def test_an_unknown_kind_is_exported_as_it_is_and_left_out_of_a_copy() -> None:
    lines = export_lines(TALK, session_id="s", title="T").decode()
    assert '{"seq":2,"lane":"root","runId":"r1","kind":"weather","body":{"of":"a later version"}}' in lines
    for copy in (
        copy_entries(TALK),
        fork_entries(TALK, "a", "m1", session_id="s"),
        entries_of(snapshot_of(TALK)),
    ):
        assert "weather" not in [entry.kind for entry in copy]
        assert [message.id for message in history_of(copy, "a").messages] == ["u1", "m1"]
        assert history_of(copy, "a").lost == {}
    with pytest.raises(InvalidRequest, match=r"line 3: kind must be one of run, "):
        import_entries(lines.encode())


async def test_an_unknown_kind_stays_in_the_journals_chain(tmp_path: Path) -> None:
    store = await open_store("sqlite", tmp_path, lease_seconds=30)
    key = SessionKey(user_id="u", session_id="s")
    lease = await store.acquire(key, "w")
    assert lease is not None
    await store.append(lease, TALK)
    assert lease.head == len(TALK)
    await store.append(lease, [end_entry("r1", "completed")], release=True)
    assert [entry.seq for entry in await store.load(key)] == list(range(1, len(TALK) + 2))
    await store.aclose()
    report = verify_database("sqlite", tmp_path, [tmp_path / ANCHOR_FILE])
    assert ((tmp_path / DATABASE).exists(), report.whole, report.entries) == (True, True, 8)


def in_lane(lane: str, run_id: str, *bodies: Body) -> list[Entry]:
    return [entry_of(run_id, body, lane) for body in bodies]


def tell(agent: str, message_id: str, role: Any = "user", *calls: ToolCall) -> MessageBody:
    return MessageBody(agent=agent, message=Message(id=message_id, role=role, content=message_id, tool_calls=calls))


WAITS = Interrupt(id="i1", kind="approval", call_id="c2", name="send")


def two_lanes() -> Sequence[Entry]:
    """Agent `a` is asked, and asks itself as a subagent, in the lane of the call `c1`."""
    sub = ToolCall(id="c2", name="send")
    return numbered(
        *in_lane("root", "r", RunBody(agent="a", client="agui", opens=True), tell("a", "u1")),
        *in_lane("root", "r", tell("a", "m1", "assistant", CALL), StartedBody(call_id="c1", key="k1")),
        *in_lane("c1", "r", RunBody(agent="a", opens=True), tell("a", "s1"), tell("a", "s2", "assistant")),
        *in_lane("c1", "r", RewoundBody(agent="a", after="s1"), tell("a", "s3", "assistant", sub)),
        *in_lane("c1", "r", AskedBody(agent="a", interrupt=WAITS), StateBody(value={"n": 1})),
        *in_lane("c1", "r", EndBody(status="approval", tokens=7)),
        *in_lane("root", "r", TitledBody(title="T")),
    )


def test_messages_rewinds_runs_turns_and_interrupts_are_each_lanes_own() -> None:
    root, lane = history_of(two_lanes(), "a"), history_of(two_lanes(), "a", "c1")
    assert [message.id for message in root.messages] == ["u1", "m1"]
    assert [message.id for message in lane.messages] == ["s1", "s3"]
    assert (root.pending, lane.pending) == ((), (WAITS,))
    assert (root.turn.rounds, root.turn.tokens) == (1, 0)
    assert (lane.turn.rounds, lane.turn.tokens) == (1, 7), "a run that goes back begins its turn again"
    assert (root.run and root.run.status, lane.run and lane.run.status) == ("", "approval")
    assert set(root.others) == {"s1", "s2", "s3"}
    assert set(lane.others) == {"u1", "m1"}


@pytest.mark.parametrize("lane", ["root", "c1", "nobody's"])
def test_state_calls_lost_runs_clients_and_title_are_the_sessions(lane: str) -> None:
    history = history_of(two_lanes(), "a", lane)
    assert (history.state, history.title, history.lost) == ({"n": 1}, "T", {"r": "a"})
    assert (history.call_ids, history.started) == ({"c1", "c2"}, {"c1": "k1"})
    assert history.clients == {"agui", ""}


def test_the_end_of_a_run_in_its_own_lane_is_not_that_of_a_subagent() -> None:
    ended = [*two_lanes(), *in_lane("root", "r", EndBody(status="completed", tokens=3))]
    assert (history_of(ended, "a").lost, standing_of(ended).runs["r"].status) == ({}, "completed")
    assert history_of(ended, "a").turn.tokens == 3
    assert history_of(ended, "a", "c1").turn.tokens == 7


def test_only_the_history_that_is_wanted_is_kept_apart() -> None:
    """An import may have as many agents as entries, and each reading would pay for all of them."""
    entries = numbered(*(user(f"u{number}", agent=f"a{number}") for number in range(50)))
    standing = standing_of(entries, ("a7", "root"))
    assert len(standing.histories) == 2
    assert len(standing.agents) == 50
    history = standing.of("a7")
    assert [message.id for message in history.messages] == ["u7"]
    assert len(history.others) == 49


def test_a_copy_closes_each_lane_in_its_lane() -> None:
    copy = standing_of(copy_entries(two_lanes()), ("a", "root"), ("a", "c1"))
    assert [each.status for each in copy.of("a").messages if each.role == "tool"] == ["interrupted"]
    assert [each.status for each in copy.of("a", "c1").messages if each.role == "tool"] == ["not_run"]
    assert copy.session.open_runs == {}
    assert copy.of("a", "c1").pending == ()
