"""An agent whose events are heavy. The last user message names which: `image`, `answer`, `ask` or `progress`; `half`
calls a tool of the server's and the client's tool `pick`; `long:N` answers with so many characters."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from agent_core.messages import MediaPart
from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece
from agent_core.models.http import HttpClient
from ostinato import Agent, ToolContext, tool

IMAGE = 600_000
ANSWER = 200_000
ARGUMENTS = 200_000
PIECE = 256

CALLS = {"image": ("look",), "ask": ("send",), "progress": ("work",), "half": ("add", "pick")}


@dataclass(frozen=True, slots=True)
class Heavy:
    """Says or calls what it is told to."""

    provider: str = "test"
    name: str = "heavy"

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:
        said = next(message.text for message in reversed(request.messages) if message.role == "user")
        what, _, number = said.partition(" ")[0].partition(":")
        if request.messages[-1].role == "user" and what in CALLS:
            for index, name in enumerate(CALLS[what]):
                yield CallPiece(index, "", name)
                if name == "send":
                    yield ArgumentsPiece(index, f'{{"text":"{"t" * ARGUMENTS}"}}')
            return
        length = ANSWER if what == "answer" else int(number or 0)
        for at in range(0, length, PIECE):
            yield TextPiece(f"{at:08d}" * (PIECE // 8))
        yield TextPiece("done")


@tool
def look() -> MediaPart:
    """An image."""
    return MediaPart(kind="image", source="data", value="i" * IMAGE, mime_type="image/png")


@tool(approval=True)
def send(text: str) -> str:
    """Nobody agrees to it."""
    return text


@tool
async def work(context: ToolContext) -> str:
    """Says much about its progress."""
    for number in range(200):
        context.progress(f"{number:04d}" * 500)
    return "done"


@tool
def add() -> str:
    """A result that the client does not see."""
    return "3"


agents = [Agent("heavy", Heavy(), tools=[look, send, work, add])]
