"""`POST /v1/chat/completions` and `GET /v1/models`: the same runs, for OpenAI's SDKs.

Without `X-Session-Id` the body is the conversation, in a session that is forgotten with the run; with it,
the server's history counts, and what the body means beside it is found by its texts.
"""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from time import time

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from agent_core.agent import Agent
from agent_core.errors import InvalidRequest
from agent_core.events import AgentEnd, RunFailed
from agent_core.messages import new_id
from agent_core.names import SESSION_ID
from agent_core.react.run import Run
from agent_core.sessions.entries import SessionKey
from app.auth import user_of
from app.errors import NotFound, run_error_answer
from app.limits import PARSING, read_json_body
from app.routes.leaving import on_disconnect_of
from app.runs.earlier import Given, find_earlier
from app.runs.halves import Half, half_of
from app.runs.repeats import Claim
from app.runs.run import Attached, Manner, OnDisconnect, ServedRun
from app.runs.waiting import batches_of
from app.services import Services, services_of
from app.sse import HEADERS, RunStream
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
    asked = await services.engine.aside(PARSING * len(body), parse_chat, body)
    agent = _agent(services, asked.agent)
    headers = request.headers
    session_id = _session_of(request)
    claim = Claim.of(
        user_of(request), body, headers.get("idempotency-key"), headers.get("x-stainless-retry-count"), session_id
    )
    on_disconnect = on_disconnect_of(request, agent, services.settings)
    served, again = services.repeats.find(claim), False
    # Before the run starts: a converter of the user's that cannot be made must not leave a run unread.
    converters = [make() for make in services.converters]
    if served is None and session_id is not None and claim.is_second:
        key = SessionKey(user_id=claim.user_id, session_id=session_id)
        earlier = await find_earlier(services.engine, key, agent, claim)
        if earlier is not None and earlier.given is not None:
            return _given(asked, session_id, earlier.given, converters)
        again = earlier is not None
        served = services.repeats.find(claim)  # the same request may have begun in the meantime
    if served is None:
        served = _begin(services, agent, asked, claim, on_disconnect, again=again)
    attached = served.attach()
    attached.patience = _client_timeout(request) if claim.may_repeat else None
    try:
        if asked.stream:
            return await _stream(request, services, asked, attached, converters)
        return await _whole(request, asked, attached, converters)
    except BaseException:
        attached.leave()
        raise


@router.api_route("/models", methods=["GET", "HEAD"], response_model=None)
async def models(request: Request) -> Response:
    """The agents, as OpenAI lists its models."""
    data = [_describe(agent) for agent in services_of(request).roster.agents]
    return _json({"object": "list", "data": data})


@router.api_route("/models/{model:path}", methods=["GET", "HEAD"], response_model=None)
async def model(request: Request) -> Response:
    return _json(_describe(_agent(services_of(request), request.path_params["model"])))


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


def _begin(
    services: Services, agent: Agent, asked: ChatRequest, claim: Claim, on_disconnect: OnDisconnect, *, again: bool
) -> ServedRun:
    """Start the run, which goes on without a client only where it has a session to leave its answer in. `again` says
    that the same request came before and got no answer."""
    # Only a client that counts its retries, or brings a key, can come again; the others' runs are not kept.
    manner = Manner(keep=claim.may_repeat)
    if claim.session_id is None:
        served = _start_unnamed(services, agent, asked, claim.user_id, manner)
    else:
        if on_disconnect == "continue":
            manner = Manner(keep=True, timed=True, on_disconnect="continue")
        # The same request, if it comes again, finds its messages by their ids.
        mark = claim.marks[1]
        messages = asked.under(new_id(mark))
        served = services.runs.start(
            agent,
            replace(asked.input, messages=messages, whole=False, own_ids=False, mark=mark, again=again),
            user_id=claim.user_id,
            session_id=claim.session_id,
            run_id=new_id("run"),
            manner=manner,
        )
    if claim.may_repeat:
        services.repeats.remember(claim, served)
    return served


def _start_unnamed(services: Services, agent: Agent, asked: ChatRequest, user_id: str, manner: Manner) -> ServedRun:
    """A run on the body, or on what the client does not have of its conversation and what is new in the body."""
    given, session_id = asked.input, new_id("chat")
    half = services.halves.find(user_id, asked.answered)
    if half is not None:
        given = replace(given, messages=half.messages + asked.news(new_id("in")), state=half.state)
    served = services.runs.start(
        agent, given, user_id=user_id, session_id=session_id, run_id=new_id("run"), ephemeral=True, manner=manner
    )
    [run] = services.engine.under_way(SessionKey(user_id=user_id, session_id=session_id))
    served.when_done(lambda task: _keep_half(services, run, half, task.result()))
    return served


def _keep_half(services: Services, run: Run, half: Half | None, end: AgentEnd | RunFailed) -> None:
    """What is left of an unnamed conversation when a run of it, which began with `half`, has ended."""
    if not isinstance(end, AgentEnd) or end.status == "cancelled":
        return  # the same request may come again, and needs the half again
    if half is not None:
        services.halves.drop(run.key.user_id, half)
    if end.status == "client_tools":
        services.halves.keep(run.key.user_id, run.key.session_id, half_of(run))


def _given(asked: ChatRequest, session_id: str, given: Given, converters: Sequence[Converter]) -> Response:
    """An answer that was given before, from the store: in few pieces, and without what it cost."""
    names = frozenset(spec.name for spec in asked.input.tools)
    if asked.stream:
        wire = ChatStream(
            given.run_id, session_id, asked.agent, names, asked.include_usage, asked.events, converters, given.created
        )
        return Response(wire.feed(given.events), media_type="text/event-stream", headers=HEADERS)
    answer = ChatAnswer(given.run_id, session_id, asked.agent, names, asked.events, converters, given.created)
    answer.feed(given.events)
    return Response(answer.body(), media_type="application/json")


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
        rejoin=wire.rejoin,
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
