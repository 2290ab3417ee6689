"""The version of AG-UI that a client speaks, and the messages that it has shown to take."""

from collections.abc import Iterable
from enum import Enum


class Dialect(Enum):
    """The client's version, told by the input's `protocolVersion`.

    - V1: the member is there. Its value does not count, because newer versions of 1 must be served too
    - OLD: the member is missing, so the client (0.0.x) rejects shapes that came with 1.0. Those frames have a second
      form; a subagent shows only in its parent's tool result; and blocks never interleave
    """

    V1 = "1.0"
    OLD = "0.x"

    @classmethod
    def of(cls, protocol_version: str | None) -> "Dialect":
        return cls.V1 if protocol_version else cls.OLD


THINKING = "+reasoning"


def client_word(dialect: Dialect, *, reasoning: bool) -> str:
    """A word for the client, which is stored with its run. `reasoning`: its request has a `reasoning` message."""
    return f"agui/{dialect.value}" + (THINKING if reasoning and dialect is Dialect.OLD else "")


def dialect_of(word: str) -> Dialect:
    """The dialect of the client with this word. V1 for clients of other protocols."""
    return Dialect.OLD if word.removesuffix(THINKING) == client_word(Dialect.OLD, reasoning=False) else Dialect.V1


def take_reasoning(words: Iterable[str]) -> bool:
    """Whether one of these clients has shown that it takes `reasoning` messages: it named the protocol's version, or
    sent such a message. Other clients may refuse a whole snapshot because of one."""
    shown = {client_word(Dialect.V1, reasoning=False), client_word(Dialect.OLD, reasoning=True)}
    return not shown.isdisjoint(words)
