"""The turn: what an agent has done since its user last said something new.

A turn goes from one new user message, edit or regenerate to the next. All runs between belong to it: a client answers
its own tools, a person approves a call, an operation has its result, or a failed request is sent again. A Turn is a
fold of the session's entries, so any worker knows it, also after a restart.
"""

from dataclasses import dataclass, field

from agent_core.messages import Message


@dataclass(slots=True)
class Turn:
    """One turn.

    - acted: the answers with calls, and the results, in the order in which they were stored; a rewind removes none
    - rounds: how many answers the model has given
    - tokens, seconds: the sum over the turn's runs that have ended, as far as it is known
    """

    acted: list[Message] = field(default_factory=list)
    rounds: int = 0
    tokens: int = 0
    seconds: float = 0.0
    _opening: str = ""

    def begin(self, run_id: str, opens: bool | None) -> None:
        """A run has begun. `opens` says whether it opens a new turn or goes on with this one. None comes from entries
        of earlier versions: then a user message or a rewind of the run opens a turn."""
        self._opening = "" if opens is False else run_id
        if opens:
            self._clear()

    def add(self, message: Message, run_id: str = "") -> None:
        """A message was added. `run_id` is the run that it came with. A conversation that a client brought whole has
        turns of its own; the last one counts."""
        if message.role == "user" and self._opens(run_id):
            self._clear()
        if message.role == "assistant":
            self.rounds += 1
        if message.tool_calls or message.role == "tool":
            self.acted.append(message)

    def rewound(self, run_id: str) -> None:
        """The run has gone back to an earlier message."""
        if self._opens(run_id):
            self._clear()

    def spend(self, tokens: int, seconds: float) -> None:
        """A run of the turn has ended."""
        self.tokens += tokens
        self.seconds += seconds

    def _opens(self, run_id: str) -> bool:
        return bool(run_id) and run_id == self._opening

    def _clear(self) -> None:
        self.acted, self.rounds, self.tokens, self.seconds = [], 0, 0, 0.0
