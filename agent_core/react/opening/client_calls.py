"""The client's calls at the end of a conversation: which wait for it, and what it answers."""

from collections.abc import Container, Iterable, Mapping

from agent_core.messages import Message, ToolCall, new_id
from agent_core.pairing import result_of


def waiting_for_client(
    calls: Iterable[ToolCall], server_tools: Container[str], ours: Container[str] = ()
) -> tuple[ToolCall, ...]:
    """Those of the open calls that are not this server's to run. `ours` are calls that were, though their tool may be
    gone."""
    return tuple(call for call in calls if call.name not in server_tools and call.id not in ours)


def answered(
    waiting: Iterable[ToolCall], answers: Mapping[str, Message], taken: Container[str], *, said: bool
) -> list[Message]:
    """The results of the calls that wait for the client, in their order: its answers. If the user has `said` something
    new, the other calls are not run. `taken` are the ids of the messages that there are."""
    results: list[Message] = []
    for call in waiting:
        answer = answers.get(call.id)
        if answer is not None:
            message_id = answer.id if answer.id not in taken else new_id("result")
            content = answer.content if answer.says else "(the client returned nothing)"
            results.append(result_of(call, answer.status, content, message_id=message_id))
        elif said:
            results.append(result_of(call, "not_run", "The user went on without answering this call."))
    return results
