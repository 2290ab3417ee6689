"""Each event knows its weight: whatever it is filled with, somebody who keeps it has counted."""

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct
from msgspec.structs import fields

from agent_core.events import (
    WEIGHTLESS,
    Custom,
    Event,
    StateDelta,
    StateSnapshot,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)

BIG = "x" * 10_000

OF_THE_START: dict[type[Event], set[str]] = {ThinkingDelta: {"block_id"}, ToolCallDelta: {"call_id"}}
"""Ids that an event shares with the start of its block."""

TOLD: dict[type[Event], str] = {Custom: "value", StateSnapshot: "value", StateDelta: "patch"}
"""Members that may be large and many; whoever makes the event says their size."""


def all_events(kind: type[Event] = Event) -> Iterator[type[Event]]:
    for each in kind.__subclasses__():
        yield each
        yield from all_events(each)


def forms(hint: Any, text: str) -> list[Any]:
    """Values of this type, each with the text in one of the places that a text can have in it."""
    if hint in (str, Any):
        return [text]
    if get_origin(hint) is Literal:
        return [get_args(hint)[0]]
    if isinstance(hint, type) and issubclass(hint, Struct):
        return [made for name in hint.__struct_fields__ for made in filled(hint, name, text)]
    if hint in (int, float, bool, type(None)):
        return [None if hint is type(None) else 1]
    inner = [each for each in get_args(hint) if each is not Ellipsis]
    found = [made for each in inner for made in forms(each, text)]
    kind = get_origin(hint)
    if kind is tuple:
        return [(made,) for made in found]
    if kind is list:
        return [[made] for made in found]
    if (isinstance(kind, type) and issubclass(kind, dict)) or "Mapping" in str(kind):
        return [{"name": text}, {text: 1}]
    assert found, f"no value of {hint}"
    return found  # a union


def filled(kind: type[Struct], name: str, text: str) -> Iterator[Any]:
    """Structs of this class with the text in this member."""
    hints = get_type_hints(kind)
    needed = {f.name: forms(hints[f.name], "")[0] for f in fields(kind) if f.required}
    for value in forms(hints[name], text):
        yield kind(**needed | {name: value})


def texts_in(value: Any) -> int:
    """The characters of BIG in the value."""
    if isinstance(value, Struct):
        return sum(texts_in(getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, dict):
        return sum(map(texts_in, value)) + sum(map(texts_in, value.values()))
    if isinstance(value, tuple | list):
        return sum(map(texts_in, value))
    return len(value) if value == BIG else 0


@pytest.mark.parametrize("kind", list(all_events()), ids=lambda kind: kind.__name__)
def test_whatever_an_event_is_filled_with_it_weighs(kind: type[Event]) -> None:
    tried = 0
    free = WEIGHTLESS | OF_THE_START.get(kind, set()) | {TOLD.get(kind, "")}
    for name in kind.__struct_fields__:
        if name in free:
            continue
        for small, large in zip(filled(kind, name, ""), filled(kind, name, BIG), strict=True):
            assert large.weight - small.weight >= texts_in(large), f"{kind.__name__}.{name} weighs nothing"
            tried += texts_in(large) > 0
    members = {name: hint for name, hint in get_type_hints(kind).items() if name not in free}
    assert tried or not any(hint is str for hint in members.values())


@pytest.mark.parametrize("kind", TOLD, ids=lambda kind: kind.__name__)
def test_what_may_be_large_weighs_what_its_maker_says(kind: type[Event]) -> None:
    [small, *_] = filled(kind, "size", "")
    members = {name: getattr(small, name) for name in small.__struct_fields__}
    assert kind(**members | {"size": 1_000_000}).weight - small.weight >= 999_000


def test_a_text_of_any_script_is_weighed_by_its_bytes() -> None:
    for text in ("ascii", "ünïcödé", "漢字", "🎵"):
        event = next(filled(Custom, "name", text * 1_000))
        assert event.weight >= len((text * 1_000).encode()) * 0.5


def test_a_delta_weighs_its_text_and_no_more_than_an_event_beside() -> None:
    assert TextDelta(run_id="r", text=BIG).weight - TextDelta(run_id="r", text="").weight == len(BIG)
