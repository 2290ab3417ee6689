"""A chat completion request as the engine's input. Shapes: OpenAI's Chat Completions.

All that SDKs send by themselves is accepted, unknown members too. A request that cannot be fulfilled is refused by the
member's name (see `options`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile

from msgspec.structs import replace as with_members

from agent_core.messages import Message
from agent_core.run_input import RunInput
from converters.fields import flag_at, needed_text, object_at
from converters.openai.messages import messages_of
from converters.openai.options import options_of, refuse_the_impossible
from converters.openai.tools import choice_of, strict_of, tools_of
from converters.parsing import read_object


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A request for a completion.

    - agent: the agent that must answer: the request's `model`
    - stream, include_usage: whether the answer is streamed, and whether its stream ends with the cost
    - events: whether the run's other events are shown (`x_agent.events`)
    - input: the body as the whole conversation
    - trailing: the messages after the assistant's last one; they are new to a session that the server keeps (`news`)
    - answered: the ids of the tool calls that trailing tool messages answer, in order
    """

    agent: str
    stream: bool
    include_usage: bool
    events: bool
    input: RunInput
    trailing: tuple[Message, ...]
    answered: tuple[str, ...]

    def news(self, stem: str) -> tuple[Message, ...]:
        """The trailing messages. The ids of the user's and the tools' messages begin with the stem."""
        return _under(stem, self.trailing)

    def under(self, stem: str) -> tuple[Message, ...]:
        """All messages. The ids of the user's and the tools' messages begin with the stem.

        The stem tells apart equal texts of two requests. A person may say the same twice, and an id made only of place
        and text would be that of the earlier message. Instructions are known by their texts.
        """
        return _under(stem, self.input.messages)


def _under(stem: str, messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(
        with_members(each, id=f"{stem}_{at}") if each.role in ("user", "tool") else each
        for at, each in enumerate(messages)
    )


def parse_chat(body: bytes) -> ChatRequest:
    """Read the body of a request. The caller bounds its length.

    Raises only InvalidRequest, whatever the bytes are. Its message and `param` are bounded; `param` is the path of the
    field.
    """
    members = read_object(body)
    agent = needed_text(members, "model")
    stream = flag_at(members, "stream") or False
    refuse_the_impossible(members)
    messages = messages_of(members)
    tools = tools_of(members)
    trailing = _trailing(messages)
    return ChatRequest(
        agent=agent,
        stream=stream,
        include_usage=flag_at(object_at(members, "stream_options") or {}, "include_usage", "stream_options") or False,
        events=flag_at(object_at(members, "x_agent") or {}, "events", "x_agent") or False,
        input=RunInput(
            messages=messages,
            tools=tools,
            whole=True,
            tool_choice=choice_of(members, tools),
            options=replace(options_of(members), strict_tools=strict_of(members)),
        ),
        trailing=trailing,
        answered=tuple(each.tool_call_id for each in trailing if each.tool_call_id is not None),
    )


def _trailing(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    behind = takewhile(lambda each: each.role != "assistant", reversed(messages))
    return tuple(behind)[::-1]
