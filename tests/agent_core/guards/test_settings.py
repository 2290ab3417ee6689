"""The guards as settings: their defaults, and the errors of wrong values."""

import dataclasses
import math
from typing import Any

import pytest

from agent_core.guards.settings import Guards


def test_each_guard_has_its_default() -> None:
    assert dataclasses.asdict(Guards()) == {
        "repeats": 3,
        "failures": 3,
        "on_tool_failure": "answer",
        "calls_per_tool": 40,
        "calls_per_run": 150,
        "turn_iterations": 100,
        "seconds": None,
        "tokens": None,
        "confidence": None,
    }


@pytest.mark.parametrize("off", [None, 0])
def test_none_and_nought_switch_a_guard_off(off: Any) -> None:
    names = (
        "repeats",
        "failures",
        "calls_per_tool",
        "calls_per_run",
        "turn_iterations",
        "seconds",
        "tokens",
        "confidence",
    )
    guards = Guards(**dict.fromkeys(names, off))
    assert not any(getattr(guards, name) for name in names)


def test_guards_are_a_value() -> None:
    assert Guards() == Guards()
    assert hash(Guards()) == hash(Guards())
    with pytest.raises(dataclasses.FrozenInstanceError):
        Guards().repeats = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"repeats": 1}, "guards: repeats is 1, but the first call repeats nothing; use 2 or more, or None for off"),
        ({"repeats": -1}, "guards: repeats is -1, but it must be finite and cannot be negative; None switches it off"),
        ({"failures": -3}, "guards: failures is -3, but"),
        ({"seconds": math.inf}, "guards: seconds is inf, but"),
        ({"seconds": math.nan}, "guards: seconds is nan, but"),
        ({"seconds": -0.1}, "guards: seconds is -0.1, but"),
        ({"confidence": 70}, "guards: confidence is 70, but it goes from 0 to 1"),
        ({"confidence": math.nan}, "guards: confidence is nan, but"),
        ({"on_tool_failure": "stop"}, "guards: on_tool_failure is 'stop', not 'answer' or 'disable'"),
        ({"on_tool_failure": None}, "guards: on_tool_failure is None, not"),
    ],
)
def test_a_limit_that_cannot_be_is_refused_in_a_sentence(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="guards: ") as raised:
        Guards(**limits)
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"repeats": "3"}, "guards: repeats must be a whole number or None, not '3'"),
        ({"repeats": True}, "guards: repeats must be a whole number or None, not True"),
        ({"tokens": 1e6}, "guards: tokens must be a whole number or None, not 1000000.0"),
        ({"seconds": "60"}, "guards: seconds must be a number or None, not '60'"),
        ({"confidence": False}, "guards: confidence must be a number or None, not False"),
    ],
)
def test_what_is_no_number_is_refused_in_a_sentence(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError) as raised:
        Guards(**limits)
    assert str(raised.value) == said


def test_the_bounds_themselves_are_allowed() -> None:
    assert Guards(repeats=2, failures=1, calls_per_tool=1, calls_per_run=1, seconds=0.5, tokens=1, confidence=1)
