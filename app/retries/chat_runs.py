"""The run that answers a chat completion: the same request's from before, or a new one."""

import asyncio
from dataclasses import replace

from starlette.requests import Request

from agent_core.agent import Agent
from agent_core.messages import new_id
from agent_core.names import SessionKey
from agent_core.stored import StoredAnswer
from app.retries.claim import Claim, OtherBody
from app.retries.claimed_run import ClaimedRun
from app.retries.hidden_turns import HiddenTurn, name_of_talk, names_of_calls
from app.retries.unnamed import Unnamed
from app.runs.run import Manner, OnDisconnect, ServedRun
from app.services import Services
from converters.openai.decode import ChatRequest


async def find_or_begin(
    request: Request,
    services: Services,
    agent: Agent,
    asked: ChatRequest,
    claim: Claim,
    on_disconnect: OnDisconnect,
) -> ServedRun | StoredAnswer:
    """The earlier run of the same request, or its stored answer, or a new run that nobody reads yet.

    Raises OtherBody, SessionBusy, and what Runs.start and Claims.enter raise.
    """
    served = await _find(services, claim)
    if served is not None:
        return served
    if claim.session_id is None:
        return await _unnamed(request, services, agent, asked, claim)
    again = False
    if claim.is_second:
        key = SessionKey(user_id=claim.user_id, session_id=claim.session_id)
        key_claim, stored_claim = claim.stored_as
        earlier = await services.engine.sessions.earlier(
            key, agent.name, key_claim=key_claim, claim=stored_claim, seconds=claim.seconds
        )
        if earlier is not None and not earlier.same:
            raise OtherBody
        if earlier is not None and earlier.answer is not None:
            return earlier.answer
        again = earlier is not None
        served = await _find(services, claim)  # the same request may have begun in the meantime
    return served or _named(services, agent, asked, claim, claim.session_id, on_disconnect, again=again)


async def _find(services: Services, claim: Claim) -> ServedRun | None:
    """The run of the same request that this process knows, unless its session was deleted.

    If the run is being stopped, wait until it is over. It has no answer for a new reader, and only then is known what
    it has done.
    """
    served = services.known_runs.find(claim)
    while served is not None and served.stopping:
        await asyncio.wait({served.task})
        served = services.known_runs.find(claim)
    return served if served is not None and await services.runs.stands(served) else None


def _named(
    services: Services,
    agent: Agent,
    asked: ChatRequest,
    claim: Claim,
    session_id: str,
    on_disconnect: OnDisconnect,
    *,
    again: bool,
) -> ServedRun:
    """Start a run of a named session. It may go on without its client, since its answer stays in the session. `again`
    says that the same request came before and got no answer."""
    # Only a client that counts its retries, or brings a key, can come again; the others' runs are not kept.
    manner = Manner(keep=claim.may_repeat)
    if on_disconnect == "continue":
        manner = Manner(keep=True, timed=True, on_disconnect="continue")
    messages = asked.under(new_id("in"))
    served = services.runs.start(
        agent,
        # The same request, if it comes again, finds the run by its claim.
        replace(asked.input, messages=messages, whole=False, own_ids=False, claim=claim.stored_as[1], again=again),
        user_id=claim.user_id,
        session_id=session_id,
        run_id=new_id("run"),
        manner=manner,
    )
    if claim.may_repeat:
        services.known_runs.remember(claim, served)
    return served


async def _unnamed(
    request: Request, services: Services, agent: Agent, asked: ChatRequest, claim: Claim
) -> ServedRun | StoredAnswer:
    hidden = await _hidden_turn_of(services, agent, asked, claim.user_id)
    if not claim.may_repeat:
        return _begin(services, agent, asked, claim, hidden, None)
    run_id = new_id("run")
    if not claim.is_second:
        return _begin(services, agent, asked, claim, hidden, services.claims.begin(claim, run_id))
    async with services.claims.one_at_a_time(claim):
        served = await _find(services, claim)  # it may have begun in the meantime
        if served is not None:
            return served
        found = await services.claims.enter(claim, run_id, request.is_disconnected)
        if isinstance(found, StoredAnswer):
            return found
        try:
            return _begin(services, agent, asked, claim, hidden, found)
        except BaseException:
            await found.give_up()
            raise


def _begin(
    services: Services,
    agent: Agent,
    asked: ChatRequest,
    claim: Claim,
    hidden: HiddenTurn | None,
    claimed: ClaimedRun | None,
) -> ServedRun:
    """Start a run of an unnamed conversation. It begins with one of these:

    - the work that an earlier run of the same request has left
    - the hidden turn, and the new messages of the body
    - the body
    """
    given = asked.input
    if claimed is not None and claimed.left is not None:
        given = replace(given, messages=claimed.left.messages, state=claimed.left.state)
    elif hidden is not None:
        given = replace(given, messages=hidden.messages + asked.news(new_id("in")), state=hidden.state)
    served = services.runs.start(
        agent,
        given,
        user_id=claim.user_id,
        session_id=new_id("chat"),
        run_id=new_id("run") if claimed is None else claimed.run_id,
        ephemeral=True,
        outside=Unnamed(
            hidden_turns=services.hidden_turns,
            asked=asked,
            found=hidden,
            claimed=claimed,
            converters=lambda: [make() for make in services.converters],
        ),
        manner=Manner(keep=claim.may_repeat),
    )
    if claimed is not None:
        served.when_left(claimed.client_left)
        services.known_runs.remember(claim, served)
    return served


async def _hidden_turn_of(services: Services, agent: Agent, asked: ChatRequest, user_id: str) -> HiddenTurn | None:
    """The hidden turn of the conversation, or None. The store is asked only if there may be one: after an answer to a
    call, or, for an agent with tools, after an answer of the agent."""
    if asked.answered:
        return await services.hidden_turns.find(user_id, names_of_calls(asked.answered))
    shown = asked.input.messages[: len(asked.input.messages) - len(asked.trailing)]
    if not (agent.tools and shown and asked.trailing):
        return None
    return await services.hidden_turns.find(user_id, [name_of_talk(agent.name, shown)])
