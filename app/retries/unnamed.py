"""The end of a run without a session: it keeps the hidden turn for its client, and the answer for the same request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson

from agent_core.errors import SENTENCES, RunError
from agent_core.events import AgentEnd, RunFailed
from agent_core.messages import Message
from agent_core.retold import retold
from agent_core.run import Run
from app.retries.claimed_run import ClaimedRun
from app.retries.hidden_turns import HiddenTurn, HiddenTurns, hidden_turn_of, name_of_talk, names_of_calls
from converters.chain import Converter
from converters.openai.chat import ChatAnswer
from converters.openai.decode import ChatRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Unnamed:
    """Keeps both.

    - found: the hidden turn that the conversation goes on with
    - claimed: the run's claim; None if the request cannot come again
    - converters: makes the user's own converters, which may show the client another text than the model's
    """

    hidden_turns: HiddenTurns
    asked: ChatRequest
    found: HiddenTurn | None
    claimed: ClaimedRun | None
    converters: Callable[[], Sequence[Converter]]

    async def before_calls(self) -> None:
        if self.claimed is not None:
            await self.claimed.before_calls()

    async def at_end(self, run: Run, end: AgentEnd | RunFailed) -> None:
        """Raises RunError `store_unavailable`."""
        try:
            await self._keep_hidden_turn(run, end)
        except RunError as error:
            end = RunFailed(run_id=run.run_id, code=error.code, message=SENTENCES[error.code])
            raise
        finally:
            if self.claimed is not None:
                await self.claimed.at_end(run, end)

    async def _keep_hidden_turn(self, run: Run, end: AgentEnd | RunFailed) -> None:
        if not isinstance(end, AgentEnd) or end.status not in ("client_tools", "max_iterations"):
            return
        hidden = hidden_turn_of(run)
        if hidden is None:
            return
        if end.status == "client_tools":
            names = names_of_calls(self._waiting(run))
        else:
            said = Message(id="", role="assistant", content=self._shown(run, end))
            names = [name_of_talk(run.agent.name, (*self.asked.input.messages, said))]
        await self.hidden_turns.keep(run.key.user_id, hidden, names)

    def _waiting(self, run: Run) -> list[str]:
        """The ids of the calls that wait for the client, without ids that the client has brought itself.

        Nobody can guess an id that the server made. But a client may choose the ids that it brings, and another client
        without a key may bring the same.
        """
        brought = _call_ids(self.asked.input.messages) - _call_ids(() if self.found is None else self.found.messages)
        return [call.id for call in run.open_calls if call.id not in brought]

    def _shown(self, run: Run, end: AgentEnd) -> str:
        """The run's answer as the client sees it."""
        known = {message.id for message in run.input.messages}
        answer = ChatAnswer(run.run_id, run.key.session_id, run.agent.name, frozenset(), converters=self.converters())
        answer.feed([*retold(run.run_id, (each for each in run.messages if each.id not in known)), end])
        return orjson.loads(answer.body())["choices"][0]["message"]["content"] or ""


def _call_ids(messages: Sequence[Message]) -> set[str]:
    return {call.id for message in messages for call in message.tool_calls}
