"""What is asked of a server, and whether its stream is what the scripted upstream said.

A scenario's text is the same for all sides. So a side that loses, repeats or merges a chunk is found, and is not
taken for a fast one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson


class WrongStream(Exception):
    """An answer is not what the scenario demands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Runs of one kind.

    - chunks: pieces of text in the answer
    - calls: tool calls in the answer before that
    - delay: milliseconds between two chunks; 0 for all in one write
    - at_once: runs side by side
    - seconds: for how long new runs begin
    - silent: the model stays silent behind its chunks, so the stream stays open
    - target: the highest ratio to the floor's CPU that is wanted
    """

    name: str
    what: str
    chunks: int = 200
    calls: int = 0
    delay: int = 0
    at_once: int = 64
    seconds: float = 4.0
    silent: bool = False
    target: float = 0.0

    @property
    def program(self) -> str:
        """The user's message, which the upstream obeys."""
        return f"bench:n={self.chunks}:k={self.calls}:d={self.delay}:h={int(self.silent)}"


STREAMS = (
    Scenario(name="T0c64", what="200 chunks in one write, 64 runs at once", target=0.60),
    Scenario(name="R0c64", what="a tool call, then 200 chunks, 64 runs at once", calls=1, target=0.75),
    Scenario(name="T5c64", what="200 chunks, 5 ms apart, 64 runs at once", delay=5, target=1.02),
    Scenario(name="F0c8", what="a run of one chunk, 8 at once: the fixed cost", chunks=1, at_once=8, target=1.55),
)
"""Those whose ratio to the floor is told."""


@cache
def words(chunks: int) -> tuple[str, ...]:
    """The pieces of text that the upstream sends."""
    return tuple(f" word{number:03d}" for number in range(chunks))


def check_agui(scenario: Scenario, status: int, stream: bytes, *, merged: bool = False) -> None:
    """Raises WrongStream. A reader that came later may get chunks merged into one; others may not."""
    try:
        events = list(_data(stream)) if status == 200 else []
        types = [event["type"] for event in events]
        pieces = [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"]
        ends = [each for each in types if each in ("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR")]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise WrongStream(_told(scenario, status, stream)) from error
    whole = (
        types[:1] == ["RUN_STARTED"]
        and types[-1:] == ["RUN_FINISHED"]
        and ends == ["RUN_STARTED", "RUN_FINISHED"]
        and types.count("TOOL_CALL_RESULT") == scenario.calls
        and _is_text(scenario, pieces, merged)
    )
    if not whole:
        raise WrongStream(_told(scenario, status, stream))


def check_openai(scenario: Scenario, status: int, stream: bytes) -> None:
    """The same for a streamed chat completion. Raises WrongStream."""
    head, done, rest = stream.rpartition(b"data: [DONE]\n\n")
    try:
        choices = [choice for event in _data(head) for choice in event["choices"]] if status == 200 else []
        pieces = [text for choice in choices if (text := choice["delta"].get("content"))]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise WrongStream(_told(scenario, status, stream)) from error
    if not done or rest or not _is_text(scenario, pieces, merged=False):
        raise WrongStream(_told(scenario, status, stream))


def _is_text(scenario: Scenario, pieces: list[str], merged: bool) -> bool:
    said = words(scenario.chunks)
    return "".join(pieces) == "".join(said) if merged else tuple(pieces) == said


def _data(stream: bytes) -> Iterator[Any]:
    """The JSON of each event; comments and ids are passed over. Raises WrongStream for a stream that was cut."""
    *frames, rest = stream.split(b"\n\n")
    if rest:
        raise WrongStream(f"the stream ends in mid-frame: {rest[-200:]!r}")
    for frame in frames:
        for line in frame.split(b"\n"):
            if line.startswith(b"data: "):
                yield orjson.loads(line[6:])


def _told(scenario: Scenario, status: int, stream: bytes) -> str:
    return f"{scenario.name}: not what was asked for: status {status}, {len(stream)} bytes, … {stream[-300:]!r}"
