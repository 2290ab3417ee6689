"""What a model is told of arguments that do not fit: where, what was expected, and a little of what it was."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_core.messages import well_formed
from agent_core.tools.results import compact

HEAD = "The arguments do not fit the tool's parameters:"

DOES_NOT_FIT = "The arguments do not fit the tool's JSON Schema."

MOST = 5
"""Complaints that are told; of the others, only how many there are."""

LONGEST = 200
"""Characters of one complaint."""

PATH, SHOWN = 80, 40
"""Characters of a path, and of the value that was given."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Stands for the value where none is to be shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """`expected` is what should have stood at `path`, such as `is required`; `given` what stood there."""

    path: Sequence[int | str]
    expected: str
    given: Any = Missing()

    @property
    def where(self) -> str:
        """The path as people write it, in a bounded length."""
        return _cut(path_of(self.path), PATH)

    def __str__(self) -> str:
        given = "" if isinstance(self.given, Missing) else f" (it was: {_shown(self.given)})"
        return f"{_cut(f'{self.where}: {self.expected}', LONGEST - len(given))}{given}"


@dataclass(frozen=True, slots=True)
class Misfits:
    """What is wrong with arguments: some complaints, and how many there are `more`; none where finding out would
    cost too much. As a text it is what the model is told."""

    complaints: Sequence[Complaint] = ()
    more: int = 0

    def __str__(self) -> str:
        return tell(self.complaints, self.more) if self.complaints else DOES_NOT_FIT


def tell(complaints: Sequence[Complaint], more: int = 0) -> str:
    """The complaints as one text, MOST of them and the number of the rest, to which `more` is added."""
    lines = [f"- {each}" for each in complaints[:MOST]]
    more += len(complaints) - len(lines)
    if more:
        lines.append(f"- and {more} more")
    return well_formed("\n".join([HEAD, *lines]))


def not_a_parameter(known: Sequence[str], *, inside: bool = False) -> str:
    """What is said of an unknown parameter, where `known` are the known ones, or of one `inside` another."""
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
