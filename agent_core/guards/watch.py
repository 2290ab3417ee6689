"""The guards of one turn: what has happened in it so far, and what to do about it.

The loop calls a Watch at four points:

- asked: the model has asked for calls
- due: a call is about to run
- result: a call has its result
- round: the checkpoint of a round

Nothing here waits, runs or emits. Each trip is returned once, except the one that ends the use of tools.

A Watch depends only on the stored answers and results, in their order. So `rewatched` makes the same Watch again in
the turn's next run.
"""

from collections import Counter, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from agent_core.guards.confidence import score_of
from agent_core.guards.digests import call_digest, result_digest
from agent_core.guards.repetition import Repeats, Shape, Stage
from agent_core.guards.settings import GuardAction, GuardName, Guards
from agent_core.messages import Message, ToolCall, well_formed

BLOCKED: Final = "blocked"
"""The error class of a call that a guard has blocked."""

LONGEST_NAME = 64
"""A tool's name is told up to this many characters, since a model may make up any name."""

CLOSING = (
    "No tool can be called any more. Answer the user now, directly: say what was found, say honestly what is missing "
    "and why, and what the next step would be."
)
NO_SUMMARY = "No summary could be made. What was found so far is kept: say “continue” to go on."


AND_THEN = "Use what there is, try something else, or answer"
NUDGES: Final[Mapping[Shape, str]] = {
    "row": "You have made this very call {} times in a row, each time with the same result. "
    f"{AND_THEN}: if it comes again, it is not run.",
    "cursor": f"You have made this very call {{}} times in a row. {AND_THEN}: if it comes again, it is not run.",
    "circle": "You go in a circle: the last calls came {} times in the same order with the same results. "
    f"{AND_THEN}: if they come again, they are not run.",
}
"""What the model is told of a repeat, with how often it has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """A guard has tripped.

    - nudge: the call runs, and `told` is added to its result (see `digests.noted`)
    - block: the call does not run, and `told` is its error result
    - disable: the tool is no longer offered, and `told` is added to the result
    - answer: no tool is offered any more; `told` is the reason, and `closing` makes the whole instruction of it

    `tool` is empty if the trip is about the run. `count` is how often it came, or the limit that was reached.
    """

    guard: GuardName
    action: GuardAction
    tool: str = ""
    count: int = 0
    told: str


@dataclass(slots=True)
class Watch:
    """The guards' memory of one turn. `repeatable` are the tools that may be called any number of times."""

    guards: Guards
    repeatable: Container[str] = frozenset()
    _repeats: Repeats | None = None  # made for the first call: most turns have none
    _calls: int = 0
    _by_tool: Counter[str] = field(default_factory=Counter)
    _failures: "dict[str, deque[str]]" = field(default_factory=dict)
    _failed: set[str] = field(default_factory=set)
    _disabled: set[str] = field(default_factory=set)
    _ending: Trip | None = None
    _open: dict[str, str] = field(default_factory=dict)

    @property
    def disabled(self) -> frozenset[str]:
        """The tools that must no longer be offered."""
        return frozenset(self._disabled)

    def asked(self, calls: Sequence[ToolCall]) -> dict[str, Trip]:
        """The model has asked for these calls in one answer. Returns the blocks, each under its call's id. The other
        calls may still be blocked by `due`."""
        if self._repeats is None and self.guards.repeats:
            self._repeats = Repeats(self.guards.repeats)
        if self._repeats is not None:
            self._repeats.next_round()
        self._open.clear()
        trips: dict[str, Trip] = {}
        for call in calls:
            trip = self._asked(call)
            if trip is None:
                self._open[call.id] = call.name
            else:
                trips[call.id] = trip
        return trips

    def due(self, call_id: str) -> Trip | None:
        """A call that `asked` did not block is about to run. Returns a block, if the results of the calls before it now
        show a repeat."""
        name = self._open.get(call_id)
        due = None if name is None or self._repeats is None else self._repeats.due(call_id)
        if name is None or due is None:
            return None
        del self._open[call_id]
        return self._blocked(name, *due)

    def result(self, result: Message) -> Trip | None:
        """A call has its result, whoever has run it. Returns a nudge or a disabled tool, to be told in the result (see
        `digests.noted`), or None. Ignores results of calls that are not open."""
        call_id = result.tool_call_id or ""
        name = self._open.pop(call_id, None)
        if name is None:
            return None
        failure = self._failure(name, result)
        found = None if self._repeats is None else self._repeats.result(call_id, result_digest(result))
        if failure is not None or self._ending is not None or found is None:
            return failure
        shape, count = found
        return Trip(guard="repeats", action="nudge", tool=_short(name), count=count, told=NUDGES[shape].format(count))

    def take(self, message: Message) -> Trip | None:
        """Take a stored message of an earlier run: an answer with calls, or a result, which may trip as in `result`."""
        if message.tool_calls:
            self.asked(message.tool_calls)
        if message.role != "tool":
            return None
        if message.error == BLOCKED:
            self.due(message.tool_call_id or "")
        return self.result(message)

    def round(self, seconds: float, tokens: int, rounds: int) -> Trip | None:
        """The checkpoint at the start of each round, with what the whole turn has used. Returns a trip if an answer
        without tools is due."""
        guards = self.guards
        if guards.turn_iterations and rounds >= guards.turn_iterations:
            most = guards.turn_iterations
            self._end("turn_iterations", "", most, f"The {most} rounds for this request are used up.")
        if guards.seconds and seconds >= guards.seconds:
            told = f"The time for this request ({guards.seconds:g} s) is used up."
            self._end("seconds", "", int(guards.seconds), told)
        if guards.tokens and tokens >= guards.tokens:
            self._end("tokens", "", guards.tokens, f"The {guards.tokens} tokens for this request are used up.")
        return self._ending

    def _asked(self, call: ToolCall) -> Trip | None:
        self._calls += 1
        most = self.guards.calls_per_run
        if most and self._calls > most:
            return self._over("calls_per_run", "", most, f"This request has made {most} tool calls, the most allowed.")
        if call.name in self._failed:
            told = f"{_named(call.name)} has failed too often: this call was not run."
            count = self.guards.failures or 0
            return Trip(guard="failures", action="block", tool=_short(call.name), count=count, told=told)
        if call.name in self.repeatable:
            if self._repeats is not None:
                self._repeats.skip()
            return None
        self._by_tool[call.name] += 1
        most = self.guards.calls_per_tool
        if most and self._by_tool[call.name] > most:
            why = f"{_named(call.name)} was called {most} times in this request, the most allowed."
            return self._over("calls_per_tool", _short(call.name), most, why)
        due = None if self._repeats is None else self._repeats.call(call.id, call_digest(call))
        return None if due is None else self._blocked(call.name, *due)

    def _blocked(self, name: str, stage: Stage, count: int) -> Trip:
        if stage == "end":
            why = f"{_named(name)} was called again and again with the same arguments, and brought nothing new."
            self._end("repeats", _short(name), count, why)
        told = (
            f"This call was not run: it repeats what was called before ({count} times now). Use the results that there "
            "are, try something else, or answer."
        )
        return Trip(guard="repeats", action="block", tool=_short(name), count=count, told=told)

    def _failure(self, name: str, result: Message) -> Trip | None:
        most = self.guards.failures
        if not most or result.status not in ("ok", "error", "timed_out"):
            return None  # a denied call, or one that was not run, is no failure of the tool
        kind = "" if result.status == "ok" else result.error or result.status
        seen = self._failures.setdefault(name, deque(maxlen=2 * most - 1))
        seen.append(kind)
        if not kind or name in self._failed or seen.count(kind) < most:
            return None
        self._failed.add(name)
        why = f"{_named(name)} has failed {most} times in the same way ({_short(kind)})."
        if self.guards.on_tool_failure == "answer":
            self._end("failures", _short(name), most, why)
            return None
        self._disabled.add(name)
        told = f"{why} It cannot be called any more: go on without it, and say honestly what is missing."
        return Trip(guard="failures", action="disable", tool=_short(name), count=most, told=told)

    def _over(self, guard: GuardName, tool: str, most: int, why: str) -> Trip:
        self._end(guard, tool, most, why)
        return Trip(guard=guard, action="block", tool=tool, count=most, told=f"{why} This call was not run.")

    def _end(self, guard: GuardName, tool: str, count: int, why: str) -> None:
        """Use no more tools after this round. The first reason stands."""
        if self._ending is None:
            self._ending = Trip(guard=guard, action="answer", tool=tool, count=count, told=why)


def doubted(wanted: float | None, reply: str) -> Trip | None:
    """A nudge if the model scored its own answer below `wanted`, else None. None also for a reply without a score."""
    score = score_of(reply) if wanted else None
    if not wanted or score is None or score >= wanted:
        return None
    told = (
        f"You scored your last answer {score:.0%}, and at least {wanted:.0%} is wanted. Check what is uncertain, "
        "with the tools where they help, and then give the whole answer again."
    )
    return Trip(guard="confidence", action="nudge", count=round(score * 100), told=told)


def closing(trip: Trip) -> str:
    """The instruction for the answer without tools. It goes in front of the agent's own instructions."""
    return f"{trip.told} {CLOSING}"


def fallback(trip: Trip) -> str:
    """The run's answer if the model gives none."""
    return f"{trip.told} {NO_SUMMARY}"


def rewatched(guards: Guards, repeatable: Container[str], acted: Iterable[Message]) -> Watch:
    """The Watch after these answers and results of one turn."""
    watch = Watch(guards, repeatable)
    for message in acted:
        watch.take(message)
    return watch


def _short(name: str) -> str:
    return well_formed(name[:LONGEST_NAME])


def _named(tool: str) -> str:
    return f"The tool {_short(tool)!r}"
