"""The keyless model runs on the event loop, so nothing that a client sends may make it work for long.

Work is counted, not timed: the calls that are made, and the characters that regular expressions are given.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import pytest

from agent_core.messages import Message, ToolCall
from agent_core.models.base import ModelRequest
from agent_core.models.http import HttpClient
from agent_core.models.keyless.fake import FakeModel
from agent_core.models.keyless.words import LONGEST_TEXT
from agent_core.tools.base import ToolSpec

MOST_CALLS = 1_000_000
MOST_CHARACTERS = 1_000_000
"""What the widest request below may cost; without the caps it would take many times that."""

PLAIN = ToolSpec(
    name="find_thing",
    description="Thing: a thing by its name (东西)",
    parameters={"properties": {"thing": {"type": "string"}}, "required": ["thing"]},
)


def tool(name: str = "find_thing", description: str = "Thing", properties: Mapping[str, Any] | None = None) -> ToolSpec:
    properties = properties or {}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolSpec(name=name, description=description, parameters=parameters)


def request(
    question: str = "find the thing of BIG SHIP",
    *tools: ToolSpec,
    system: str = "",
    results: tuple[tuple[str, str], ...] = (),
) -> ModelRequest:
    """A conversation with results, each the tool's name and its text. Without tools it is a closing call."""
    messages = [Message(id="s", role="system", content=system), Message(id="u", role="user", content=question)]
    for index, (name, text) in enumerate(results):
        call = ToolCall(id=f"call_{index}", name=name, arguments=json.dumps({"thing": str(index)}))
        messages.append(Message(id=f"a{index}", role="assistant", tool_calls=(call,)))
        messages.append(Message(id=f"t{index}", role="tool", tool_call_id=call.id, name=name, content=text))
    return ModelRequest(messages=tuple(messages), tools=tools)


def wide(**schema: Any) -> tuple[ToolSpec, ...]:
    """Many tools of many parameters, all of which speak of the question and of each other."""
    names = [f"thing_{index}" for index in range(12)]
    about = "a thing of a BIG SHIP " + " ".join(names)
    members = {name: {"description": f"the {about}, such as K-1", **schema} for name in names}
    return tuple(tool(f"find_thing_{index}", about * 9, members) for index in range(400))


MEMBERS = [f"member-{index}" for index in range(20_000)]
MANY = {f"thing_{index}": {"description": "a thing"} for index in range(2_000)}
NESTED = "[" * 900 + "]" * 900

HOSTILE: dict[str, Callable[[], ModelRequest]] = {
    "a form with many places": lambda: request(system='"' + "<a>" * 20_000, results=(("find_thing", "found"),)),
    "many quotes": lambda: request("“" * 80_000, PLAIN, system="“" * 80_000, results=(("find_thing", "“" * 80_000),)),
    "many single quotes": lambda: request(" 'a" * 30_000, PLAIN),
    "many capitals": lambda: request("a" + " AB" * 30_000 + "_", PLAIN),
    "many titles": lambda: request("a" + " Ab" * 30_000 + "_", PLAIN),
    "a long code": lambda: request("find thing " + "a1-" * 30_000 + "_", PLAIN),
    "many codes": lambda: request("find thing " + "A-1 " * 30_000, *wide()),
    "many dates": lambda: request("find thing " + "2026-10-01T" * 10_000, PLAIN),
    "many digits": lambda: request(
        "find thing " + "1" * 80_000 + "_", PLAIN, tool(properties={"thing": {"type": "integer"}})
    ),
    "many prepositions": lambda: request("find thing " + "in at " * 20_000, PLAIN),
    "many blanks": lambda: request("and" + " " * 80_000 + "what?", PLAIN, tool(description=" " * 80_000)),
    "much Chinese": lambda: request("东西" * 40_000 + "呢", PLAIN),
    "many users' words": lambda: request("find the thing\n" * 9_000, *wide()),
    "many choices": lambda: request("member-x " * 9_000, *wide(enum=MEMBERS)),
    "long choices": lambda: request("find the thing", *wide(enum=["x" * 100_000] * 90)),
    "choices that are no words": lambda: request("find the thing", *wide(enum=[[MEMBERS], 10**400, None, 1e308, True])),
    "a pattern that backtracks": lambda: request("a" * 30_000 + "!", *wide(pattern="^(a+)+$")),
    "long descriptions": lambda: request("find thing", *[tool(f"t{index}", "a thing " * 9_000) for index in range(60)]),
    "long names": lambda: request("find thing", tool("find_thing" * 9_000, "Thing", {"thing" * 9_000: {}})),
    "many parameters": lambda: request("find the thing", *[tool(f"t{index}", "a thing", MANY) for index in range(60)]),
    "many alternatives": lambda: request("find the thing", *wide(anyOf=[{"type": "null"}] * 20_000)),
    "tools that lean on each other": lambda: request("find the thing of BIG SHIP and K-77, 5, 'x' in Rome", *wide()),
    "a long text as a result": lambda: request("find thing", results=(("find_thing", "a: " * 200_000),)),
    "a deep result": lambda: request("find thing", PLAIN, results=(("find_thing", NESTED),)),
    "an object of many members": lambda: request(
        "find the thing of BIG SHIP",
        *wide(),
        results=(("other", json.dumps({f"thing_{i}_no": i for i in range(900)})),),
    ),
    "a list of many members": lambda: request(
        "find the thing of BIG SHIP", PLAIN, results=(("other", json.dumps({"other": [0] * 10_000})),) * 9
    ),
    "many results": lambda: request(
        "find the thing of BIG SHIP", *wide(), results=(("other", json.dumps({"thing_1": MEMBERS[:900]})),) * 500
    ),
    "many results in a closing call": lambda: request(
        "find it", results=(("other", json.dumps(MEMBERS[:2_000])),) * 2_000
    ),
}


async def work_of(given: ModelRequest) -> tuple[int, int, int]:
    """The calls that an answer takes, the characters that all regular expressions were given, and the most at once."""
    calls, longest, total = 0, 0, 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls, longest, total
        if event in ("call", "c_call"):
            calls += 1
            if event == "call" and frame.f_code.co_filename == re.__file__ and "string" in frame.f_locals:
                length = len(frame.f_locals["string"])
                longest, total = max(longest, length), total + length

    http: HttpClient = None  # type: ignore[assignment]
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        pieces = [piece async for piece in FakeModel().stream(given, http)]
    finally:
        sys.setprofile(before)
    assert pieces
    return calls, total, longest


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_input_costs_a_bounded_amount_of_work(name: str) -> None:
    calls, total, longest = await work_of(HOSTILE[name]())
    assert longest <= 2 * LONGEST_TEXT, "a regular expression was given a text that nobody had cut"
    assert total <= MOST_CHARACTERS
    assert calls <= MOST_CALLS


async def test_the_count_sees_regular_expressions_and_their_texts() -> None:
    calls, total, longest = await work_of(request("find the thing of BIG SHIP", PLAIN))
    assert calls > 100
    assert total > longest >= len("find the thing of BIG SHIP")
