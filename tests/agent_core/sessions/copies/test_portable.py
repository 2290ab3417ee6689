"""An export can be imported. Other lines are refused, by their number."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_core.errors import InvalidRequest
from agent_core.interrupts import Decision, Interrupt
from agent_core.messages import MediaPart, Message, TextPart, ToolCall
from agent_core.pairing import open_calls
from agent_core.sessions.copies.portable import LARGEST_LINE, MOST_SIGNS, export_lines, import_entries
from agent_core.sessions.entries import Entry, body_of
from agent_core.sessions.history import history_of
from agent_core.sessions.kinds import StateBody
from agent_core.sessions.state import LARGEST_STATE
from tests.agent_core.sessions.talk import CALL, OTHER, answered, kinds_of, marked, numbered, said, user
from tests.entries import (
    answered_entry,
    asked_entry,
    end_entry,
    forked_entry,
    message_entry,
    rewound_entry,
    run_entry,
    started_entry,
    state_entry,
    titled_entry,
)

ASKED = Interrupt(id="i1", kind="approval", call_id="c1", name="look_up", message="May I?", expires_at=2**40)

HEAD = {"ostinato": "session", "version": 1, "sessionId": "s", "title": "", "exportedAt": ""}


def everything() -> list[Entry]:
    """A session with an entry of every kind and message of every shape."""
    parts = (
        TextPart(text="look\n\x00\u2028"),
        MediaPart(kind="image", source="data", value="aGk=", mime_type="image/png"),
        MediaPart(kind="document", source="file", value="file_1"),
    )
    call = ToolCall(id="c3", name="x", arguments="no json", extra={"google": {"thought_signature": "abc"}})
    return numbered(
        run_entry("r1", "a"),
        titled_entry("r1", "Ein Gespräch 🐈‍⬛"),
        message_entry("r1", "a", Message(id="m\n0", role="user", content=parts, name="ann")),
        said("m1", "", CALL, OTHER),
        asked_entry("r1", "a", ASKED),
        answered_entry("r1", "i1", Decision(kind="approved", arguments='{"word":"b"}')),
        started_entry("r1", "c1", "r1:0:c1"),
        asked_entry("r1", "a", replace(ASKED, id="i2", kind="waiting", operation_id="o", wait_id="w", retry_after=0.5)),
        answered(CALL, "t1"),
        answered(OTHER, "t2"),
        message_entry("r1", "a", Message(id="m2", role="assistant", thoughts=("a", ""), tool_calls=(call,))),
        replace(answered(call, "t3"), lane="c1"),
        state_entry("r1", value={"a": [1, None, 2.5]}),
        state_entry("r1", patch=[{"op": "add", "path": "/a/-", "value": {"b": 1}}, {"op": "remove", "path": "/a/0"}]),
        end_entry("r1", "failed", "model_quota", last=17),
        rewound_entry("r2", "a", "t2"),
        forked_entry("f", "from", "t2"),
    )


def line(entry: Entry, **other: Any) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "lane": entry.lane,
        "runId": entry.run_id,
        "kind": entry.kind,
        "body": orjson.loads(entry.body),
    } | other


def raw(kind: str, body: Any, **other: Any) -> dict[str, Any]:
    return {"seq": 1, "lane": "root", "runId": "r", "kind": kind, "body": body} | other


def lines(*members: Any, head: Any = HEAD) -> bytes:
    return b"".join(each if isinstance(each, bytes) else orjson.dumps(each) + b"\n" for each in (head, *members))


def refused(data: bytes) -> str:
    with pytest.raises(InvalidRequest) as caught:
        import_entries(data)
    assert len(caught.value.message) < 500
    return caught.value.message


def message(**members: Any) -> dict[str, Any]:
    return raw("message", {"agent": "a", "message": {"id": "m", "role": "user", "content": "hi"} | members})


def test_what_is_exported_comes_back_as_it_was() -> None:
    entries = everything()
    assert import_entries(export_lines(entries, session_id="s", title="T")) == marked(entries)


def test_the_export_says_what_it_is_and_has_one_line_for_each_entry() -> None:
    entries = everything()
    head, *rest = export_lines(entries, session_id="s:1", title="T\u2028").decode().removesuffix("\n").split("\n")
    told = orjson.loads(head)
    assert told | {"exportedAt": ""} == HEAD | {"sessionId": "s:1", "title": "T\u2028"}
    assert told["exportedAt"].endswith("Z")
    assert [orjson.loads(each) for each in rest] == [line(each) for each in entries]


@pytest.mark.parametrize("name", ["get_weather", "functions.get weather", "wetter_für", "x" * 128])
def test_a_call_of_a_tool_that_cannot_be_here_is_taken(name: str) -> None:
    [entry, _] = import_entries(lines(message(role="assistant", tool_calls=[{"id": "c", "name": name}])))
    assert history_of([entry], "a").messages[0].tool_calls[0].name == name


def test_members_that_nobody_knows_are_left_out() -> None:
    [entry] = import_entries(lines(message(more=1) | {"mac": "abc"}))
    assert entry == marked(numbered(replace(user("m"), run_id="r")))[0]


def test_a_line_feed_at_the_end_may_be_missing_and_carriage_returns_do_no_harm() -> None:
    data = lines(message())
    assert import_entries(data.removesuffix(b"\n")) == import_entries(data.replace(b"\n", b"\r\n"))


def test_an_import_is_closed_so_that_nothing_in_it_is_run() -> None:
    entries = numbered(
        run_entry("r1", "a"),
        user("u1"),
        said("m1", "", CALL, OTHER),
        started_entry("r1", "c1"),
        said("n1", "", ToolCall(id="c9", name="x"), agent="b"),
        run_entry("r2", "b"),
    )
    taken = import_entries(export_lines(entries, session_id="s", title=""))
    assert taken[:6] == marked(entries)
    assert [entry.seq for entry in taken] == list(range(1, 12))
    assert kinds_of(taken[6:]) == ["message", "message", "message", "end", "end"]
    assert [m.status for m in history_of(taken, "a").messages[2:]] == ["interrupted", "not_run"]
    for agent in ("a", "b"):
        history = history_of(taken, agent)
        assert (open_calls(history.messages), history.lost) == ((), {})


def test_an_approval_that_waits_does_so_no_more_once_it_is_imported() -> None:
    entries = numbered(
        run_entry("r1", "a"),
        user("u1"),
        said("m1", "", CALL),
        asked_entry("r1", "a", ASKED),
        end_entry("r1", "approval"),
    )
    assert history_of(entries, "a").pending == (ASKED,)
    history = history_of(import_entries(export_lines(entries, session_id="s", title="")), "a")
    assert (history.pending, history.messages[-1].status) == ((), "not_run")


def test_an_approval_of_a_call_that_nobody_has_made_yet_cannot_be_brought_in() -> None:
    asked = line(numbered(asked_entry("r", "a", ASKED))[0])
    yes = line(numbered(answered_entry("r", "i1", Decision(kind="approved")))[0])
    call = message(role="assistant", tool_calls=[{"id": "c1", "name": "look_up"}])
    assert "interrupt.call_id" in refused(lines(asked, yes | {"seq": 2}))
    assert "interrupt.call_id" in refused(lines(asked, call | {"seq": 2}))
    other = call | {"body": call["body"] | {"agent": "b"}}
    assert "interrupt.call_id" in refused(lines(other, asked | {"seq": 2}))
    assert "interrupt_id" in refused(lines(call, yes | {"seq": 2}, asked | {"seq": 3}))
    assert len(import_entries(lines(call, asked | {"seq": 2}, yes | {"seq": 3}))) == 4


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"id": ""}, "interrupt.id"),
        ({"kind": "wish"}, "interrupt.kind"),
        ({"call_id": "c2"}, "interrupt.call_id"),
        ({"call_id": ""}, "interrupt.call_id"),
        ({"name": ""}, "interrupt.name"),
        ({"name": "a\u202eb"}, "interrupt.name"),
        ({"expires_at": -1}, "interrupt.expires_at"),
        ({"created_at": 2**60}, "interrupt.created_at"),
        ({"retry_after": -0.5}, "interrupt.retry_after"),
        ({"retry_after": "soon"}, "interrupt.retry_after"),
        ({"message": 5}, "interrupt.message"),
    ],
)
def test_an_interrupt_that_cannot_be_is_refused(members: dict[str, Any], what: str) -> None:
    asked = line(numbered(asked_entry("r", "a", ASKED))[0])
    asked["body"]["interrupt"] |= members
    call = message(role="assistant", tool_calls=[{"id": "c1", "name": "look_up"}])
    told = refused(lines(call, asked | {"seq": 2}))
    assert told.startswith("line 3: ")
    assert what in told


def test_a_bad_head_is_line_one() -> None:
    for data in (b"", b"\n", b"{}", b"[1]", b"null", b"\xef\xbb\xbf" + lines(message()), b"\x00", b"{"):
        assert refused(data).startswith("line 1: ")
    for head in (HEAD | {"ostinato": "snapshot"}, HEAD | {"version": 2}, HEAD | {"version": True}, {"version": 1}):
        assert refused(lines(message(), head=head)).startswith("line 1: ")


def test_a_session_without_entries_is_none() -> None:
    assert refused(lines()).startswith("line 2: ")


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (b"\n", "JSON"),
        (b"no json\n", "JSON"),
        (b'{"seq":NaN}\n', "JSON"),
        (b'{"seq":1e999}\n', "JSON"),
        (b'"\\ud800"\n', "JSON"),
        (b'"\xff"\n', "JSON"),
        (b"[" * 100_000 + b"\n", "JSON"),
        (b"[]\n", "object"),
        (b'{"a":' * 201 + b"1" + b"}" * 201 + b"\n", "deep"),
        (message() | {"seq": 2}, "seq"),
        (message() | {"seq": True}, "seq"),
        (message() | {"seq": "1"}, "seq"),
        (message() | {"lane": ""}, "lane"),
        (message() | {"lane": None}, "lane"),
        (message() | {"lane": "a\x00b"}, "lane"),
        (message() | {"lane": "x" * 2000}, "lane"),
        (message() | {"runId": ""}, "runId"),
        (message() | {"runId": "a\n"}, "runId"),
        (message() | {"runId": 7}, "runId"),
        (message() | {"kind": "other"}, "kind"),
        (message() | {"kind": ["message"]}, "kind"),
        (message() | {"body": None}, "body"),
        (message() | {"body": []}, "body"),
        ({"seq": 1}, "lane"),
        (message(role="robot"), "body.message.role"),
        (message(id=""), "body.message.id"),
        (message(id="x" * 257), "body.message.id"),
        (message(id=7), "body.message.id"),
        (message(content=[{"type": "film"}]), "body.message.content[0].type"),
        (message(content=7), "body.message.content"),
        (message(tool_calls=[{"id": "c", "name": "x"}]), "tool calls"),
        (message(role="assistant", tool_calls=[{"id": "", "name": "x"}]), "tool_calls[].id"),
        (message(role="assistant", tool_calls=[{"name": "x"}]), "body.message.tool_calls[0].id is missing"),
        (message(role="assistant", tool_calls=[{"id": "c", "name": "x"}] * 2), "twice"),
        (message(role="assistant", tool_calls=[{"id": "c", "name": ""}]), "tool_calls[].name"),
        (message(role="assistant", tool_calls=[{"id": "c", "name": "a\nb"}]), "tool_calls[].name"),
        (message(role="assistant", tool_calls=[{"id": "c", "name": "a\u202eb"}]), "tool_calls[].name"),
        (message(role="assistant", tool_calls=[{"id": "c", "name": "x" * 129}]), "tool_calls[].name"),
        (message(role="tool"), "tool_call_id"),
        (message(status="fine"), "body.message.status"),
        (raw("message", {"agent": "a b", "message": {"id": "m", "role": "user"}}), "body.agent"),
        (raw("message", {"message": {"id": "m", "role": "user"}}), "body.agent is missing"),
        (raw("run", {"agent": ""}), "body.agent"),
        (raw("run", {"agent": "a", "at": -1}), "body.at"),
        (
            b'{"seq":1,"lane":"root","runId":"r","kind":"run","body":{"agent":"a","at":1' + b"0" * 30 + b"}}\n",
            "body.at",
        ),
        (raw("run", {"agent": "a", "at": 2**62}), "body.at"),
        (raw("end", {"status": "done"}), "body.status"),
        (raw("end", {"status": "failed"}), "body.code"),
        (raw("end", {"status": "failed", "code": "secret"}), "body.code"),
        (raw("end", {"status": "completed", "last": -1}), "body.last"),
        (raw("end", {"status": "completed", "tokens": -1}), "body.tokens"),
        (raw("end", {"status": "completed", "tokens": 2**62}), "body.tokens"),
        (raw("end", {"status": "completed", "seconds": -0.5}), "body.seconds"),
        (raw("end", {"status": "completed", "seconds": "1"}), "body.seconds"),
        (raw("run", {"agent": "a", "opens": 1}), "body.opens"),
        (message(noted=-1), "body.message.noted"),
        (message(error="x" * 129), "body.message.error"),
        (raw("started", {"call_id": ""}), "body.call_id"),
        (raw("asked", {"agent": "a"}), "body.interrupt is missing"),
        (raw("answered", {"interrupt_id": "i", "decision": {"kind": "approved"}}), "body.interrupt_id"),
        (raw("answered", {"interrupt_id": "i", "decision": {"kind": "yes"}}), "body.decision.kind"),
        (raw("rewound", {"agent": "a", "after": "nothing"}), "body.after"),
        (raw("titled", {"title": ""}), "body.title"),
        (raw("titled", {"title": "a\x00"}), "body.title"),
        (raw("titled", {"title": "a\u202eb"}), "body.title"),
        (raw("titled", {"title": "x" * 201}), "body.title"),
        (raw("forked", {"session_id": "", "message_id": "m"}), "body.session_id"),
        (raw("state", {"value": "x" * LARGEST_STATE}), "state"),
        (raw("state", {"patch": [{"op": "add", "path": "/a/b", "value": 1}]}), "patch"),
        (raw("state", {"patch": [{}]}), "patch"),
        (raw("state", {"patch": [{"op": 1}]}), "patch"),
        (raw("state", {"patch": [{"op": "add", "path": 7, "value": 1}]}), "patch"),
        (raw("state", {"patch": [{"op": "copy", "from": "", "path": ""}]}), "patch"),
        (raw("state", {"patch": ["add"]}), "patch"),
    ],
)
def test_a_bad_line_is_named_with_what_is_wrong(bad: Any, what: str) -> None:
    told = refused(lines(bad))
    assert told.startswith("line 2: ")
    assert what in told
    # Behind good lines it is as bad, and its number is its own.
    before = [line(each) for each in numbered(run_entry("r", "other"), end_entry("r", "completed"))]
    if isinstance(bad, dict) and bad["seq"] is not True:
        bad = bad | {"seq": bad["seq"] + 2 if what != "seq" else "3"}
    elif isinstance(bad, bytes):
        bad = bad.replace(b'"seq":1,', b'"seq":3,')
    assert refused(lines(*before, bad)).startswith("line 4: ")


def test_the_refusal_does_not_repeat_what_stood_in_the_line() -> None:
    for bad in (
        message(role="SECRET"),
        message() | {"kind": "SECRET"},
        b'{"SECRET\n',
        raw("end", {"status": "SECRET"}),
    ):
        assert "SECRET" not in refused(lines(bad))


def test_a_message_id_may_come_twice_only_behind_a_rewinding() -> None:
    twice = [line(each) for each in numbered(user("u1"), said("m1"), user("u1"))]
    assert refused(lines(*twice)).startswith("line 4: body.message.id")
    other = [line(each) for each in numbered(user("u1"), user("u1", agent="b"))]
    assert len(import_entries(lines(*other))) == 2
    rewound = [line(each) for each in numbered(user("u1"), rewound_entry("r", "a", ""), user("u1"))]
    assert len(import_entries(lines(*rewound))) == 3


def test_patches_that_would_make_a_huge_or_bottomless_state_are_refused() -> None:
    value = line(state_entry("r", value={"a": []}), seq=1)
    grow = {"op": "add", "path": "/a/-", "value": "x" * 200_000}
    patches = [line(state_entry("r", patch=[grow]), seq=seq) for seq in (2, 3)]
    assert refused(lines(value, *patches)).startswith("line 4: the state has")
    deep: Any = 1
    for _ in range(150):
        deep = {"d": deep}
    add = [{"op": "add", "path": "/d" * seq * 150 or "", "value": deep} for seq in range(2)]
    nested = [line(state_entry("r", patch=[each]), seq=seq) for seq, each in enumerate(add, start=1)]
    assert "deep" in refused(lines(*nested))
    many = [line(state_entry("r", patch=[]), seq=seq) for seq in range(1, 60)]
    assert refused(lines(*many)).startswith("line 52: ")


def test_too_many_lines_are_refused_before_they_are_looked_at() -> None:
    assert "100000" in refused(lines(*[b"\n"] * 100_001))


@given(st.binary(max_size=200), st.integers(0, 2_000))
def test_whatever_bytes_come_nothing_else_is_raised(garbage: bytes, place: int) -> None:
    data = export_lines(everything(), session_id="s", title="T")
    place %= len(data)
    for bad in (garbage, data[:place] + garbage + data[place:], data[:place] + garbage + data[place + len(garbage) :]):
        try:
            entries = import_entries(bad)
        except InvalidRequest:
            continue
        assert import_entries(export_lines(entries, session_id="s", title="")) == entries


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_any_member_may_be_anything(data: st.DataObject) -> None:
    members = [line(each) for each in everything()]
    here: Any = members[data.draw(st.integers(0, len(members) - 1))]
    while isinstance(here, dict | list) and here:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(here[key], dict | list) or not here[key] or data.draw(st.booleans()):
            here[key] = data.draw(JSON)
            break
        here = here[key]
    try:
        text = lines(*members)
    except TypeError:  # an integer that orjson cannot write
        return
    try:
        entries = import_entries(text)
    except InvalidRequest:
        return
    for agent in ("a", "b"):
        assert open_calls(history_of(entries, agent).messages) == ()


def counted(*members: dict[str, Any]) -> bytes:
    return lines(*(each | {"seq": number} for number, each in enumerate(members, start=1)))


def inserts(number: int) -> list[dict[str, Any]]:
    return [{"op": "add", "path": "/0", "value": 0} for _ in range(number)]


def test_patches_that_move_long_lists_again_and_again_are_refused_with_their_line() -> None:
    patches = (raw("state", {"patch": inserts(1_000)}) for _ in range(12))
    assert refused(counted(raw("state", {"value": [0] * 100_000}), *patches)).startswith(
        "line 7: body.patch moves too many items of lists"
    )


def test_a_patch_of_many_operations_is_taken_in_as_the_value_that_it_makes() -> None:
    patches = (raw("state", {"patch": inserts(number)}) for number in (3_000, 1))
    entries = import_entries(counted(raw("state", {"value": []}), *patches))
    bodies = [body_of(entry) for entry in entries]
    assert [isinstance(body, StateBody) and body.patch is None for body in bodies] == [True, True, False]
    assert history_of(entries, "a").state == [0] * 3_001


def test_a_conversation_that_goes_back_over_everything_again_and_again_is_refused() -> None:
    said = (message(id=f"m{number}") for number in range(1_000))
    back = (raw("rewound", {"agent": "a", "after": after}) for _ in range(300) for after in ("", "m999"))
    assert refused(counted(*said, *back)).startswith("line 1502: the conversation goes back too often")


@pytest.mark.parametrize(
    ("value", "what"),
    [("x" * LARGEST_LINE, "line 2: has 16000"), ([0] * MOST_SIGNS, "line 2: has more than 1000000 brackets")],
)
def test_a_line_that_takes_too_long_to_read_is_refused(value: Any, what: str) -> None:
    assert refused(lines(raw("state", {"value": value}))).startswith(what)


def test_a_conversation_that_went_back_and_forth_comes_back_as_it_was() -> None:
    shown = [message(id="m1"), message(id="m2"), raw("rewound", {"agent": "a", "after": "m1"}), message(id="m3")]
    back = raw("rewound", {"agent": "a", "after": "m2"})
    assert [each.id for each in history_of(import_entries(counted(*shown, back)), "a").messages] == ["m1", "m2"]
