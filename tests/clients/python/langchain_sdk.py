"""What LangChain's ChatOpenAI makes of a server, as one line of JSON.

python langchain_sdk.py BASE_URL invoke|stream|tools|failure '{"model": "demo", "say": "hello", …}'
"""

import json
import sys
from typing import Any

import openai  # type: ignore[import-not-found]
from langchain_core.messages import HumanMessage, ToolMessage  # type: ignore[import-not-found]
from langchain_openai import ChatOpenAI  # type: ignore[import-not-found]


def invoke(chat: Any, say: str) -> Any:
    message = chat.invoke(say)
    return {
        "text": message.text,
        "usage": message.usage_metadata,
        "calls": message.tool_calls,
        "finish": message.response_metadata["finish_reason"],
    }


def stream(chat: Any, say: str) -> Any:
    """The chunks added up, as LangChain adds them."""
    whole, pieces = None, 0
    for chunk in chat.stream(say):
        whole = chunk if whole is None else whole + chunk
        pieces += bool(chunk.text)
    assert whole is not None
    return {
        "text": whole.text,
        "usage": whole.usage_metadata,
        "pieces": pieces,
        "finish": whole.response_metadata["finish_reason"],
    }


def tools(chat: Any, say: str, tool: dict[str, Any], answer: str, streamed: bool) -> Any:
    """One round with a bound tool, whose every call gets this answer."""
    bound = chat.bind_tools([tool])
    messages = [HumanMessage(say)]
    asked = _ask(bound, messages, streamed)
    messages.append(asked)
    messages += [ToolMessage(answer, tool_call_id=call["id"]) for call in asked.tool_calls]
    done = _ask(bound, messages, streamed)
    return {"asked": [[call["name"], call["args"]] for call in asked.tool_calls], "text": done.text}


def _ask(chat: Any, messages: list[Any], streamed: bool) -> Any:
    if not streamed:
        return chat.invoke(messages)
    first, *others = chat.stream(messages)
    for chunk in others:
        first = first + chunk
    return first


def failure(chat: Any, say: str) -> Any:
    try:
        chat.invoke(say)
    except openai.APIStatusError as error:
        return {"kinds": [each.__name__ for each in type(error).__mro__], "status": error.status_code}
    return None


def main() -> None:
    url, do, given = sys.argv[1:]
    asked = json.loads(given)
    model = asked.pop("model")
    chat = ChatOpenAI(base_url=url, api_key="none", model=model, max_retries=0, stream_usage=True)
    done = {each.__name__: each for each in (invoke, stream, tools, failure)}[do](chat, **asked)
    sys.stdout.write(json.dumps(done))


main()
