"""The guards of one run: what it has done so far, and what is to be done about it.

The loop asks before each call that it would answer itself (`before`), tells what came of it (`after`), and asks at
the checkpoint of each round (`round`). Nothing here waits, runs or emits anything; each trip is told once, except the
one that ends the run's rounds.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson

from agent_core.guarding import GuardAction, GuardName, Guards
from agent_core.messages import ResultStatus, well_formed
from agent_core.react.confidence import score_of
from agent_core.react.repeats import Repeats

LONGEST_NAME = 64
"""Characters of a tool's name that are told: a model may make up any."""

CLOSING = (
    "No tool can be called any more. Answer the user now, directly: say what was found, say honestly what is missing "
    "and why, and what the next step would be."
)
NO_SUMMARY = "No summary could be made. What was found so far is kept: say “continue” to go on."


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """A guard has tripped.

    - nudge: the call is run, and `told` is added to its result (see `noted`)
    - block: the call is not run, and `told` is its error result
    - disable: the tool is not offered any more, and `told` is added to the result
    - answer: no tool is offered any more; `told` is why, and `closing` the whole instruction

    `tool` is empty where it is about the run. `count` is how often it came, or the limit that was reached.
    """

    guard: GuardName
    action: GuardAction
    tool: str = ""
    count: int = 0
    told: str


class Watch:
    """What the guards have seen of one run. Calls are given in the order in which the model made them."""

    __slots__ = (
        "_by_tool",
        "_calls",
        "_disabled",
        "_doubted",
        "_ending",
        "_failed",
        "_failures",
        "_guards",
        "_repeats",
    )

    def __init__(self, guards: Guards) -> None:
        self._guards = guards
        self._repeats = Repeats(guards.repeats) if guards.repeats else None
        self._calls = 0
        self._by_tool: Counter[str] = Counter()
        self._failures: dict[str, deque[str]] = {}
        self._failed: set[str] = set()
        self._disabled: set[str] = set()
        self._ending: Trip | None = None
        self._doubted = False

    @property
    def disabled(self) -> frozenset[str]:
        """The tools that are not to be offered any more."""
        return frozenset(self._disabled)

    def before(self, call_name: str, canonical_arguments: bytes, repeatable: bool) -> Trip | None:
        """A call is about to be run: a nudge, a block, or None. Count each call once, and only where its batch is
        not left waiting for a person."""
        self._calls += 1
        most = self._guards.calls_per_run
        if most and self._calls > most:
            return self._over("calls_per_run", "", most, f"This request has made {most} tool calls, the most allowed.")
        if call_name in self._failed:
            told = f"{_named(call_name)} has failed too often: this call was not run."
            count = self._guards.failures or 0
            return Trip(guard="failures", action="block", tool=_short(call_name), count=count, told=told)
        if repeatable:
            if self._repeats is not None:
                self._repeats.skip()
            return None
        self._by_tool[call_name] += 1
        most = self._guards.calls_per_tool
        if most and self._by_tool[call_name] > most:
            why = f"{_named(call_name)} was called {most} times in this request, the most allowed."
            return self._over("calls_per_tool", _short(call_name), most, why)
        return self._repeated(call_name, canonical_arguments)

    def after(
        self,
        call_name: str,
        canonical: bytes,
        status: ResultStatus,
        error_class: str,
        result_hash: bytes,
        repeatable: bool,
    ) -> Trip | None:
        """What came of a call that `before` did not block: a nudge or a disabled tool, to be told in its result, or
        None. The hash is that of the result without what is told there; of failures the class counts in its place,
        because their texts hold references that are never the same."""
        failure = self._failure(call_name, status, error_class)
        circle = 0
        if self._repeats is not None and not repeatable:
            result = b"ok" + result_hash if status == "ok" else f"{status}:{error_class}".encode("utf-8", "replace")
            circle = self._repeats.result(_digest(call_name, canonical), result)
        if failure is not None or self._ending is not None or not circle:
            return failure
        told = (
            f"You go in a circle: the last calls came {circle} times in the same order with the same results. Use "
            "these results, try something else, or answer: if they come again, they are not run."
        )
        return Trip(guard="repeats", action="nudge", tool=_short(call_name), count=circle, told=told)

    def round(self, seconds_elapsed: float, tokens_used: int) -> Trip | None:
        """The checkpoint at the entry of each round: an answer without tools is due, or None."""
        if self._repeats is not None:
            self._repeats.next_round()
        guards = self._guards
        if self._ending is None and guards.seconds and seconds_elapsed >= guards.seconds:
            self._end(
                "seconds", "", int(guards.seconds), f"The time for this request ({guards.seconds:g} s) is used up."
            )
        if self._ending is None and guards.tokens and tokens_used >= guards.tokens:
            self._end("tokens", "", guards.tokens, f"The {guards.tokens} tokens for this request are used up.")
        return self._ending

    def below(self, text: str) -> Trip | None:
        """Whether the score that the model gave its answer asks for one more round, once in a run: a nudge with what
        the model is told, or None. A reply without a clear score asks for nothing."""
        wanted = self._guards.confidence
        if not wanted or self._doubted:
            return None
        score = score_of(text)
        if score is None or score >= wanted:
            return None
        self._doubted = True
        told = (
            f"You scored your last answer {score:.0%}, and at least {wanted:.0%} is wanted. Check what is uncertain, "
            "with the tools where they help, and then give the whole answer again."
        )
        return Trip(guard="confidence", action="nudge", count=round(score * 100), told=told)

    def _repeated(self, name: str, canonical: bytes) -> Trip | None:
        due = None if self._repeats is None else self._repeats.call(_digest(name, canonical))
        if due is None:
            return None
        stage, count = due
        if stage == "nudge":
            told = (
                f"You have made this very call {count} times in a row. Use its result, try something else, or answer: "
                "if it comes again, it is not run."
            )
            return Trip(guard="repeats", action="nudge", tool=_short(name), count=count, told=told)
        if stage == "end":
            why = f"{_named(name)} was called again and again with the same arguments, and brought nothing new."
            self._end("repeats", _short(name), count, why)
        told = (
            f"This call was not run: it repeats what was called before ({count} times now). Use the results that there "
            "are, try something else, or answer."
        )
        return Trip(guard="repeats", action="block", tool=_short(name), count=count, told=told)

    def _failure(self, name: str, status: ResultStatus, error_class: str) -> Trip | None:
        most = self._guards.failures
        if not most or status not in ("ok", "error", "timed_out"):
            return None  # what a person denied, or what was not run, is no fault of the tool's
        kind = "" if status == "ok" else error_class or status
        seen = self._failures.setdefault(name, deque(maxlen=2 * most - 1))
        seen.append(kind)
        if not kind or name in self._failed or seen.count(kind) < most:
            return None
        self._failed.add(name)
        why = f"{_named(name)} has failed {most} times in the same way ({_short(kind)})."
        if self._guards.on_tool_failure == "answer":
            self._end("failures", _short(name), most, why)
            return None
        self._disabled.add(name)
        told = f"{why} It cannot be called any more: go on without it, and say honestly what is missing."
        return Trip(guard="failures", action="disable", tool=_short(name), count=most, told=told)

    def _over(self, guard: GuardName, tool: str, most: int, why: str) -> Trip:
        self._end(guard, tool, most, why)
        return Trip(guard=guard, action="block", tool=tool, count=most, told=f"{why} This call was not run.")

    def _end(self, guard: GuardName, tool: str, count: int, why: str) -> None:
        """No more tools after this round; the first reason stands."""
        if self._ending is None:
            self._ending = Trip(guard=guard, action="answer", tool=tool, count=count, told=why)


def noted(result: str, trip: Trip) -> str:
    """A call's result with what the guard has to say about it."""
    return f"{result}\n\n[{trip.told}]" if result else f"[{trip.told}]"


def closing(trip: Trip) -> str:
    """The instruction for the answer without tools, to stand in front of the agent's own."""
    return f"{trip.told} {CLOSING}"


def fallback(trip: Trip) -> str:
    """The answer where the model gives none."""
    return f"{trip.told} {NO_SUMMARY}"


def canonical(arguments: str, parsed: Mapping[str, Any] | None = None) -> bytes:
    """The arguments in one form for all that mean the same: JSON with sorted keys, or the text where it is none.
    No arguments and null are `{}`. `parsed` saves the work where they were parsed already."""
    try:
        value = orjson.loads(arguments or "{}") if parsed is None else parsed
        return orjson.dumps({} if value is None else value, option=orjson.OPT_SORT_KEYS)
    except (ValueError, TypeError):  # no JSON, or nested deeper than can be written
        return well_formed(arguments).encode()


def _digest(name: str, arguments: bytes) -> bytes:
    return blake2b(name.encode("utf-8", "replace") + b"\0" + arguments, digest_size=16).digest()


def _short(name: str) -> str:
    return well_formed(name[:LONGEST_NAME])


def _named(tool: str) -> str:
    return f"The tool {_short(tool)!r}"
