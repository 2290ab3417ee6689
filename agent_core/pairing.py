"""The pairing rule: every tool call is followed by exactly one result before the next request.

`open_calls` finds the calls at the tail of a history that have no result yet; the loop answers them. `paired` makes
the view that goes to a model. The view obeys the rule whatever the history holds. Otherwise a provider would refuse
every later run of a session that was damaged once.
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
"""For each status, the head of the result's text, and the text where the caller gives none."""


def result_of(
    call: ToolCall, status: ResultStatus, content: str | tuple[Part, ...] = "", *, message_id: str = ""
) -> Message:
    """The tool message that answers the call. Every status but `ok` stands at the head of its text, because providers
    have no field for it."""
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
    """The messages, each call answered right behind its message, in the order of the calls.

    A call without a result gets one with the status `interrupted`. Its id is made from the call's, so the view is the
    same each time. A result without its call is left out, and so is a second result.
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
    """The first result behind the place. In a damaged history, an earlier call may have had the same id."""
    while results:
        at, found = results.popleft()
        if at > place:
            return found
    return None
