"""One model turn: the request as the model sees it, the call, and the assistant message it made."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing

from agent_core.errors import Code, ModelError
from agent_core.events import AnswerCut, Cut, Fallback, ModelCallEnd, ModelCallStart, Retry
from agent_core.messages import Message, new_id
from agent_core.models.base import ArgumentsPiece, ModelRequest, Retries, UsagePiece
from agent_core.models.resilient import stream_with_fallback, stream_with_retries
from agent_core.pairing import paired
from agent_core.react.emitter import Emitter
from agent_core.react.lane import Lane
from agent_core.react.reply import Reply
from agent_core.tools.base import ToolSpec
from agent_core.usage import Usage

logger = logging.getLogger(__name__)

LONG = 64 * 1024
"""Characters of a call's arguments that are looked at in one go."""

PAIRING = 100
"""Work (`Aside`) of pairing one message."""

CLOSING = (
    "The budget of steps for this request is used up and no tool can be called any more. Answer the user now, "
    "directly: say what was found, what is still missing, and what the next step would be."
)


COPIES = 3
"""Copies of a text while it is being stored: in the message, in the entry, and in the store."""


async def take_turn(
    lane: Lane,
    *,
    tools: Sequence[ToolSpec],
    closing: str = "",
    nudge: str = "",
    tool_choice: str = "auto",
) -> Message:
    """Ask the model once and return its message, which is not stored yet.

    `closing` is an instruction in front of the agent's own; it asks for a last answer without tools. `nudge` is one
    more user message. Neither is stored.

    Raises ModelError, Stopped, or whatever a user's own model raises. What had come until then is stored, since the
    client has seen it.
    """
    theirs = frozenset(spec.name for spec in lane.input.tools)
    reply = Reply(lane.emitter, lane.history.call_ids, calls=not closing, fresh=lane.scope.ephemeral, theirs=theirs)
    view = await _view(lane, closing, nudge)
    request = ModelRequest(messages=view, tools=tuple(tools), tool_choice=tool_choice, options=lane.input.options)
    lane.scope.check()
    lane.emit(ModelCallStart, reply_id=reply.id, model=lane.model.name)
    usage: list[Usage] = []
    lane.reply, lane.cut = reply, None
    try:
        await lane.scope.stop.guard(_stream(lane, request, reply, usage))
    except Exception:
        await _keep(lane, reply, usage)
        raise
    message = reply.finish()
    _account(lane, reply, usage, cut=reply.cut)
    lane.cut = reply.cut
    if reply.cut is not None and (message.text or message.tool_calls):
        lane.emit(AnswerCut, reply_id=reply.id, why=reply.cut)
    return message


async def _keep(lane: Lane, reply: Reply, usage: list[Usage]) -> None:
    """Store what has come of an answer that broke off."""
    async with lane.scope.room.of(COPIES * reply.size):
        partial = reply.finish()
        _account(lane, reply, usage)
        if partial.text or partial.tool_calls:
            if partial.tool_calls:
                lane.watch.asked(partial.tool_calls)
            await lane.commit(partial)
        lane.reply = None


def _account(lane: Lane, reply: Reply, usage: list[Usage], cut: Cut | None = None) -> None:
    lane.scope.usages += usage
    cost = usage[0] if usage else None
    lane.emit(ModelCallEnd, reply_id=reply.id, model=lane.model.name, usage=cost, cut=cut)


async def _stream(lane: Lane, request: ModelRequest, reply: Reply, usage: list[Usage]) -> None:
    def on_retry(code: Code, attempt: int, delay: float) -> None:
        logger.info("run %s: model call failed (%s), attempt %d in %.1f s", lane.run_id, code, attempt, delay)
        lane.emit(Retry, reply_id=reply.id, code=code, attempt=attempt, delay=delay)

    def on_fallback(code: Code) -> None:
        assert lane.fallback is not None
        logger.info("run %s: the model failed (%s), %s is asked instead", lane.run_id, code, lane.fallback.name)
        lane.emit(Fallback, reply_id=reply.id, code=code, model=lane.fallback.name)

    retries = Retries(attempts=lane.agent.max_retries)
    sink, http = lane.scope.sink, lane.scope.http
    if lane.fallback is None:  # one layer less for each piece
        stream = stream_with_retries(lane.model, request, http, retries, on_retry)
    else:
        stream = stream_with_fallback(lane.model, lane.fallback, request, http, retries, on_retry, on_fallback)
    async with aclosing(stream) as pieces:
        async for piece in pieces:
            if type(piece) is UsagePiece:
                usage[:] = [piece.usage]
                continue
            if type(piece) is ArgumentsPiece and len(piece.text) > LONG:
                await _take_long(reply, piece)
            else:
                reply.take(piece)
            if sink.full:
                await sink.room()


async def _take_long(reply: Reply, piece: ArgumentsPiece) -> None:
    """Take a long piece in parts, so that other runs get a turn: each of its characters is looked at."""
    for start in range(0, len(piece.text), LONG):
        reply.take(ArgumentsPiece(piece.index, piece.text[start : start + LONG]))
        await asyncio.sleep(0)


async def _view(lane: Lane, closing: str, nudge: str) -> tuple[Message, ...]:
    system = _system(lane, closing)
    before = [Message(id="system", role="system", content=system)] if system else []
    behind = [Message(id=new_id("nudge"), role="user", content=nudge)] if nudge else []
    view = messages = lane.history.messages
    if not lane.history.tree.is_paired:
        view = await lane.scope.aside(PAIRING * len(messages), paired, messages)
    return (*before, *view, *behind)


async def ask_quietly(lane: Lane, said: Message, question: str) -> str:
    """Ask the model about the answer that it has just given. Returns its reply, which nobody else sees; empty if the
    call fails, since the question is an extra."""
    reply = Reply(Emitter(lane.run_id), lane.history.call_ids, calls=False)
    asked = Message(id=new_id("nudge"), role="user", content=question)
    request = ModelRequest(messages=(*await _view(lane, "", ""), said, asked), options=lane.input.options)
    lane.scope.check()
    lane.emit(ModelCallStart, reply_id=reply.id, model=lane.model.name)
    usage: list[Usage] = []
    try:
        await lane.scope.stop.guard(_stream(lane, request, reply, usage))
    except ModelError as error:
        logger.info("run %s: the model could not be asked about its answer (%s)", lane.run_id, error.code)
    finally:
        _account(lane, reply, usage)
    return reply.finish().text


def _system(lane: Lane, closing: str) -> str:
    instructions = lane.agent.instructions
    parts = [closing] if closing else []
    parts.append(instructions if isinstance(instructions, str) else instructions(lane.context()))
    if lane.input.context:
        told = "\n".join(f"- {item.description}: {item.value}" for item in lane.input.context)
        parts.append(f"Context given by the application:\n{told}")
    return "\n\n".join(part for part in parts if part)
