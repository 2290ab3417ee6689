"""AG-UI's messages as the engine's messages."""

from collections.abc import Collection, Iterable, Sequence

from ag_ui.core import (
    AssistantMessage,
    ContentPart,
    DeveloperMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from ag_ui.core import (
    Message as AguiMessage,
)
from ag_ui.core import (
    TextPart as AguiTextPart,
)

from agent_core.messages import MediaPart, Message, Part, TextPart, ToolCall, plain
from converters.parsing import invalid, step

LONGEST_ID = 256
"""Characters of a message's id at most."""


def numbered(messages: Iterable[tuple[int, Message | None]]) -> dict[int, Message]:
    """The messages that count, each under its index. They come in order, None for those that no model may see.

    Of two messages with one id the first counts. A user's second one is kept too, so that the user can be told that it
    is passed over. Raises InvalidRequest for an id that cannot be used.
    """
    found: dict[int, Message] = {}
    ids: set[str] = set()
    for index, message in messages:
        if message is None:
            continue
        if not 0 < len(message.id) <= LONGEST_ID:
            path = step(step("messages", index), "id")
            raise invalid(f"{path}: must have 1 to {LONGEST_ID} characters.", path)
        if message.id not in ids or message.role == "user":
            ids.add(message.id)
            found[index] = message
    return found


def all_count(messages: Collection[Message]) -> bool:
    """Whether `numbered` would keep all of them as they are: each has an id of its own that can be used."""
    ids = {message.id for message in messages}
    return len(ids) == len(messages) and all(map(LONGEST_ID.__ge__, map(len, ids))) and "" not in ids


def to_message(message: AguiMessage) -> Message | None:
    """The message. None for reasoning and activity, which no model may see."""
    if isinstance(message, UserMessage):
        return Message(id=message.id, role="user", content=_content(message.content), name=message.name)
    if isinstance(message, AssistantMessage):
        # A client that has got no arguments sends the call back with an empty text.
        calls = tuple(
            ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments or "{}")
            for call in message.tool_calls or ()
        )
        content = message.content or ""
        return Message(id=message.id, role="assistant", content=content, name=message.name, tool_calls=calls)
    if isinstance(message, ToolMessage):
        return _result(message)
    if isinstance(message, SystemMessage | DeveloperMessage):
        return Message(id=message.id, role=message.role, content=message.content, name=message.name)
    return None


def _result(message: ToolMessage) -> Message:
    """A call's result: a text, or parts if it has media. If it has no text, its `error` is the text."""
    content = plain(_content(message.content))
    if message.error and isinstance(content, tuple) and not any(isinstance(part, TextPart) for part in content):
        content = (TextPart(text=message.error), *content)
    return Message(
        id=message.id,
        role="tool",
        tool_call_id=message.tool_call_id,
        content=content or message.error or "",
        status="error" if message.error else "ok",
    )


def _content(content: str | Sequence[ContentPart]) -> str | tuple[Part, ...]:
    if isinstance(content, str):
        return content
    parts = tuple(_part(part) for part in content if not (isinstance(part, AguiTextPart) and not part.text))
    return parts or ""


def _part(part: ContentPart) -> Part:
    """The part. Its source is never fetched."""
    if isinstance(part, AguiTextPart):
        return TextPart(text=part.text)
    source = part.source
    return MediaPart(kind=part.type, source=source.type, value=source.value, mime_type=source.mime_type)
