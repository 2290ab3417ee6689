"""A ledger of what clients were told, and checks whether it is true.

These are acknowledged: the input, when RUN_STARTED comes, or the frame after it if the run may have waited for its
session; a call and its result, with TOOL_CALL_RESULT; everything, with the terminal event.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_core.messages import Message
from agent_core.names import SessionKey
from agent_core.pairing import open_calls, paired
from agent_core.sessions.entries import Entry, body_of
from agent_core.sessions.history import history_of
from agent_core.sessions.kinds import EndBody, MessageBody
from agent_core.sessions.store import Store
from tests.serving import Frame

AGENT = "worker"
UNSAVED = frozenset({"store_unavailable", "worker_lost"})
"""Codes of runs whose end could not be written down."""

TWICE = frozenset({"remark"})
"""Tools that may run twice under one key."""


@dataclass(slots=True)
class Told:
    """The ledger of one session: the ids of user messages; results by call; answers by message; runs that ended.
    `rewound` is set if the history was."""

    users: set[str] = field(default_factory=set)
    results: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    ends: set[str] = field(default_factory=set)
    rewound: bool = False

    def __len__(self) -> int:
        return len(self.users) + len(self.results) + len(self.answers) + len(self.ends)


class Ear:
    """Takes one run's frames and writes down what they acknowledge.

    `waits` says that the run may have waited for its session: RUN_STARTED promises nothing then. `checks`
    that the frames are those of a run: one start, and nothing behind the terminal event.
    """

    def __init__(self, told: Told, body: Frame, *, waits: bool = False) -> None:
        self.end: Frame | None = None
        self._told = told
        self._run = body["runId"]
        self._users = {each["id"] for each in body["messages"] if each["role"] == "user"}
        self._waits = waits
        self._texts: dict[str, str] = {}
        self._number = 0

    def hear(self, frame: Frame) -> None:
        assert self.end is None, f"{frame} behind the end"
        kind = frame["type"]
        self._number += 1
        assert (kind == "RUN_STARTED") == (self._number == 1), frame
        refused = kind == "RUN_ERROR" and (self._number == 2 or frame["code"] in UNSAVED)
        if not refused and (self._number > 1 or not self._waits):
            self._told.users |= self._users
        if kind == "TEXT_MESSAGE_START":
            self._texts[frame["messageId"]] = ""
        elif kind == "TEXT_MESSAGE_CONTENT":
            self._texts[frame["messageId"]] += frame["delta"]
        elif kind == "TOOL_CALL_RESULT":
            self._told.results[frame["toolCallId"]] = frame["content"]
        elif kind == "CUSTOM" and frame["name"] == "session_rewound":
            self._told.rewound = True
        elif kind in ("RUN_FINISHED", "RUN_ERROR"):
            self.end = frame
            if not refused:
                self._told.answers |= self._texts
                self._told.ends.add(self._run)


class Ledger:
    """What was told of each session."""

    def __init__(self) -> None:
        self.sessions: dict[str, Told] = {}

    def __len__(self) -> int:
        """How many things were acknowledged."""
        return sum(map(len, self.sessions.values()))

    def of(self, session: str) -> Told:
        return self.sessions.setdefault(session, Told())

    def check_messages(self, session: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """Against what GET /sessions/{id}/messages answers."""
        told = self.of(session)
        ids = [each["id"] for each in messages]
        assert len(set(ids)) == len(ids), f"{session}: a message is there twice"
        if not told.rewound:
            results = {each["toolCallId"]: each["content"] for each in messages if each["role"] == "tool"}
            calls = {call["id"] for each in messages for call in each.get("toolCalls", ())}
            texts = {each["id"]: each.get("content", "") for each in messages if each["role"] == "assistant"}
            self._compare(session, set(ids), calls, results, texts)

    async def check_store(self, session: str, store: Store, *, settled: bool, user: str = "local") -> None:
        """Against the entries. A session is `settled` when no run of it was lost since its last run."""
        entries = await store.load(SessionKey(user_id=user, session_id=session))
        assert [each.seq for each in entries] == list(range(1, len(entries) + 1)), f"{session}: a gap"
        said = _said(entries)
        results = {each.tool_call_id or "": each.text for each in said if each.role == "tool"}
        calls = {call.id for each in said for call in each.tool_calls}
        texts = {each.id: each.text for each in said if each.role == "assistant"}
        self._compare(session, {each.id for each in said}, calls, results, texts)
        missing = self.of(session).ends - {each.run_id for each in entries if isinstance(body_of(each), EndBody)}
        assert not missing, f"{session}: the end of {missing} was told and is not there"
        _check_paired(session, entries, settled=settled)

    def _compare(
        self, session: str, ids: set[str], calls: set[str], results: Mapping[str, str], texts: Mapping[str, str]
    ) -> None:
        told = self.of(session)
        assert told.users <= ids, f"{session}: lost {told.users - ids}"
        assert told.results.keys() <= calls, f"{session}: lost the calls {told.results.keys() - calls}"
        lost = {call: text for call, text in told.results.items() if results.get(call) != text}
        assert not lost, f"{session}: lost or changed {lost}"
        lost = {message: text for message, text in told.answers.items() if texts.get(message) != text}
        assert not lost, f"{session}: lost or changed {lost}"


def _said(entries: Sequence[Entry]) -> list[Message]:
    bodies = [body_of(each) for each in entries]
    return [body.message for body in bodies if isinstance(body, MessageBody)]


def _check_paired(session: str, entries: Sequence[Entry], *, settled: bool) -> None:
    history = history_of(entries, AGENT)
    view = paired(history.messages)
    assert view[: len(history.messages)] == history.messages, f"{session}: the history is not paired"
    if settled:
        assert len(view) == len(history.messages), f"{session}: open calls {open_calls(history.messages)}"
        assert not history.lost, f"{session}: runs without an end {history.lost}"


def check_effects(path: Path, ledger: Ledger) -> int:
    """Check that no call ran twice that must not, that none ran under two keys, and that calls which are said to be
    done were done. Returns how many calls ran."""
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    runs, keys = Counter(call for call, _ in lines), {(call, key) for call, key in lines}
    assert len(keys) == len(runs), "a call ran under two keys"
    again = {call for call, number in runs.items() if number > 1 and tool_of(call) not in TWICE}
    assert not again, f"ran twice: {again}"
    for told in ledger.sessions.values():
        done = {call for call, text in told.results.items() if text.startswith("did ")}
        assert done <= runs.keys(), "a call is said to be done that nobody ran"
    return len(lines)


def tool_of(call: str) -> str:
    """Which tool a call is of: the fault tests' model puts it into the id."""
    return call.rsplit("_", 1)[1]
