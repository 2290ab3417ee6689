"""What values take: near the truth, and never next to nothing."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from agent_core.messages import MediaPart, Message, ToolCall
from agent_core.sizes import size_of, size_of_json

VALUES: dict[str, Callable[[], Any]] = {
    "text": lambda: ["x" * 100 for _ in range(1_000)],
    "lists": lambda: [[] for _ in range(10_000)],
    "objects": lambda: [{"a": n, "b": [n]} for n in range(3_000)],
    "numbers": lambda: [n * 1.5 for n in range(10_000)],
    "deep": lambda: [[[[[[]]]]] for _ in range(2_000)],
}


def taken(make: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        value = make()
        return tracemalloc.get_traced_memory()[0] + 0 * len(value)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", VALUES)
def test_a_value_and_its_json_are_near_what_it_takes(name: str) -> None:
    text = orjson.dumps(VALUES[name]())
    real = taken(lambda: orjson.loads(text))
    assert real / 2 <= size_of(orjson.loads(text)) <= real * 3
    assert real / 2 <= size_of_json(text) <= real * 4


def test_a_message_takes_what_its_parts_and_calls_take() -> None:
    image = MediaPart(kind="image", source="data", value="i" * 5_000)
    call = ToolCall(id="c", name="n", arguments="a" * 5_000, extra={"signature": "s" * 5_000})
    message = Message(id="m", role="assistant", content=(image,), thoughts=("t" * 5_000,), tool_calls=(call,))
    assert 20_000 <= size_of(message) <= 24_000


def test_a_value_that_nests_deep_is_no_trouble() -> None:
    value: Any = None
    for _ in range(100_000):
        value = [value]
    assert size_of(value) >= 100_000 * 64
