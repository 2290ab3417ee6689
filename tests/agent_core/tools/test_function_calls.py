"""Tools being run: arguments judged, threads and contexts, errors, and results as text."""

import asyncio
import contextvars
import enum
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from agent_core.context import ToolContext
from agent_core.errors import ToolError
from agent_core.messages import MediaPart, TextPart
from agent_core.tools.base import Pending
from agent_core.tools.function import FunctionTool, tool

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
        ({"n": 1, "sizes": [{"width": 1}, {"width": ""}]}, "- sizes[1].width: Input should be a valid integer"),
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

    with pytest.raises(ToolError, match="- x: is not a parameter: the tool takes none"):
        await tool(ping).run({"x": 1}, CONTEXT, threads)


async def test_five_errors_are_told_and_long_inputs_are_cut(threads: Executor) -> None:
    def take(values: list[int]) -> None: ...

    with pytest.raises(ToolError) as caught:
        await tool(take).run({"values": ["y" * 500] * 12}, CONTEXT, threads)
    lines = str(caught.value).splitlines()
    assert len(lines) == 7
    assert lines[-1] == "- and 7 more"
    assert lines[1].endswith('(it was: "' + "y" * 38 + "…)")
    assert max(map(len, lines)) <= 202


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


async def test_the_parts_and_promises_that_a_function_returns_come_through(threads: Executor) -> None:
    picture = MediaPart(kind="image", source="data", value="QUJD")

    @tool
    def draw(later: bool = False) -> Any:
        return Pending(operation_id="op", retry_after=2.0) if later else ["Here:", picture]

    assert await draw.run({}, CONTEXT, threads) == (TextPart(text="Here:"), picture)
    assert await draw.run({"later": True}, CONTEXT, threads) == Pending(operation_id="op", retry_after=2.0)


async def test_a_call_is_queued_until_a_thread_takes_it(threads: Executor) -> None:
    busy, seen = threading.Event(), list[bool]()
    threads.submit(busy.wait)
    context = replace(CONTEXT, queued=threading.Event())

    @tool
    def take() -> None:
        seen.append(context.queued.is_set())

    call = asyncio.create_task(take.run({}, context, threads))
    await asyncio.sleep(0)
    assert context.queued.is_set()
    busy.set()
    assert await call == "(the tool returned nothing)"
    assert seen == [False]


@pytest.mark.parametrize("gone", [True, False])
async def test_a_call_that_was_cancelled_while_it_was_queued_is_never_run(gone: bool, threads: Executor) -> None:
    busy, ran = threading.Event(), list[int]()
    threads.submit(busy.wait)
    context = replace(CONTEXT, queued=threading.Event(), cancelled=threading.Event())

    @tool
    def take() -> None:
        ran.append(1)

    call = asyncio.create_task(take.run({}, context, threads))
    await asyncio.sleep(0)
    context.cancelled.set()
    if gone:  # its task is cancelled, as a time-out does; else only the token tells
        call.cancel()
    busy.set()
    await asyncio.wait([call])
    await asyncio.get_running_loop().run_in_executor(threads, int)  # the one thread has seen all before it
    assert ran == []


async def test_an_async_call_is_never_queued(threads: Executor) -> None:
    context = replace(CONTEXT, queued=threading.Event())

    @tool
    async def take() -> bool:
        return context.queued.is_set()

    assert await take.run({}, context, threads) == "false"


def fetch_row() -> Any:
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    return database.execute("SELECT 1 AS one").fetchone()


async def fetch_rows() -> Any:
    return [fetch_row()]


def give_function() -> Any:
    return lambda: 1


async def give_stream() -> Any:
    async def items() -> AsyncIterator[int]:
        yield 1

    return items()


async def give_work() -> Any:
    return asyncio.sleep(0)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (fetch_row, "sqlite3.Row"),
        (fetch_rows, "sqlite3.Row"),
        (give_function, "function"),
        (give_stream, "async_generator"),
        (give_work, "coroutine"),
    ],
)
async def test_a_return_value_that_is_no_json_is_an_error_and_a_line_in_the_log_that_names_the_tool(
    function: Any, kind: str, threads: Executor, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ToolError) as caught:
        await tool(function).run({}, CONTEXT, threads)
    assert str(caught.value) == f"the tool ran, but what it returned cannot be shown: {kind} is no JSON."
    [line] = [each.getMessage() for each in caplog.records]
    assert line == (
        f"tool {function.__name__} ran, but returned what is no JSON ({kind}): "
        "return a text, a number, a dict, a list, a dataclass or a pydantic model"
    )


async def test_what_a_synchronous_tool_returns_lazily_is_read_in_its_thread(threads: Executor) -> None:
    def rows() -> Any:
        database = sqlite3.connect(":memory:")  # for this thread alone
        return database.execute("SELECT 1 UNION SELECT 2")

    assert await tool(rows).run({}, CONTEXT, threads) == "[[1],[2]]"
