"""Which AG-UI a client speaks, and what it has shown that it takes."""

from collections.abc import Iterable
from enum import Enum


class Dialect(Enum):
    """Decided by the input's `protocolVersion`.

    `V1`: it is there, whatever it says, since newer versions of 1 must be served too. `OLD`: it is
    missing, so the client (0.0.x) rejects shapes that came with 1.0: those frames have a second
    form, a subagent shows only in its parent's tool result, and blocks never interleave.
    """

    V1 = "1.0"
    OLD = "0.x"

    @classmethod
    def of(cls, protocol_version: str | None) -> "Dialect":
        return cls.V1 if protocol_version else cls.OLD


THINKING = "+reasoning"


def client_word(dialect: Dialect, *, reasoning: bool) -> str:
    """The client in a word, which is kept with its run. `reasoning`: its request has a `reasoning` message."""
    return f"agui/{dialect.value}" + (THINKING if reasoning and dialect is Dialect.OLD else "")


def dialect_of(word: str) -> Dialect:
    """The dialect of the client that the word stands for, 1.0 where it is no client of AG-UI's."""
    return Dialect.OLD if word.removesuffix(THINKING) == client_word(Dialect.OLD, reasoning=False) else Dialect.V1


def take_reasoning(words: Iterable[str]) -> bool:
    """Whether one of these clients has shown that it takes `reasoning` messages: it named a version of the
    protocol, or sent such a message. Clients that have not may refuse the whole snapshot for one."""
    shown = {client_word(Dialect.V1, reasoning=False), client_word(Dialect.OLD, reasoning=True)}
    return not shown.isdisjoint(words)
