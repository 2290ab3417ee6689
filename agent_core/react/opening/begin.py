"""How a run begins: repair what a lost run left behind, take answers and input in, and store all of it in one step.

When `begin` returns, the input is acknowledged.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from agent_core.events import RunStatus
from agent_core.guards.digests import noted
from agent_core.guards.watch import Trip
from agent_core.messages import Message, ToolCall, new_id
from agent_core.react.changes import StateChange, change_behind, change_to
from agent_core.react.lane import Lane
from agent_core.react.opening.adopt import take_over, take_whole, title_of
from agent_core.react.opening.align import Placing
from agent_core.react.opening.align import place as place_messages
from agent_core.react.opening.client_calls import answered, waiting_for_client
from agent_core.react.opening.decisions import Decided, decided, settled
from agent_core.react.opening.report import tell_opening, tell_what_there_is
from agent_core.react.opening.request import Circumstances, Intake, read_request
from agent_core.sessions.entries import Addition, addition_of, now_ms, weight_of
from agent_core.sessions.history import state_since
from agent_core.sessions.kinds import EndBody, MessageBody, RewoundBody, RunBody, TitledBody
from agent_core.sessions.standing import Origin
from agent_core.sessions.state import copy_of
from agent_core.sessions.tree import Node, open_calls_at

READING = 100
"""Work (`Aside`) of looking at one message of the history or the request."""


async def begin(lane: Lane) -> RunStatus | None:
    """Take the input in. If it asks only for what there is, tell that, store nothing, and return how the run ends.

    Calls that an earlier run left open, and that will not run, get their results here; the others are left to
    `act_again`. Raises InvalidRequest for an answer that cannot be used, before anything is stored.
    """
    placing = await _placing(lane)
    answers = decided(lane, lane.history.pending_of(open_calls_at(placing.end)))
    intake = await _intake(lane, placing, answers)
    if intake.told:
        return tell_what_there_is(lane, intake, answers)
    calls = open_calls_at(placing.end if intake.rewind is None else lane.history.tree.find(intake.rewind))
    results = [
        *settled(lane, calls, answers, said=intake.says),
        *answered(_clients(lane, calls), intake.answers, lane.history.message_ids, said=intake.says),
    ]
    acted = () if intake.opens else lane.history.turn.acted
    if acted:
        await lane.scope.aside(READING * len(acted), lane.watch_over, acted)
    new = await lane.scope.aside(READING * len(intake.messages), _with_ids_of_their_own, lane, intake)
    results, said, trips = _watch(lane, results, new, opens=intake.opens)
    had_state = lane.history.state not in (None, {})
    ours = [each for each in results if each.tool_call_id not in intake.answers]
    lane.untold.update(each.id for each in ours)
    await _store(lane, intake, answers, results, said)
    tell_opening(lane, intake, ours, answers, had_state=had_state)
    for trip in trips:
        lane.tripped(trip)
    return None


def _clients(lane: Lane, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    return waiting_for_client(calls, lane.tools, lane.history.not_the_clients)


async def _placing(lane: Lane) -> Placing:
    if lane.history.tree.empty:
        return Placing(end=None)  # there is nothing to place anything in
    return await lane.scope.aside(
        READING * (len(lane.history.message_ids) + len(lane.input.messages)),
        place_messages,
        lane.history,
        lane.input.messages,
        lambda calls: _clients(lane, calls),
        own_ids=lane.input.own_ids,
        question=_question_again(lane),
    )


def _question_again(lane: Lane) -> Node | None:
    """The last question, if the request is known to be the one that it came with."""
    claim, last = lane.input.claim, lane.history.run
    asked = lane.history.question if claim else None
    if asked is None or last is None:
        return None
    brought = lane.history.runs.get(asked.run_id)
    if brought is None or brought.claim != claim:
        return None
    under_way = last.ended_at > lane.scope.arrived or (lane.scope.waited and last.ended_at == lane.scope.arrived)
    unread = (last.unread or not last.status) and not lane.scope.seen(next(reversed(lane.history.runs)))
    return asked if lane.input.again or under_way or unread else None


async def _intake(lane: Lane, placing: Placing, answers: Decided) -> Intake:
    history, given = lane.history, lane.input
    if history.tree.empty and given.whole:
        # A message may have several calls, and each gets a result.
        return await lane.scope.aside(3 * READING * len(given.messages), take_whole, given.messages, lane.tools)
    if history.tree.empty:
        return take_over(given.messages, history.others)
    known = [each for each in given.answers if each.interrupt_id not in answers.unknown]
    around = Circumstances(
        run_id=lane.run_id,
        arrived=lane.scope.arrived,
        waited=lane.scope.waited,
        seen=lane.scope.seen,
        decides=bool(answers.decisions),
        decided=bool(known),
        again=_question_again(lane) is not None,
        empty=not (given.messages or given.answers),
        places=given.places,
    )
    return read_request(history, placing, around)


def _with_ids_of_their_own(lane: Lane, intake: Intake) -> list[Message]:
    """The new messages, each under an id that no shown message has: the client's own if it is free."""
    gone = intake.rewind is not None
    taken: set[str] = set()
    said: list[Message] = []
    for message in intake.messages:
        node = lane.history.tree.find(message.id)
        theirs = node is None or (gone and node.message.role == message.role == "user")
        fresh = message if theirs and message.id not in taken else replace(message, id=new_id("msg"))
        taken.add(fresh.id)
        said.append(fresh)
    return said


def _watch(
    lane: Lane, results: list[Message], said: list[Message], *, opens: bool
) -> tuple[list[Message], list[Message], list[Trip]]:
    """Show the guards this run's input: results of calls that were left open; or, if a whole conversation was brought,
    its messages behind the last user message. Their notes are added to results that the model has not read yet.

    Returns both lists as they must be stored, and the trips.
    """
    brought = [*results, *said]
    asked = [place for place, each in enumerate(brought) if each.role == "user"]
    read = max((place for place, each in enumerate(brought) if each.role == "assistant"), default=-1)
    trips: list[Trip] = []
    for place in range(asked[-1] if asked and opens else 0, len(brought)):
        trip = lane.watch.take(brought[place])
        if trip is not None and place > read:
            trips.append(trip)
            brought[place] = noted(brought[place], trip.told)
    lane.offer_what_is_left()
    return brought[: len(results)], brought[len(results) :], trips


async def _store(lane: Lane, intake: Intake, answers: Decided, results: list[Message], said: list[Message]) -> None:
    history, agent, given = lane.history, lane.agent.name, lane.input
    lost = EndBody(status="failed", code="worker_lost", at=now_ms(), unread=True)
    begun = RunBody(agent=agent, client=given.client, at=now_ms(), opens=intake.opens, claim=given.claim)
    entries = [*(addition_of(run_id, lost) for run_id in history.lost), lane.entry(begun), *answers.entries(lane)]
    back = None
    if intake.rewind is not None:
        entries.append(lane.entry(RewoundBody(agent=agent, after=intake.rewind)))
        stood = await _stood(lane, intake.rewind)
        back = None if stood is None else change_to(stood[0], history)
    # In front of the messages: a later rewind to these finds the state as it stood then.
    entries += [] if back is None else [lane.entry(back.body)]
    entries += lane.entries_of(*results)
    entries += await lane.scope.aside(READING * len(said), _entries_of, lane, said, intake.origin)
    change = change_behind(back, _state(lane, back), history)
    last = [] if change is None else [lane.entry(change.body)]
    title = "" if lane.scope.ephemeral else title_of(said)

    def compose() -> list[Addition]:
        # A person may have named the session while this waited for its turn.
        titled = [lane.entry(TitledBody(title=title))] if title and not history.title else []
        return [*entries, *titled, *last]

    def stored() -> None:
        for each in (back, change):
            if each is not None:
                history.session.changes.know(each.value)

    await lane.write(compose, stored)
    lane.scope.begun = True


def _entries_of(lane: Lane, said: Sequence[Message], origin: Origin) -> list[Addition]:
    return [lane.entry(MessageBody(agent=lane.agent.name, message=each, origin=origin)) for each in said]


def _state(lane: Lane, back: StateChange | None) -> Any:
    """The client's state if it brings one, else the state as it stood at the place where the history goes on. An empty
    state counts as none, because a fresh client sends one and means nothing by it."""
    given = lane.input.state
    if given is not None and given != {}:
        return copy_of(given)
    return lane.history.state if back is None else back.value


async def _stood(lane: Lane, after: str) -> tuple[Any] | None:
    since = lane.history.tree.since(after)
    if not since or lane.history.session.changes.last < since:
        return None
    entries = await lane.scope.leases.load(lane.scope.key)
    return await lane.scope.aside(weight_of(entries), state_since, entries, lane.agent.name, since)
