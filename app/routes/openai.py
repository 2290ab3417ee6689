"""`POST /v1/chat/completions` and `GET /v1/models`: the same runs, for OpenAI's SDKs.

Without `X-Session-Id` the body is the conversation, in a session that is forgotten with the run. With it, the server's
history counts, and the body's texts say where it goes on.
"""

from collections.abc import Sequence
from contextlib import aclosing
from time import time

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent_core.agent import Agent
from agent_core.errors import InvalidRequest
from agent_core.events import RunFailed
from agent_core.names import SESSION_ID
from agent_core.stored import StoredAnswer
from app.auth import user_of
from app.errors import NotFound, run_error_answer
from app.limits import PARSING, read_json_body
from app.retries.chat_runs import find_or_begin
from app.retries.claim import Claim
from app.routes.common import READ, json
from app.runs.respond import batches_of, on_disconnect_of, stream_response
from app.runs.run import Attached
from app.services import Services, services_of
from app.sse import HEADERS
from converters.chain import Converter
from converters.openai.chat import ChatAnswer, ChatStream
from converters.openai.decode import ChatRequest, parse_chat

router = APIRouter(prefix="/v1")

HOLD = 3.0
"""Seconds that a stream's headers wait for its first bytes, so that an early failure keeps its status."""

STARTED = int(time())


@router.post("/chat/completions", response_model=None)
async def chat_completions(request: Request) -> Response:
    """Run the agent that `model` names, streamed or not. Errors have OpenAI's shape and their real status."""
    services = services_of(request)
    body = await read_json_body(request, services.settings.body_limit)
    asked = await services.engine.aside(PARSING * len(body), parse_chat, body)
    agent = _agent(services, asked.agent)
    headers = request.headers
    session_id = _session_of(request)
    claim = Claim.of(
        user_of(request), body, headers.get("idempotency-key"), headers.get("x-stainless-retry-count"), session_id
    )
    on_disconnect = on_disconnect_of(request, agent)
    # Before the run starts: a user's converter that cannot be made must not leave a run unread.
    converters = [make() for make in services.converters]
    served = await find_or_begin(request, services, agent, asked, claim, on_disconnect)
    if isinstance(served, StoredAnswer):
        return _given(request, asked, served, converters)
    attached = served.attach()
    attached.patience = _client_timeout(request) if claim.may_repeat else None
    try:
        if asked.stream:
            return await _stream(request, asked, attached, converters)
        return await _whole(request, asked, attached, converters)
    except BaseException:
        attached.leave()
        raise


@router.api_route("/models", methods=READ, response_model=None)
async def models(request: Request) -> Response:
    """The agents, as OpenAI lists its models."""
    data = [_describe(agent) for agent in services_of(request).roster.agents]
    return json({"object": "list", "data": data})


@router.api_route("/models/{model:path}", methods=READ, response_model=None)
async def model(request: Request) -> Response:
    return json(_describe(_agent(services_of(request), request.path_params["model"])))


def _agent(services: Services, name: str) -> Agent:
    try:
        return services.roster.get(name)
    except NotFound as refusal:
        message = f"There is no model {name!r} here: GET /v1/models lists those that are."
        raise NotFound(message, param="model") from refusal


def _session_of(request: Request) -> str | None:
    """The session that the request names. Raises InvalidRequest."""
    session_id = request.headers.get("x-session-id")
    if session_id is not None and not SESSION_ID.fullmatch(session_id):
        raise InvalidRequest("1 to 128 of A-Z a-z 0-9 . _ : - are allowed.", "X-Session-Id")
    return session_id


def _given(request: Request, asked: ChatRequest, given: StoredAnswer, converters: Sequence[Converter]) -> Response:
    """An answer, or a failure, that was given before, from the store."""
    names = frozenset(spec.name for spec in asked.input.tools)
    about = (given.run_id, given.session_id, asked.agent, names)
    failure = given.events[-1] if isinstance(given.events[-1], RunFailed) else None
    if asked.stream:
        wire = ChatStream(*about, asked.include_usage, asked.events, converters, given.created)
        data = wire.feed(given.events[:-1] if failure else given.events)
        if failure is None or wire.begun:
            return Response(data + wire.feed(given.events[-1:]), media_type="text/event-stream", headers=HEADERS)
    if failure is not None:
        return run_error_answer(request.scope, failure)
    answer = ChatAnswer(*about, asked.events, converters, given.created)
    answer.feed(given.events)
    return Response(answer.body(), media_type="application/json")


async def _stream(
    request: Request, asked: ChatRequest, attached: Attached, converters: Sequence[Converter]
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
    return stream_response(request, attached, wire, held, wire.heartbeat)


async def _hold(request: Request, wire: ChatStream, attached: Attached) -> tuple[bytes, RunFailed | None]:
    """The first bytes of the stream, or the run's failure if that came first; no bytes if HOLD is over."""
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
    answer.finish()
    attached.leave()
    if answer.failure is not None:
        return run_error_answer(request.scope, answer.failure)
    return Response(answer.body(), media_type="application/json")


def _client_timeout(request: Request) -> float:
    """After how many seconds of silence the client asks again; 0 if it does not say.

    openai-node does not say it if the time-out was set for the whole client.
    """
    told = request.headers.get("x-stainless-read-timeout") or request.headers.get("x-stainless-timeout") or ""
    try:
        seconds = float(told)
    except ValueError:
        return 0.0
    return seconds if 0 < seconds < 86_400 else 0.0


def _describe(agent: Agent) -> dict[str, object]:
    return {"id": agent.name, "object": "model", "created": STARTED, "owned_by": "ostinato"}
