"""How a run's input joins the session's history: merged by message id.

- A new user, system or developer message is appended.
- A tool message counts only as the answer to a call that waits for the client.
- An assistant message that a client brings executes nothing. Where the agent has no history in this
  session yet (the server was restarted, the thread came from elsewhere), its text is taken over, so
  that the conversation can go on.
- A message whose id is known is a copy of ours and is passed over.
"""

from collections.abc import Iterable, Sequence

from agent_core.messages import Message, ToolCall, new_id
from agent_core.react.pairing import open_calls, result_of
from agent_core.sessions.entries import History


def merge(
    history: History, messages: Sequence[Message], client_calls: Iterable[ToolCall], *, whole: bool = False
) -> list[Message]:
    """The messages that the input adds, in the order in which they are to be appended.

    `client_calls` are the open calls that wait for the client; their answers come first, in the order
    of the calls. Where a user message comes too, the calls that it leaves unanswered are settled as
    `not_run`, since the person has moved on. The history itself is not changed.

    With `whole`, the messages are the conversation itself, and an empty history takes them as they are.
    """
    if whole and not history.messages:
        return list({message.id: message for message in reversed(messages)}.values())[::-1]
    waiting = {call.id: call for call in client_calls}
    answers: dict[str, Message] = {}
    said: list[Message] = []
    seen = set(history.message_ids)
    for message in messages:
        if message.role == "tool":
            call = waiting.get(message.tool_call_id or "")
            if call is not None and call.id not in answers:
                answers[call.id] = _answer(call, message, seen)
        elif message.id not in seen:
            seen.add(message.id)
            if message.role != "assistant":
                said.append(message)
            elif not history.messages and message.text:
                said.append(Message(id=message.id, role="assistant", content=message.text))
    moved_on = any(message.role == "user" for message in said)
    settled: list[Message] = []
    for call in waiting.values():
        if call.id in answers:
            settled.append(answers[call.id])
        elif moved_on:
            settled.append(result_of(call, "not_run", "The user went on without answering this call."))
    return settled + said


def _answer(call: ToolCall, message: Message, seen: set[str]) -> Message:
    message_id = message.id if message.id not in seen else new_id("result")
    seen.add(message_id)
    return result_of(call, message.status, message.text or "(the client returned nothing)", message_id=message_id)


def waiting_for_client(messages: Sequence[Message], server_tools: Iterable[str]) -> tuple[ToolCall, ...]:
    """The open calls at the history's tail that are not this server's to run."""
    own = set(server_tools)
    return tuple(call for call in open_calls(messages) if call.name not in own)
