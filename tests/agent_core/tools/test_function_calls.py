"""Tools being run: arguments judged, threads and contexts, errors, and results as text."""

import contextvars
import enum
import threading
from collections.abc import Awaitable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from agent_core.context import ToolContext
from agent_core.errors import ToolError
from agent_core.tools.function import FunctionTool, render, tool

CONTEXT = ToolContext(agent="a", user_id="u", session_id="s", run_id="r", call_id="call_7")
setting = contextvars.ContextVar("setting", default="unset")


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(BaseModel):
    width: int
    title: str = "none"


@dataclass
class Point:
    x: int
    y: float


class Thing:
    def __str__(self) -> str:
        return "a thing"


async def test_arguments_are_coerced_as_pydantic_s_lax_mode_does(threads: Executor) -> None:
    def take(n: int, day: date, color: Color, size: Size) -> str:
        return f"{n + 1} {day.year} {color.name} {size.width}"

    arguments = {"n": "3", "day": "2026-09-29", "color": "red", "size": {"width": 2}}
    assert await tool(take).run(arguments, CONTEXT, threads) == "4 2026 RED 2"


async def test_a_default_is_used_and_not_shared_between_calls(threads: Executor) -> None:
    def take(found: list[int] = []) -> int:  # noqa: B006
        found.append(1)
        return len(found)

    made = tool(take)
    assert [await made.run({}, CONTEXT, threads) for _ in range(2)] == ["1", "1"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({}, "- n: is required"),
        ({"n": [], "sizes": []}, "- n: Input should be a valid integer (it was: [])"),
        ({"n": 1, "sizes": [{"width": 1}, {"width": []}]}, "- sizes[1].width: Input should be a valid integer ("),
        ({"n": 1, "sizes": [{}]}, "- sizes[0].width: is required"),
        ({"n": 1, "other": 2}, "- other: is not a parameter; known are: n, sizes"),
    ],
)  # fmt: skip
async def test_arguments_that_do_not_fit_are_told_path_by_path(
    arguments: Mapping[str, Any], line: str, threads: Executor
) -> None:
    def take(n: int, sizes: list[Size]) -> None: ...

    with pytest.raises(ToolError) as caught:
        await tool(take).run(arguments, CONTEXT, threads)
    text = str(caught.value)
    assert text.startswith("The arguments do not fit the tool's parameters:\n")
    assert line in text
    assert "http" not in text


async def test_unknown_arguments_of_a_tool_without_parameters_are_refused(threads: Executor) -> None:
    def ping() -> None: ...

    with pytest.raises(ToolError, match="- x: is not a parameter, which takes none"):
        await tool(ping).run({"x": 1}, CONTEXT, threads)


async def test_ten_errors_are_told_and_long_inputs_are_cut(threads: Executor) -> None:
    def take(values: list[int]) -> None: ...

    with pytest.raises(ToolError) as caught:
        await tool(take).run({"values": ["y" * 500] * 12}, CONTEXT, threads)
    lines = str(caught.value).splitlines()
    assert len(lines) == 12
    assert lines[-1] == "- and 2 more"
    assert lines[1].endswith("y" * 200 + "…)")


async def test_a_sync_tool_runs_in_a_thread_and_sees_a_copy_of_the_context(threads: Executor) -> None:
    seen: list[int] = []

    @tool
    def take() -> str:
        seen.append(threading.get_ident())
        found = setting.get()
        setting.set("changed")
        return found

    setting.set("outer")
    assert await take.run({}, CONTEXT, threads) == "outer"
    assert setting.get() == "outer"
    assert seen != [threading.get_ident()]


async def test_an_async_tool_runs_on_the_loop(threads: Executor) -> None:
    @tool
    async def take() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert await take.run({}, CONTEXT, threads) == "true"


async def test_a_sync_function_that_gives_something_to_await_is_awaited(threads: Executor) -> None:
    async def later() -> str:
        return "late"

    @tool
    def take() -> Awaitable[str]:
        return later()

    assert await take.run({}, CONTEXT, threads) == "late"


@pytest.mark.parametrize("error", [TypeError("own"), ToolError("told"), ValueError("own")])
async def test_what_the_function_raises_is_passed_on_unchanged(error: Exception, threads: Executor) -> None:
    def take() -> None:
        raise error

    async def take_async() -> None:
        raise error

    made: list[FunctionTool[..., Any]] = [tool(take), tool(take_async)]
    for each in made:
        with pytest.raises(type(error)) as caught:
            await each.run({}, CONTEXT, threads)
        assert caught.value is error


async def test_a_stop_iteration_in_a_thread_does_not_leave_the_call_waiting(threads: Executor) -> None:
    def take() -> int:
        return next(iter([]))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await tool(take).run({}, CONTEXT, threads)


class Words(str, enum.Enum):  # noqa: UP042
    ONE = "one"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        (Words.ONE, "one"),
        (None, "(the tool returned nothing)"),
        ("", "(the tool returned an empty text)"),
        (b"", "(the tool returned an empty text)"),
        (b"\x00\xff", "AP8="),
        (3, "3"),
        (True, "true"),
        ([1, "é", None], '[1,"é",null]'),
        ({"a": float("nan"), "b": [float("inf")]}, '{"a":null,"b":[null]}'),
        (Size(width=1), '{"width":1,"title":"none"}'),
        (Point(1, 2.5), '{"x":1,"y":2.5}'),
        (date(2026, 9, 29), '"2026-09-29"'),
        (Color.RED, '"red"'),
        ({"odd": Thing()}, '{"odd":"a thing"}'),
        ("cut \ud83d", "cut \ufffd"),
        ({"a": "cut \ud83d", "b": float("nan")}, '{"a":"cut \ufffd","b":null}'),
    ],
)
def test_each_kind_of_return_value_becomes_text(value: object, text: str) -> None:
    assert render(value) == text
    assert render(value).encode()
