"""What JSON has no form for: its own text, or an error that names its class."""

import asyncio
import functools
import itertools
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any

import pytest

from agent_core.plain import NoJson, json_of, text_of


class Silent:
    pass


class Says:
    def __str__(self) -> str:
        return "says"


class Shows:
    def __repr__(self) -> str:
        return "shows 0xff"


class Inherits(Says):
    pass


class Where:
    def __repr__(self) -> str:
        return f"<Where at {id(self):#x}>"


def row() -> Any:
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    found = database.execute("SELECT 1 AS one").fetchone()
    database.close()
    return found


async def later() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (Says(), b'"says"'),
        (Shows(), b'"shows 0xff"'),
        (Inherits(), b'"says"'),
        (range(3), b'"range(0, 3)"'),
        (1j, b'"1j"'),
        (Decimal("1.50"), b'"1.50"'),
        (ValueError("no"), b'"no"'),
        (re.compile("a+"), b'"a+"'),
        ((each for each in "ab"), b'["a","b"]'),
        ({"deep": [{"in": Says()}, map(str, [1])]}, b'{"deep":[{"in":"says"},["1"]]}'),
    ],
)
def test_what_pydantic_can_write_or_has_a_text_of_its_own_is_json(value: object, json: bytes) -> None:
    assert json_of(value) == json


NOT = [
    (row, "sqlite3.Row"),
    (Silent, "tests.agent_core.test_plain.Silent"),
    (object, "object"),
    (lambda: lambda: 1, "function"),
    (lambda: len, "builtin_function_or_method"),
    (lambda: [].append, "builtin_function_or_method"),
    (lambda: Silent().__eq__, "method-wrapper"),
    (lambda: functools.partial(len, "a"), "functools.partial"),
    (later, "async_generator"),
    (threading.Lock, "_thread.lock"),
    (asyncio.Event, "asyncio.locks.Event"),
    (Where, "tests.agent_core.test_plain.Where"),
]
"""What makes the value, since pytest would compare and show it, and its class."""


@pytest.mark.parametrize(("make", "kind"), NOT, ids=[kind for _, kind in NOT])
def test_anything_else_is_refused_wherever_it_stands(make: Any, kind: str) -> None:
    value = make()
    for given in (value, [1, value], {"a": {"b": (value,)}}, iter([value])):
        with pytest.raises(NoJson) as refused:
            json_of(given)
        assert refused.value.kind == kind
        assert " at 0x" not in str(refused.value)


def test_what_would_have_to_be_awaited_is_refused() -> None:
    async def work() -> None: ...

    coroutine = work()
    with pytest.raises(NoJson, match="coroutine"):
        text_of(coroutine)
    coroutine.close()


def test_an_error_of_the_value_s_own_is_not_taken_for_one() -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("mine")

    with pytest.raises(Exception, match="mine") as raised:
        json_of(Broken())
    assert not isinstance(raised.value, NoJson)


def test_an_iterator_that_holds_what_is_no_json_is_no_shorter_list() -> None:
    def items() -> Iterator[object]:
        yield from itertools.repeat(1, 3)
        yield Silent()

    with pytest.raises(NoJson):
        json_of(items())
