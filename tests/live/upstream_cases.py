"""Streams of Chat Completions upstreams, and what a client must be told of each on every endpoint.

`f` is a tool that takes an optional number `a` and, as its schema says, nothing else; `g` is none. The second answer of
the upstream, where there is one, is LATER.
"""

from dataclasses import dataclass
from typing import Any

from tests.scripted import Reply, answer, chunk, done, finish, says, sse, text, thinking

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}

SAID_LATER = "later"
LATER = says(SAID_LATER)

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One stream.

    - text: the text that the client must be told; None if it is only known that all ways agree
    - calls: the calls that must run, at the server or the client
    - refused: how many other calls the model is told to be wrong
    - finish: OpenAI's finish reason if no call waits
    """

    frames: tuple[bytes, ...]
    text: str | None = ""
    calls: tuple[Call, ...] = ()
    refused: int = 0
    finish: str = "stop"

    @property
    def reply(self) -> Reply:
        return answer(*self.frames)


def call(arguments: Any, *, id: str | None = "c1", index: int | None = 0, name: str = "f") -> bytes:  # noqa: A002
    """A whole call in one delta."""
    members = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return chunk({"tool_calls": [{name: value for name, value in members.items() if value is not None}]})


def snapshot(message: dict[str, Any], reason: str = "stop", **choice: Any) -> bytes:
    return sse({"choices": [{"index": 0, "finish_reason": reason, "message": message, **choice}]})


def called(arguments: Any, *, id: str = "c1") -> dict[str, Any]:  # noqa: A002
    return {"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}}


F: Call = ("f", {"a": 1})
NOTHING: Call = ("f", {})
ONE = '{"a": 1}'
LONG = "chatcmpl-tool-0123456789abcdef0123456789abcdef"
END = done()
CALLS = finish("tool_calls") + END

CASES: dict[str, Case] = {
    "text": Case(frames=(text("Good ", "day"), finish(), END), text="Good day"),
    "thinking": Case(frames=(thinking("hm"), text("Good day"), finish(), END), text="Good day"),
    "a call": Case(frames=(call(ONE), CALLS), calls=(F,)),
    "text and a call": Case(frames=(text("Let me see."), call(ONE), CALLS), text="Let me see.", calls=(F,)),
    "two calls": Case(frames=(call(ONE), call("{}", id="c2", index=1), CALLS), calls=(F, NOTHING)),
    "a snapshot after deltas": Case(
        frames=(text("Good ", "day"), snapshot({"content": "Good day"}, delta=None), END), text="Good day"
    ),
    "a snapshot that says more": Case(frames=(text("Good "), snapshot({"content": "Good day"}), END), text="Good day"),
    "a snapshot that repeats a call": Case(
        frames=(call(ONE), snapshot({"content": None, "tool_calls": [called(ONE)]}, "tool_calls"), END), calls=(F,)
    ),
    "a snapshot that repeats text and a call": Case(
        frames=(
            text("So."),
            call(ONE),
            snapshot({"content": "So.", "tool_calls": [called({"a": 1})]}, "tool_calls"),
            END,
        ),
        text="So.",
        calls=(F,),
    ),
    "a call that comes again": Case(frames=(call(ONE), call(ONE), CALLS), calls=(F,)),
    "a call that comes again at another place": Case(frames=(call(ONE), call(ONE, index=1), CALLS), calls=(F,)),
    "a completion": Case(
        frames=(snapshot({"content": "So.", "tool_calls": [called(ONE)]}, "tool_calls"), END), text="So.", calls=(F,)
    ),
    "arguments cut by length": Case(frames=(call('{"path": "/da'), finish("length"), END), refused=1),
    "text and arguments cut by length": Case(
        frames=(text("So "), call('{"a": '), finish("length"), END), text="So ", refused=1
    ),
    "two calls, one cut": Case(
        frames=(call(ONE), call('{"a": ', id="c2", index=1), finish("length"), END), calls=(F,), refused=1
    ),
    "a call behind one that is cut": Case(
        frames=(call('{"a": '), call(ONE, id="c2", index=1), finish("length"), END), calls=(F,), refused=1
    ),
    "two calls, both cut": Case(
        frames=(call('{"a": '), call('{"a": ', id="c2", index=1), finish("length"), END), refused=2
    ),
    "arguments that do not fit the schema": Case(frames=(call('{"b": 1}'), CALLS), refused=1),
    "one call that fits and one that does not": Case(
        frames=(call(ONE), call('{"a": "x"}', id="c2", index=1), CALLS), calls=(F,), refused=1
    ),
    "arguments that are no JSON": Case(frames=(call("a=1"), CALLS), refused=1),
    "arguments that were encoded twice": Case(frames=(call('"{\\"a\\": 1}"'), CALLS), refused=1),
    "null arguments": Case(frames=(call("null"), CALLS), calls=(NOTHING,)),
    "null in place of arguments": Case(frames=(call(None), CALLS), calls=(NOTHING,)),
    "no arguments": Case(frames=(call(""), CALLS), calls=(NOTHING,)),
    "blank arguments": Case(frames=(call(" \n"), CALLS), calls=(NOTHING,)),
    "arguments as an object": Case(frames=(call({"a": 1}), CALLS), calls=(F,)),
    "a name that is not legal": Case(frames=(call("{}", name="functions.f"), CALLS), refused=1),
    "a tool that is none": Case(frames=(call("{}", name="g"), CALLS), refused=1),
    "a tool that is none beside one that is": Case(
        frames=(call("{}", name="g"), call(ONE, id="c2", index=1), CALLS), calls=(F,), refused=1
    ),
    "an id of 46 characters": Case(frames=(call(ONE, id=LONG), CALLS), calls=(F,)),
    "an id of nine": Case(frames=(call(ONE, id="aB3xK9mP2"), CALLS), calls=(F,)),
    "no id": Case(frames=(call(ONE, id=None), CALLS), calls=(F,)),
    "finish stop with a call": Case(frames=(call(ONE), finish("stop"), END), calls=(F,)),
    "finish tool_calls without any": Case(frames=(text("So."), CALLS), text="So."),
    "cut by length": Case(frames=(text("Half"), finish("length"), END), text="Half", finish="length"),
    "filtered": Case(frames=(text("Half"), finish("content_filter"), END), text="Half", finish="content_filter"),
    "a whole call, cut by length": Case(frames=(call(ONE), finish("length"), END), calls=(F,)),
    # What these mean is not decided here: only that every client is told the same.
    "a placeholder": Case(frames=(chunk({"tool_calls": [{}]}), text("Fine."), finish(), END), text=None),
    "a bound in another word": Case(frames=(text("Half"), finish("MODEL_LENGTH"), END), text=None),
    "a filter in another word": Case(frames=(text("Half"), finish("SAFETY"), END), text=None),
    "nothing but a filter": Case(frames=(finish("sensitive"), END), text=None),
    "a failure as a reason": Case(frames=(text("Half"), finish("error"), END), text=None),
    "an unknown reason": Case(frames=(text("All"), finish("eos_reached"), END), text=None),
    "an error frame": Case(frames=(text("Half"), sse({"error": {"message": "busy", "code": 503}}), END), text=None),
    "an error before anything": Case(frames=(sse({"error": {"message": "busy", "code": 503}}), END), text=None),
    "the end missing": Case(frames=(text("Half"),), text=None),
    "a think block without its beginning": Case(
        frames=(text("so the user greets", "</think>\n\nHello"), finish(), END), text=None
    ),
    "a late member of a call": Case(
        frames=(call(ONE), chunk({"tool_calls": [{"index": 0, "extra_content": {"g": 1}}]}), CALLS), text=None
    ),
}
