"""What a model is told of arguments that do not fit: the place, what was expected, and the value's beginning."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_core.messages import well_formed
from agent_core.tools.results import compact

HEAD = "The arguments do not fit the tool's parameters:"

DOES_NOT_FIT = "The arguments do not fit the tool's JSON Schema."

MOST = 5
"""The model is told this many complaints, and the number of the others."""

LONGEST = 200
"""Characters of one complaint at most."""

PATH, SHOWN = 80, 40
"""Characters at most of a path, and of the value that was given."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Stands in place of the value if none must be shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One misfit: `expected` says what is wanted at `path`, such as `is required`. `given` is the value there."""

    path: Sequence[int | str]
    expected: str
    given: Any = Missing()

    @property
    def where(self) -> str:
        """The path as people write it, cut to PATH characters."""
        return _cut(path_of(self.path), PATH)

    def __str__(self) -> str:
        given = "" if isinstance(self.given, Missing) else f" (it was: {_shown(self.given)})"
        return f"{_cut(f'{self.where}: {self.expected}', LONGEST - len(given))}{given}"


@dataclass(frozen=True, slots=True)
class Misfits:
    """What is wrong with arguments: some complaints, and how many `more` there are. It has no complaints if finding
    them would cost too much. `str` gives the text for the model."""

    complaints: Sequence[Complaint] = ()
    more: int = 0

    def __str__(self) -> str:
        return tell(self.complaints, self.more) if self.complaints else DOES_NOT_FIT


def tell(complaints: Sequence[Complaint], more: int = 0) -> str:
    """The complaints as one text: MOST of them, and the number of the others, with `more` added."""
    lines = [f"- {each}" for each in complaints[:MOST]]
    more += len(complaints) - len(lines)
    if more:
        lines.append(f"- and {more} more")
    return well_formed("\n".join([HEAD, *lines]))


def not_a_parameter(known: Sequence[str], *, inside: bool = False) -> str:
    """The complaint about an unknown parameter. `known` are the tool's parameters; `inside` says that it stands within
    another value."""
    if inside:
        return "is not a parameter here"
    return f"is not a parameter; known are: {', '.join(known)}" if known else "is not a parameter: the tool takes none"


def path_of(path: Sequence[int | str]) -> str:
    """The path as people write it: `sizes[1].width`."""
    text = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)
    return text.removeprefix(".") or "(arguments)"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        value = value[: SHOWN + 1]
    return _cut(compact(value), SHOWN)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
