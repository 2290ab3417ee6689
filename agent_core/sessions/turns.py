"""The turn: what an agent has done since its user last said something new.

A turn goes from one new user message, edit or regenerate to the next. All runs in between belong to it, whoever
began them: a client that answers its tools, a person who approves a call, an operation that has its result, the same
request again after a failure. What is kept of it here is a fold of the session's entries, so that any worker knows
it, also after a restart.
"""

from dataclasses import dataclass, field

from agent_core.messages import Message


@dataclass(slots=True)
class Turn:
    """- acted: the answers that asked for tools, and the results, in the order in which they were stored; those that
      were rewound away since are among them
    - rounds: the answers that the model has given
    - tokens, seconds: what the runs of the turn that have ended used, as far as it is known
    """

    acted: list[Message] = field(default_factory=list)
    rounds: int = 0
    tokens: int = 0
    seconds: float = 0.0
    _opening: str = ""

    def begin(self, run_id: str, opens: bool | None) -> None:
        """A run has begun. It opens a new turn or goes on with this one; where nobody says (None, in entries of
        earlier versions), a user message or a rewind of the run's opens one."""
        self._opening = "" if opens is False else run_id
        if opens:
            self._clear()

    def add(self, message: Message, run_id: str = "") -> None:
        """Something was said. `run_id` is the run that it came in with: a conversation that is brought whole has
        turns of its own, and the last one counts."""
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
