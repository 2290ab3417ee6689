"""`/sessions/{session_id}`: what waits in a session for a person or an operation, and its answers, without AG-UI.

A session that is somebody else's, a session that nobody has and an id that no session can have are answered alike: 404.
So are an interrupt and an operation that the session does not know. Then nothing was done.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent_core.agent import Agent
from agent_core.clock import iso
from agent_core.errors import InvalidRequest
from agent_core.events import AgentEnd, Custom, FinalOutput, RequireExternalExecution, RunFailed
from agent_core.interrupts import ANSWER_IGNORED, Answer, Interrupt
from agent_core.messages import new_id
from agent_core.names import RUN_ID, SessionKey
from agent_core.run_input import RunInput
from app.agents import Roster
from app.errors import NotFound, run_error_answer
from app.routes.common import READ, found, json, read
from app.runs.reattach import reattach
from app.runs.respond import batches_of, events_of, failed_at_once, on_disconnect_of, streamed
from app.runs.run import Attached, Manner, OnDisconnect, ServedRun
from app.services import services_of
from converters.agui.answers import answers_of
from converters.agui.dialect import Dialect
from converters.agui.interrupts import interrupt_of, interrupts_of
from converters.agui.stream import AguiStream
from converters.fields import flag_at, text_at
from converters.parsing import read_object

router = APIRouter(prefix="/sessions")

CLIENT = "agui"


@router.api_route("/{session_id}/interrupts", methods=READ, response_model=None)
async def interrupts(request: Request) -> Response:
    """`?agent=`: what waits for an answer, of this agent or of all, in the shape of a run's outcome."""
    key, _ = await found(request)
    named = request.query_params.get("agent")
    roster = services_of(request).roster
    agents = roster.agents if named is None else [roster.get(named)]
    waiting = await _pending(request, key, agents)
    return json(
        {
            "interrupts": [
                interrupt_of(each) | {"createdAt": iso(each.created_at), "agent": agent.name}
                for agent, pending in waiting
                for each in pending
            ]
        }
    )


async def _pending(
    request: Request, key: SessionKey, agents: Sequence[Agent]
) -> list[tuple[Agent, tuple[Interrupt, ...]]]:
    pending = await services_of(request).engine.sessions.pending(key, [agent.name for agent in agents])
    return [(agent, pending[agent.name]) for agent in agents if agent.name in pending]


@router.post("/{session_id}/resume", response_model=None)
async def resume(request: Request) -> Response:
    """`{"answers": […], "agent"?, "runId"?, "stream"?}`: a run that goes on with these answers.

    It is streamed as AG-UI, or told when it has ended.
    """
    key, _ = await found(request)
    services = services_of(request)
    members = await read(request, read_object)
    answers = answers_of(members, "answers")
    if not answers:
        raise InvalidRequest("answers: at least one is needed.", "answers")
    run_id = text_at(members, "runId")
    if run_id is not None and not RUN_ID.fullmatch(run_id):
        raise InvalidRequest("runId: 1 to 64 of A-Z a-z 0-9 . _ : - are allowed.", "runId")
    stream = flag_at(members, "stream")
    asked = await services.engine.sessions.interrupts(key)
    agent = _addressee(asked, answers, text_at(members, "agent"), services.roster)
    begun = _begin(request, key, agent, answers, run_id or new_id("run"), on_disconnect_of(request, agent))
    if stream or (stream is None and _wants_stream(request)):
        return await streamed(request, *begun)
    return await _whole(request, begun[0])


@router.post("/{session_id}/operations/{operation_id:path}", response_model=None)
async def bring_result(request: Request) -> Response:
    """`{"result": …}` or `{"error": …}`: the result of an operation that a call waits for; the run goes on with it.

    202 as soon as it is stored, or a stream if the client accepts one.
    """
    key, _ = await found(request)
    services = services_of(request)
    operation_id = request.path_params["operation_id"]
    payload = _outcome(await read(request, read_object))
    for agent, pending in await _pending(request, key, services.roster.agents):
        answers = [
            Answer(interrupt_id=each.id, payload=payload, param=next(iter(payload)))
            for each in pending
            if each.kind == "waiting" and each.operation_id == operation_id
        ]
        if answers:
            # The client of a result leaves at once, and that is no stop.
            begun = _begin(request, key, agent, answers, new_id("run"), "continue")
            return await streamed(request, *begun) if _wants_stream(request) else await _taken(request, begun[0])
    taker = await services.engine.sessions.taker(key, operation_id)
    if taker is None:
        raise NotFound("Nothing in this session waits for this operation.")
    # The same result again: the answer is the same, and nothing is done.
    again = await reattach(request, key, taker, "after") if _wants_stream(request) else None
    return json({"runId": taker}, 202) if again is None else again


def _addressee(owners: Mapping[str, str], answers: Iterable[Answer], named: str | None, roster: Roster) -> Agent:
    """The agent whose interrupts these are; `owners` has the agent of each in the session.

    Raises NotFound for an interrupt that the session, or the named agent, does not have, and InvalidRequest if they
    belong to several agents.
    """
    if named is not None:
        roster.get(named)
    first = named
    for answer in answers:
        owner = owners.get(answer.interrupt_id)
        path = f"{answer.param}.interruptId"
        if owner is None or (named is not None and owner != named):
            raise NotFound("There is no such interrupt in this session.", param=path)
        if first is not None and owner != first:
            raise InvalidRequest(f"{path}: this is another agent's than the first; answer them one by one.", path)
        first = owner
    return roster.get(first)


def _begin(
    request: Request,
    key: SessionKey,
    agent: Agent,
    answers: Sequence[Answer],
    run_id: str,
    on_disconnect: OnDisconnect,
) -> tuple[ServedRun, AguiStream]:
    """Start a run with the answers. Raises what Runs.start does."""
    services = services_of(request)
    wire = AguiStream(key.session_id, run_id, Dialect.V1, [make() for make in services.converters])
    given = RunInput(answers=tuple(answers), client=CLIENT)
    served = services.runs.start(
        agent,
        given,
        user_id=key.user_id,
        session_id=key.session_id,
        run_id=run_id,
        manner=Manner(keep=True, timed=True, on_disconnect=on_disconnect),
    )
    return served, wire


async def _whole(request: Request, served: ServedRun) -> Response:
    """How the run ended, when it has."""
    attached = served.attach()
    answer: dict[str, str] | None = None
    calls: tuple[str, ...] = ()
    ignored: list[str] = []
    try:
        end: AgentEnd | RunFailed = RunFailed(run_id=served.run_id, code="internal", message="")
        async with aclosing(batches_of(request, attached)) as batches:
            async for events in batches:
                for event in events:
                    if isinstance(event, FinalOutput):
                        answer = {"id": event.reply_id, "role": "assistant", "content": event.text}
                    elif isinstance(event, RequireExternalExecution):
                        calls = event.call_ids
                    elif isinstance(event, Custom) and event.name == ANSWER_IGNORED:
                        ignored.append(event.value["interruptId"])
                    elif isinstance(event, AgentEnd | RunFailed):
                        end = event
    finally:
        attached.leave()
    if isinstance(end, RunFailed):
        return run_error_answer(request.scope, end)
    told = {
        "runId": served.run_id,
        "status": end.status,
        "message": answer,
        "interrupts": interrupts_of(end.interrupts),
    }
    return json(told | ({"waiting": calls} if calls else {}) | ({"ignored": ignored} if ignored else {}))


async def _taken(request: Request, served: ServedRun) -> Response:
    """202 when the result is stored: a run says nothing but its start before that."""
    attached: Attached = served.attach()
    try:
        failure = failed_at_once(await events_of(request, attached, 2))
    finally:
        attached.leave()
    return json({"runId": served.run_id}, 202) if failure is None else run_error_answer(request.scope, failure)


def _outcome(members: Mapping[str, Any]) -> dict[str, Any]:
    """The operation's result, which may be null, or its error, exactly one of them. Raises InvalidRequest."""
    error = text_at(members, "error")
    if ("result" in members) == (error is not None):
        raise InvalidRequest("result: either `result` or `error` is needed.", "result")
    return {"result": members["result"]} if error is None else {"error": error}


def _wants_stream(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "")
