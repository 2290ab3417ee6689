"""What goes into a run."""

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
    """The input of one run; a plain string or a Message stands for a RunInput with that message.

    - messages: what the client knows or adds; what they mean beside the session's history is decided in react/opening
    - tools: tools that the client runs itself; a call of one ends the run as `client_tools`
    - context: shown to the model for this run only
    - state, forwarded_props: any JSON values; tools see them through their context
    - whole: the messages are the whole conversation; where the agent has no history yet, it begins with
      them as they are, tool calls and results included. Nothing in them is carried out
    - answers: to the interrupts that the session waits with
    - places: where each message stands in the client's own list, for errors; empty where that is its index
    - own_ids: the messages have ids of the client's, by which they can be known again
    - mark: what the ids of the user's messages begin with, in this request and in each that is the same; empty where
      nothing is known of that. With `again` the client says that the same request came before
    - client: which protocol the client speaks, a word of the application's that is kept with the run
    - tool_choice: `auto`, `none`, `required`, or the name of one tool; for the first round only
    - options: how the model is to sample, for every call of the run
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
    mark: str = ""
    again: bool = False
    client: str = ""
    tool_choice: str = "auto"
    options: ModelOptions = field(default_factory=ModelOptions)


Input = str | Message | RunInput


def as_input(given: Input) -> RunInput:
    """The input of a run that a text or one message stands for. Raises InvalidRequest."""
    if isinstance(given, RunInput):
        return given
    if isinstance(given, Message):
        return RunInput(messages=(given,))
    if isinstance(given, str):
        return RunInput(messages=(Message(id=new_id("msg"), role="user", content=well_formed(given)),))
    raise InvalidRequest(f"A run takes a text, a Message or a RunInput, and not {type(given).__name__}.", "input")
