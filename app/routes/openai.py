"""`POST /v1/chat/completions` and `GET /v1/models`: the same runs, for OpenAI's SDKs.

Without `X-Session-Id` the body is the conversation, in a session that is forgotten with the run; with it,
the server's history counts, and only what is new in the body is taken.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from time import time

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from agent_core.agent import Agent
from agent_core.errors import InvalidRequest
from agent_core.events import AgentEnd, RunFailed
from agent_core.messages import new_id
from agent_core.names import SESSION_ID
from agent_core.run_input import RunInput
from app.auth import user_of
from app.errors import NotFound, run_error_answer
from app.limits import read_json_body
from app.runs.repeats import Claim
from app.runs.run import Attached, Manner, ServedRun
from app.runs.waiting import batches_of
from app.services import Services, services_of
from app.sse import RunStream
from converters.chain import Converter
from converters.openai.chat import ChatAnswer, ChatStream
from converters.openai.decode import ChatRequest, parse_chat

router = APIRouter(prefix="/v1")

HOLD = 3.0
"""Seconds that a stream's headers wait for its first piece, so that an early failure keeps its status."""

STARTED = int(time())


@router.post("/chat/completions", response_model=None)
async def chat_completions(request: Request) -> Response:
    """Run the agent that `model` names, streamed or not. Errors have OpenAI's shape and their real status."""
    services = services_of(request)
    body = await read_json_body(request, services.settings.body_limit)
    asked = parse_chat(body)
    agent = _agent(services, asked.agent)
    headers = request.headers
    claim = Claim.of(user_of(request), body, headers.get("idempotency-key"), headers.get("x-stainless-retry-count", ""))
    # Only a client that counts its retries, or brings a key, can come again; the others' runs are not kept.
    may_repeat = claim.key is not None or "x-stainless-retry-count" in headers
    served = services.repeats.find(claim) if may_repeat else None
    # Before the run starts: a converter of the user's that cannot be made must not leave a run unread.
    converters = [make() for make in services.converters]
    if served is None:
        served = _start(request, services, agent, asked, keep=may_repeat)
        if may_repeat:
            services.repeats.remember(claim, served)
    attached = served.attach()
    attached.patience = _client_timeout(request) if may_repeat else None
    try:
        if asked.stream:
            return await _stream(request, services, asked, attached, converters)
        return await _whole(request, asked, attached, converters)
    except BaseException:
        attached.leave()
        raise


@router.get("/models", response_model=None)
async def models(request: Request) -> Response:
    """The agents, as OpenAI lists its models."""
    data = [_describe(agent) for agent in services_of(request).roster.agents]
    return _json({"object": "list", "data": data})


@router.get("/models/{model:path}", response_model=None)
async def model(request: Request) -> Response:
    return _json(_describe(_agent(services_of(request), request.path_params["model"])))


def _agent(services: Services, name: str) -> Agent:
    try:
        return services.roster.get(name)
    except NotFound as refusal:
        message = f"There is no model {name!r} here: GET /v1/models lists those that are."
        raise NotFound(message, param="model") from refusal


def _start(request: Request, services: Services, agent: Agent, asked: ChatRequest, *, keep: bool) -> ServedRun:
    user_id = user_of(request)
    session_id = request.headers.get("x-session-id")
    given, ephemeral = asked.input, session_id is None
    if session_id is None:
        session_id = services.halves.take(user_id, asked.answered)
        if session_id is None:
            session_id = new_id("chat")
        else:
            given = _only_new(asked)
    elif SESSION_ID.fullmatch(session_id):
        given = _only_new(asked)
    else:
        raise InvalidRequest("1 to 128 of A-Z a-z 0-9 . _ : - are allowed.", "X-Session-Id")
    served = services.runs.start(
        agent,
        given,
        user_id=user_id,
        session_id=session_id,
        run_id=new_id("run"),
        ephemeral=ephemeral,
        manner=Manner(keep=keep),
    )
    if ephemeral:

        def keep_half(task: "asyncio.Task[AgentEnd | RunFailed]") -> None:
            end = task.result()
            if isinstance(end, AgentEnd) and end.status == "client_tools":
                services.halves.keep(user_id, session_id, served.waiting)

        served.when_done(keep_half)
    return served


def _only_new(asked: ChatRequest) -> RunInput:
    given = asked.input
    return RunInput(messages=asked.trailing, tools=given.tools, tool_choice=given.tool_choice, options=given.options)


async def _stream(
    request: Request, services: Services, asked: ChatRequest, attached: Attached, converters: Sequence[Converter]
) -> Response:
    wire = ChatStream(
        attached.run_id,
        attached.run.session_id,
        asked.agent,
        frozenset(spec.name for spec in asked.input.tools),
        asked.include_usage,
        asked.events,
        converters,
        attached.run.created,
    )
    held, failure = await _hold(request, wire, attached)
    if failure is not None:
        attached.leave()
        return run_error_answer(request.scope, failure)
    settings = services.settings
    return RunStream(
        attached,
        wire,
        ping=settings.ping_seconds,
        stalled=settings.stalled_seconds,
        held=held,
        heartbeat=wire.heartbeat,
    )


async def _hold(request: Request, wire: ChatStream, attached: Attached) -> tuple[bytes, RunFailed | None]:
    """What the stream begins with, once there is something to begin with or HOLD is over; and the run's
    failure, where that came first."""
    held = b""
    async with aclosing(batches_of(request, attached, HOLD)) as batches:
        async for events in batches:
            for event in events:
                if isinstance(event, RunFailed) and not wire.begun:
                    return b"", event
                held += wire.feed([event])
            if wire.begun or wire.finished:
                break
    return held, None


async def _whole(request: Request, asked: ChatRequest, attached: Attached, converters: Sequence[Converter]) -> Response:
    answer = ChatAnswer(
        attached.run_id,
        attached.run.session_id,
        asked.agent,
        frozenset(spec.name for spec in asked.input.tools),
        asked.events,
        converters,
        attached.run.created,
    )
    async with aclosing(batches_of(request, attached)) as batches:
        async for events in batches:
            answer.feed(events)
    answer.end()
    attached.leave()
    if answer.failure is not None:
        return run_error_answer(request.scope, answer.failure)
    return Response(answer.body(), media_type="application/json")


def _client_timeout(request: Request) -> float:
    """After how many seconds of silence the client gives up and asks again; 0 where it does not say so, as
    openai-node does not for a time-out that was set for the whole client."""
    told = request.headers.get("x-stainless-read-timeout") or request.headers.get("x-stainless-timeout") or ""
    try:
        seconds = float(told)
    except ValueError:
        return 0.0
    return seconds if 0 < seconds < 86_400 else 0.0


def _describe(agent: Agent) -> dict[str, object]:
    return {"id": agent.name, "object": "model", "created": STARTED, "owned_by": "ostinato"}


def _json(value: object) -> Response:
    return Response(orjson.dumps(value), media_type="application/json")
