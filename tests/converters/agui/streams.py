"""Reading AG-UI streams in tests: strictly, and by the rules of the client, written down again here
rather than taken from the code under test.
"""

import json
import re
from typing import Any

from ag_ui.core import Event as AguiEvent
from pydantic import TypeAdapter

from agent_core.events import AgentStart, Event
from converters.agui.dialect import Dialect
from converters.agui.stream import AguiStream

MODELS: TypeAdapter[Any] = TypeAdapter(AguiEvent)

RUN, THREAD, REPLY = "run_1", "thread_1", "msg_1"

NULLABLE = {("RAW", "event"), ("CUSTOM", "value"), ("STATE_SNAPSHOT", "snapshot")}

START = AgentStart(run_id=RUN, agent="a")


def _refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is no JSON")


def read(stream: bytes) -> list[dict[str, Any]]:
    """The stream's events. Each is held against the protocol's models, and against nulls; ids must ascend."""
    return [event for _, event in read_ids(stream)]


def read_ids(stream: bytes) -> list[tuple[tuple[int, int] | None, dict[str, Any]]]:
    """As `read`, each event with its id."""
    assert b"\r" not in stream
    assert stream == b"" or stream.endswith(b"\n\n")
    events: list[tuple[tuple[int, int] | None, dict[str, Any]]] = []
    last = (0, 0)
    for block in stream.split(b"\n\n")[:-1]:
        found = re.fullmatch(rb"(?:id: ([1-9][0-9]*)\.([0-9]+)\n)?data: (\{.*)", block)
        assert found is not None, block[:200]
        number = None if found[1] is None else (int(found[1]), int(found[2]))
        assert number is None or number > last
        last = number or last
        assert len(found[3]) + 8 <= 1_000_000
        event = json.loads(found[3], parse_constant=_refuse)
        assert "timestamp" not in event or isinstance(event["timestamp"], int)
        assert [name for name in event if event[name] is None and (event["type"], name) not in NULLABLE] == []
        MODELS.validate_python(event)
        events.append((number, event))
    return events


def convert(*events: Event, dialect: Dialect = Dialect.V1) -> list[dict[str, Any]]:
    """What the events show after RUN_STARTED, in the middle of a run."""
    stream = AguiStream(THREAD, RUN, dialect)
    stream.feed([START])
    return read(stream.feed(events))


class Rejected(Exception):
    """The client gives up on the run."""


class Client:
    """What AG-UI's client demands of the order of events; `old` also what its versions 0.0.x did."""

    def __init__(self, *, old: bool = False) -> None:
        self.old = old
        self.open: set[tuple[str, str | None, str]] = set()
        self.over = False
        self.run: tuple[str, str] | None = None
        self.started_subagents: set[str] = set()
        self.owners: dict[tuple[str, str], str | None] = {}

    def take(self, event: dict[str, Any]) -> None:
        kind: str = event["type"]
        self._demand(not self.over, "something after the end")
        self._demand((self.run is None) == (kind == "RUN_STARTED"), "RUN_STARTED is not the first or the only one")
        if kind == "RUN_STARTED":
            self.run = (event["threadId"], event["runId"])
        elif kind in ("RUN_FINISHED", "RUN_ERROR"):
            own = kind == "RUN_ERROR" or (event["threadId"], event["runId"]) == self.run
            self._demand(own, "another run's end")
            self._demand(not self.open, f"open at the end: {self.open}")
            self.over = True
        elif kind.startswith("SUBAGENT_"):
            self._subagent(event)
        elif kind.startswith("STEP_"):
            self._block("step", event.get("subagentRunId"), event["stepName"], kind == "STEP_STARTED")
        elif kind.startswith(("TEXT_", "REASONING_")) and kind != "REASONING_ENCRYPTED_VALUE":
            block, _, what = kind.rpartition("_")
            self._owned("reasoning" if block.startswith("REASONING") else "message", event["messageId"], event)
            self._block(block, None, event["messageId"], {"START": True, "END": False}.get(what))
        elif kind in ("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"):
            self._call(event)
        elif kind == "TOOL_CALL_RESULT":
            self.owners["message", event["messageId"]] = event.get("subagentRunId")

    def _demand(self, condition: bool, otherwise: str) -> None:
        if not condition:
            raise Rejected(otherwise)

    def _block(self, block: str, owner: str | None, name: str, opens: bool | None) -> None:
        this = (block, owner, name)
        if opens:
            self._demand(this not in self.open, f"{this} is open already")
            others = {each[0] for each in self.open} - {"step", "REASONING"}
            self._demand(not (self.old and block != "step" and others), f"{this} interleaves")
            self.open.add(this)
        else:
            self._demand(this in self.open, f"{this} is not open")
            if opens is False:
                self.open.remove(this)

    def _owned(self, kind: str, name: str, event: dict[str, Any]) -> None:
        tag = event.get("subagentRunId")
        owner = self.owners.setdefault((kind, name), tag)
        self._demand(tag is None or tag == owner, f"{name} belongs to {owner}, not to {tag}")

    def _call(self, event: dict[str, Any]) -> None:
        name, tag = event["toolCallId"], event.get("subagentRunId")
        parent = ("message", event.get("parentMessageId", ""))
        if event["type"] == "TOOL_CALL_START" and parent in self.owners:
            self._demand(tag in (None, self.owners[parent]), f"{name} is not its parent's owner's")
            inherited = self.owners[parent]
            self._demand(self.owners.get(("call", name), inherited) == inherited, f"{name} has two owners")
            self.owners["call", name] = inherited
        self._owned("call", name, event)
        opens = {"TOOL_CALL_START": True, "TOOL_CALL_END": False}.get(event["type"])
        self._block("call", None, name, opens)

    def _subagent(self, event: dict[str, Any]) -> None:
        name = event["subagentRunId"]
        this = ("subagent", None, name)
        self._demand(not self.old, "an old client knows no subagents")
        if event["type"] == "SUBAGENT_STARTED":
            self._demand(name not in self.started_subagents, f"{name} was used before")
            parent = event.get("parentSubagentRunId")
            self._demand(parent is None or parent in self.started_subagents, f"{parent} was never started")
            self.started_subagents.add(name)
            self.open.add(this)
        else:
            self._demand(this in self.open, f"{name} is not active")
            self.open.remove(this)


def check(events: list[dict[str, Any]], *, old: bool = False, ended: bool = True) -> None:
    """Raises Rejected where the client would reject the events."""
    client = Client(old=old)
    for event in events:
        client.take(event)
    if ended and not client.over:
        raise Rejected("no terminal event")
