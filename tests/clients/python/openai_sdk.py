"""What openai-python makes of a server, as one line of JSON.

python openai_sdk.py BASE_URL create|stream|helper|tools|failures '{"messages": [...], …}'

`options` are the client's own (timeout, max_retries, api_key); all else goes into the request.
"""

import json
import sys
from typing import Any

import openai  # type: ignore[import-not-found]


def create(client: Any, **request: Any) -> Any:
    return client.chat.completions.create(**request).model_dump()


def stream(client: Any, **request: Any) -> Any:
    return _read(client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True}))


def _read(chunks: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"text": "", "reasoning": "", "finish": [], "usage": [], "error": None}
    try:
        for chunk in chunks:
            if chunk.usage is not None:
                found["usage"].append(chunk.usage.model_dump())
            for choice in chunk.choices:
                found["text"] += choice.delta.content or ""
                found["reasoning"] += getattr(choice.delta, "reasoning_content", None) or ""
                if choice.finish_reason is not None:
                    found["finish"].append(choice.finish_reason)
    except openai.OpenAIError as error:
        found["error"] = _describe(error)
    return found


def helper(client: Any, **request: Any) -> Any:
    """The `.stream()` helper: its events, and the completion that it puts together."""
    with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as events:
        kinds = [event.type for event in events]
        return {"events": kinds, "completion": events.get_final_completion().model_dump()}


def tools(client: Any, answer: str, streamed: bool, **request: Any) -> Any:
    """Call the client's tools as they are asked for, with this answer, until there is text."""
    messages = list(request.pop("messages"))
    asked: list[Any] = []
    for _ in range(4):
        if streamed:
            with client.chat.completions.stream(messages=messages, **request) as events:
                message = events.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(messages=messages, **request).choices[0].message
        if not message.tool_calls:
            return {"asked": asked, "text": message.content}
        messages.append(message.model_dump())
        for call in message.tool_calls:
            asked.append([call.function.name, json.loads(call.function.arguments)])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": answer})
    raise SystemExit("the tools were asked for without end")


def failures(client: Any, requests: list[dict[str, Any]]) -> Any:
    """The exception that each of these requests raises; None where it raises none."""
    return [_failure(client, request) for request in requests]


def _failure(client: Any, request: dict[str, Any]) -> Any:
    try:
        client.chat.completions.create(**request)
    except openai.OpenAIError as error:
        return _describe(error)
    return None


def _describe(error: Any) -> dict[str, Any]:
    status = getattr(error, "status_code", None)
    return {"class": type(error).__name__, "status": status, "code": error.code, "param": error.param}


def models(client: Any) -> Any:
    return [[each.id, client.models.retrieve(each.id).id] for each in client.models.list()]


def main() -> None:
    url, do, given = sys.argv[1:]
    request = json.loads(given)
    client = openai.OpenAI(base_url=url, **{"api_key": "none", "max_retries": 0, **request.pop("options", {})})
    done = {each.__name__: each for each in (create, stream, helper, tools, failures, models)}[do](client, **request)
    sys.stdout.write(json.dumps(done))


main()
