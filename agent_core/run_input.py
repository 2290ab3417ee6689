"""The input of a run."""

from dataclasses import dataclass, field
from typing import Any

from agent_core.context import ContextItem
from agent_core.errors import InvalidRequest
from agent_core.interrupts import Answer
from agent_core.messages import Message, new_id, well_formed
from agent_core.models.base import ModelOptions
from agent_core.tools.base import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """The input of one run. A plain string or a Message stands for a RunInput with that message.

    - messages: the messages that the client knows or adds; react/opening decides what they mean beside the history
    - tools: tools that the client runs itself; a call of one ends the run as `client_tools`
    - context: shown to the model in this run only
    - state, forwarded_props: any JSON values; tools see them through their context
    - whole: the messages are the whole conversation. If the agent has no history yet, they become its beginning as
      they are, with tool calls and results. Nothing in them is carried out
    - answers: answers to the session's open interrupts
    - places: each message's index in the client's own list, for errors; empty if the indexes are the same
    - own_ids: the client keeps the messages' ids, so a message can be known again by its id
    - claim: equal requests have the same, and it is stored with the run, so a retry finds the run by it; empty if there
      is none
    - again: the client says that the same request came before
    - client: the protocol that the client speaks, a word of the application's; it is stored with the run
    - tool_choice: `auto`, `none`, `required`, or the name of one tool; for the first round only
    - options: how the model samples, for all calls of the run
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    context: tuple[ContextItem, ...] = ()
    state: Any = None
    forwarded_props: Any = None
    answers: tuple[Answer, ...] = ()
    whole: bool = False
    places: tuple[int, ...] = ()
    own_ids: bool = True
    claim: str = ""
    again: bool = False
    client: str = ""
    tool_choice: str = "auto"
    options: ModelOptions = field(default_factory=ModelOptions)


Input = str | Message | RunInput


def as_input(given: Input) -> RunInput:
    """The input as a RunInput: a text or a message becomes its only message. Raises InvalidRequest."""
    if isinstance(given, RunInput):
        return given
    if isinstance(given, Message):
        return RunInput(messages=(given,))
    if isinstance(given, str):
        return RunInput(messages=(Message(id=new_id("msg"), role="user", content=well_formed(given)),))
    raise InvalidRequest(f"A run takes a text, a Message or a RunInput, and not {type(given).__name__}.", "input")
