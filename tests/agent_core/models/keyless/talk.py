"""A conversation with the keyless model that grows as the engine would keep it, and tools for it."""

import json
from collections.abc import Sequence
from typing import Any

from agent_core.messages import Message, ResultStatus, ToolCall
from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece, ThinkingPiece
from agent_core.models.http import HttpClient
from agent_core.models.keyless.fake import FakeModel
from agent_core.tools.base import ToolSpec


class NoHttp:
    """Stands for the HTTP client; any use of it fails."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"the fake model touched http.{name}")


def object_of(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


CLOCK = ToolSpec(name="get_time", description="时间查询: the current local time, such as what time is it (现在几点)")
WEATHER = ToolSpec(
    name="get_weather",
    description="Weather report: the weather of a city (天气)",
    parameters=object_of(city={"type": "string"}),
)
OWNER = ToolSpec(
    name="find_owner",
    description="Owner: who owns a house, with the id of the contract",
    parameters=object_of(house={"type": "string", "description": "the house, such as ROSE COTTAGE"}),
)
CONTRACT = ToolSpec(
    name="read_contract",
    description="Contract: the rent in a contract",
    parameters=object_of(contract_id={"type": "string", "description": "such as K-77"}),
)


class Talk:
    """A conversation that grows, as the engine would keep it."""

    def __init__(self, *tools: ToolSpec, system: str = "") -> None:
        self.tools = tools
        self.messages = [Message(id="m0", role="system", content=system)] if system else []

    def say(self, text: str) -> "Talk":
        self.messages.append(Message(id=f"m{len(self.messages)}", role="user", content=text))
        return self

    async def pieces(self, tools: Sequence[ToolSpec] | None = None) -> list[Piece]:
        request = ModelRequest(messages=tuple(self.messages), tools=self.tools if tools is None else tuple(tools))
        http: HttpClient = NoHttp()  # type: ignore[assignment]
        return [piece async for piece in FakeModel().stream(request, http)]

    async def call(self) -> tuple[str, dict[str, Any]]:
        """The next call, which must be one."""
        pieces = await self.pieces()
        assert isinstance(pieces[0], CallPiece), pieces
        texts = [piece.text for piece in pieces[1:] if isinstance(piece, ArgumentsPiece)]
        assert len(texts) == len(pieces) - 1 <= 1
        arguments = "".join(texts) or "{}"
        call = ToolCall(id=pieces[0].id, name=pieces[0].name, arguments=arguments)
        self.messages.append(Message(id=f"m{len(self.messages)}", role="assistant", tool_calls=(call,)))
        return call.name, json.loads(arguments)

    def result(self, value: Any, status: ResultStatus = "ok") -> "Talk":
        call = self.messages[-1].tool_calls[0]
        content = value if isinstance(value, str) else json.dumps(value)
        self.messages.append(
            Message(
                id=f"m{len(self.messages)}",
                role="tool",
                tool_call_id=call.id,
                name=call.name,
                content=content,
                status=status,
            )
        )
        return self

    async def answer(self, tools: Sequence[ToolSpec] | None = None) -> str:
        """The next answer, which must be one thought and one text."""
        thought, text = await self.pieces(tools)
        assert isinstance(thought, ThinkingPiece)
        assert isinstance(text, TextPiece)
        assert thought.text
        assert text.text
        self.messages.append(Message(id=f"m{len(self.messages)}", role="assistant", content=text.text))
        return text.text
