"""One model turn: the request as the model sees it, the call, and the assistant message it made."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing

from agent_core.errors import Code, ModelError
from agent_core.events import AnswerCut, Cut, Event, Fallback, ModelCallEnd, ModelCallStart, Retry
from agent_core.messages import Message, new_id
from agent_core.models.base import ArgumentsPiece, ModelRequest, Retries, UsagePiece
from agent_core.models.resilient import stream_with_fallback, stream_with_retries
from agent_core.pairing import paired
from agent_core.react.reply import Reply
from agent_core.react.run import Run
from agent_core.tools.base import ToolSpec
from agent_core.usage import Usage

logger = logging.getLogger(__name__)

LONG = 64 * 1024
"""Characters of the arguments of a call that are looked at in one go."""

PAIRING = 100
"""What a message weighs where it is about the work to pair it (`Aside`)."""

CLOSING = (
    "The budget of steps for this request is used up and no tool can be called any more. Answer the user now, "
    "directly: say what was found, what is still missing, and what the next step would be."
)


COPIES = 3
"""How often a text is there while it is stored: as a message, as an entry, and in the store."""


async def take_turn(
    run: Run,
    *,
    tools: Sequence[ToolSpec],
    closing: str = "",
    nudge: str = "",
    tool_choice: str = "auto",
) -> Message:
    """Ask the model once and return its message, which is not stored yet.

    `closing` is an instruction in front of the agent's own, and what is asked for then is a last answer without
    tools; `nudge` is said to the model as
    one more user message. Neither is stored. Where the call fails or is stopped, what had come is
    stored, since the client has seen it, and the failure (ModelError, Stopped, or anything that a model
    of the user's own raises) goes on.
    """
    theirs = frozenset(spec.name for spec in run.input.tools)
    reply = Reply(run.run_id, run.emit, run.history.call_ids, calls=not closing, fresh=run.ephemeral, theirs=theirs)
    view = await _view(run, closing, nudge)
    request = ModelRequest(messages=view, tools=tuple(tools), tool_choice=tool_choice, options=run.input.options)
    run.check()
    run.emit(ModelCallStart(run_id=run.run_id, reply_id=reply.id, model=run.model.name))
    usage: list[Usage] = []
    run.reply, run.cut = reply, None
    try:
        await run.stop.guard(_stream(run, request, reply, usage))
    except Exception:
        await _keep(run, reply, usage)
        raise
    message = reply.finish()
    _account(run, reply, usage, cut=reply.cut)
    run.cut = reply.cut
    if reply.cut is not None and (message.text or message.tool_calls):
        run.emit(AnswerCut(run_id=run.run_id, reply_id=reply.id, why=reply.cut))
    return message


async def _keep(run: Run, reply: Reply, usage: list[Usage]) -> None:
    """Store what came of an answer that broke off."""
    async with run.room.of(COPIES * reply.size):
        partial = reply.finish()
        _account(run, reply, usage)
        if partial.text or partial.tool_calls:
            if partial.tool_calls:
                run.watch.asked(partial.tool_calls)
            await run.commit(partial)
        run.reply = None


def _account(run: Run, reply: Reply, usage: list[Usage], cut: Cut | None = None) -> None:
    run.usages += usage
    cost = usage[0] if usage else None
    run.emit(ModelCallEnd(run_id=run.run_id, reply_id=reply.id, model=run.model.name, usage=cost, cut=cut))


async def _stream(run: Run, request: ModelRequest, reply: Reply, usage: list[Usage]) -> None:
    def on_retry(code: Code, attempt: int, delay: float) -> None:
        logger.info("run %s: model call failed (%s), attempt %d in %.1f s", run.run_id, code, attempt, delay)
        run.emit(Retry(run_id=run.run_id, reply_id=reply.id, code=code, attempt=attempt, delay=delay))

    def on_fallback(code: Code) -> None:
        assert run.fallback is not None
        logger.info("run %s: the model failed (%s), %s is asked instead", run.run_id, code, run.fallback.name)
        run.emit(Fallback(run_id=run.run_id, reply_id=reply.id, code=code, model=run.fallback.name))

    retries = Retries(attempts=run.agent.max_retries)
    sink = run.sink
    if run.fallback is None:  # one layer less for each piece
        stream = stream_with_retries(run.model, request, run.http, retries, on_retry)
    else:
        stream = stream_with_fallback(run.model, run.fallback, request, run.http, retries, on_retry, on_fallback)
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
    """Take a piece part by part: each of its characters is looked at."""
    for start in range(0, len(piece.text), LONG):
        reply.take(ArgumentsPiece(piece.index, piece.text[start : start + LONG]))
        await asyncio.sleep(0)


async def _view(run: Run, closing: str, nudge: str) -> tuple[Message, ...]:
    system = _system(run, closing)
    messages = run.history.messages
    view = await run.aside(PAIRING * len(messages), paired, messages)
    if system:
        view.insert(0, Message(id="system", role="system", content=system))
    if nudge:
        view.append(Message(id=new_id("nudge"), role="user", content=nudge))
    return tuple(view)


async def ask_quietly(run: Run, said: Message, question: str) -> str:
    """Ask the model about the answer that it has just given, and return its reply, which nobody else sees. Empty
    where the call fails: what it is asked for is an extra."""
    reply = Reply(run.run_id, _unheard, run.history.call_ids, calls=False)
    asked = Message(id=new_id("nudge"), role="user", content=question)
    request = ModelRequest(messages=(*await _view(run, "", ""), said, asked), options=run.input.options)
    run.check()
    run.emit(ModelCallStart(run_id=run.run_id, reply_id=reply.id, model=run.model.name))
    usage: list[Usage] = []
    try:
        await run.stop.guard(_stream(run, request, reply, usage))
    except ModelError as error:
        logger.info("run %s: the model could not be asked about its answer (%s)", run.run_id, error.code)
    finally:
        _account(run, reply, usage)
    return reply.finish().text


def _unheard(event: Event) -> None:
    pass


def _system(run: Run, closing: str) -> str:
    instructions = run.agent.instructions
    parts = [closing] if closing else []
    parts.append(instructions if isinstance(instructions, str) else instructions(run.context()))
    if run.input.context:
        told = "\n".join(f"- {item.description}: {item.value}" for item in run.input.context)
        parts.append(f"Context given by the application:\n{told}")
    return "\n\n".join(part for part in parts if part)
