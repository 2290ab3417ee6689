"""The pairing rule: every tool call is followed by exactly one result before the next request.

`open_calls` finds the calls at the tail of a history that nobody has answered yet; the loop answers
them. `paired` is the view that goes to a model: whatever a history holds, the view obeys the rule, so
that one damaged session cannot make a provider refuse every later run of it.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from agent_core.messages import Message, Part, ResultStatus, TextPart, ToolCall, new_id

EXPLANATIONS: dict[ResultStatus, tuple[str, str]] = {
    "ok": ("", ""),
    "error": ("Error: ", "the tool failed."),
    "timed_out": ("Timed out: ", "the tool did not finish in time; whether it had an effect is not known."),
    "interrupted": ("Interrupted: ", "there was no result yet; whether the call had an effect is not known."),
    "denied": ("Denied: ", "the call was not allowed and not run."),
    "not_run": ("Not run: ", "the call was not begun."),
}
"""What the model is told of each status, and why where nobody knows better."""


def result_of(
    call: ToolCall, status: ResultStatus, content: str | tuple[Part, ...] = "", *, message_id: str = ""
) -> Message:
    """The tool message that answers the call. All but `ok` is said at the head of the text: providers
    have no member for it."""
    label, explanation = EXPLANATIONS[status]
    if isinstance(content, tuple):
        content = (TextPart(text=label.rstrip()), *content) if label else content
    else:
        content = f"{label}{content or explanation}"
    return Message(
        id=message_id or new_id("result"),
        role="tool",
        name=call.name,
        tool_call_id=call.id,
        status=status,
        content=content,
    )


def open_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The unanswered calls of the last assistant message that made any, in its order."""
    answered: set[str | None] = set()
    for message in reversed(messages):
        if message.role == "tool":
            answered.add(message.tool_call_id)
        elif message.tool_calls:
            return tuple(call for call in message.tool_calls if call.id not in answered)
    return ()


def paired(messages: Iterable[Message]) -> list[Message]:
    """The messages with each call answered right behind its message, in the order of the calls.

    A missing result becomes one with the status `interrupted`, whose id is derived from the call's so
    that the view is the same each time; a result without its call, or a second one, is left out.
    """
    messages = list(messages)
    if not any(message.tool_calls or message.role == "tool" for message in messages):
        return messages
    results: dict[str | None, deque[tuple[int, Message]]] = {}
    for place, message in enumerate(messages):
        if message.role == "tool":
            results.setdefault(message.tool_call_id, deque()).append((place, message))
    view: list[Message] = []
    for place, message in enumerate(messages):
        if message.role == "tool":
            continue
        view.append(message)
        for call in message.tool_calls:
            found = _next_behind(place, results.get(call.id))
            view.append(found or result_of(call, "interrupted", message_id=f"{call.id}-interrupted"))
    return view


def _next_behind(place: int, results: deque[tuple[int, Message]] | None) -> Message | None:
    """The first result that stands behind the place; an id may come again in a damaged history."""
    while results:
        at, found = results.popleft()
        if at > place:
            return found
    return None
