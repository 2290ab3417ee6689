"""A provider that refuses what the strictest of them refuses: a 400 for the whole request, as they answer it."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from tests.scripted import Reply, error

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


def faults_of(body: Any, *, own: Sequence[str] = ()) -> list[str]:
    """What is wrong with a request. `own` are ids that this provider made, whatever they look like."""
    found: list[str] = []
    open_ids: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_ids:
                found.append(f"no call {message['tool_call_id']}")
            else:
                open_ids.remove(message["tool_call_id"])
            continue
        found += [f"no result for {each}" for each in open_ids]
        calls = message.get("tool_calls") or []
        open_ids = [call["id"] for call in calls]
        for call in calls:
            function = call["function"]
            if not NAME.fullmatch(function["name"]):
                found.append(f"name {function['name']}")
            if not ID.fullmatch(call["id"]) and call["id"] not in own:
                found.append(f"id {call['id']}")
            if not _is_object(function["arguments"]):
                found.append(f"arguments {function['arguments']}")
    return found + [f"no result for {each}" for each in open_ids]


def _is_object(text: Any) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def strict(*replies: Reply, own: Sequence[str] = ()) -> Callable[[Any], Reply]:
    """The script of such a provider: it gives these replies in turn, the last one again and again."""
    asked: list[Any] = []

    def reply(body: Any) -> Reply:
        faults = faults_of(body, own=own)
        if faults:
            return error(400, "; ".join(faults))
        asked.append(body)
        return replies[min(len(asked), len(replies)) - 1]

    return reply
