"""How a run begins: what a lost run left behind is repaired, answers and input are taken in, and all is stored
in one step. When `begin` returns, the input is acknowledged."""

from dataclasses import replace

from pydantic_core import to_json

from agent_core.events import Custom, FinalOutput, MessagesSnapshot, Rewound, StateSnapshot
from agent_core.messages import Message
from agent_core.react.acting import tell
from agent_core.react.answers import Decided, decided, settled
from agent_core.react.guards import Trip
from agent_core.react.intake import Intake, take_in, title_of, waiting_for_client
from agent_core.react.run import Run
from agent_core.react.sameness import noted
from agent_core.sessions.entries import Entry, end_entry, message_entry, rewound_entry, run_entry, titled_entry
from agent_core.sessions.state import copy_of, same_json
from agent_core.sizes import size_of_json


async def begin(run: Run) -> bool:
    """Take the input in. True where that is all: it asks for an answer that is there already, and that
    nobody has seen (then it is told again).

    Calls that an earlier run left open and that are not to be run get their results here; the others are left to
    `act_again`. Raises InvalidRequest for an answer that cannot be used, before anything is stored.
    """
    history = run.history
    waiting = waiting_for_client(history.messages, run.tools, history.not_the_clients)
    answers = decided(run)
    intake = take_in(
        history,
        run.input.messages,
        waiting,
        whole=run.input.whole,
        server_tools=run.tools,
        seen=run.input.seen,
        answers=bool(run.input.answers),
        decided=bool(answers.decisions),
    )
    said = any(message.role != "tool" for message in intake.messages)
    results = [] if intake.rewind is not None else settled(run, waiting, answers, said=said)
    results, intake, trips = _watch(run, results, intake)
    if not (history.messages or intake.messages or history.lost):
        return _tell_nothing(run, answers)
    entries = [end_entry(run_id, "failed", "worker_lost") for run_id in history.lost]
    entries.append(run_entry(run.run_id, run.agent.name, run.input.client, opens=intake.opens))
    entries += answers.entries(run)
    entries += _entries(run, intake, results)
    title = "" if run.ephemeral or history.title else title_of(intake.messages)
    if title:
        history.title = title
        entries.append(titled_entry(run.run_id, title))
    entries += _state(run)
    await run.append(*entries)
    run.begun = True
    history.lost.clear()
    history.clients.add(run.input.client)
    history.decisions |= answers.decisions
    _take_over(run, intake, results)
    _tell(run, intake, results)
    for trip in trips:
        run.tripped(trip)
    _tell_unknown(run, answers)
    return intake.missed


def _watch(run: Run, results: list[Message], intake: Intake) -> tuple[list[Message], Intake, list[Trip]]:
    """Begin with the guards as the turn has left them, and show them what this run brings: the results of calls that
    were left open, or all that was done since the last user message of a conversation that is brought whole. What
    they say to the model stands in the results that it has not read yet. Returns both as they are to be stored, and
    what has tripped."""
    run.watch_over(() if intake.opens else run.history.turn.acted)
    brought = [*results, *intake.messages]
    said = [place for place, each in enumerate(brought) if each.role == "user"]
    read = max((place for place, each in enumerate(brought) if each.role == "assistant"), default=-1)
    trips: list[Trip] = []
    for place in range(said[-1] + 1 if said and intake.opens else 0, len(brought)):
        trip = run.watch.take(brought[place])
        if trip is not None and place > read:
            trips.append(trip)
            brought[place] = noted(brought[place], trip.told)
    run.offer_what_is_left()
    return brought[: len(results)], replace(intake, messages=brought[len(results) :]), trips


def _take_over(run: Run, intake: Intake, results: list[Message]) -> None:
    """Change the history as it was stored."""
    history = run.history
    history.turn.begin(run.run_id, intake.opens)
    if intake.rewind is not None:
        history.rewind(intake.rewind)
        history.turn.rewound(run.run_id)
    for message in results:
        history.add(message, run_id=run.run_id)
    for message in intake.messages:
        history.add(message, intake.origin, run_id=run.run_id)


def _tell_nothing(run: Run, answers: Decided) -> bool:
    """Nothing was said that counts, and there is nothing to go on with: no session begins with it."""
    run.announce()
    _tell_unknown(run, answers)
    return True


def _tell_unknown(run: Run, answers: Decided) -> None:
    for interrupt_id in answers.unknown:
        run.emit(Custom(run_id=run.run_id, name="unknown_interrupt", value={"interruptId": interrupt_id}))


def _entries(run: Run, intake: Intake, lost: list[Message]) -> list[Entry]:
    ids = run.run_id, run.agent.name
    rewound = [] if intake.rewind is None else [rewound_entry(*ids, intake.rewind)]
    results = [message_entry(*ids, each) for each in lost]
    return rewound + results + [message_entry(*ids, each, intake.origin) for each in intake.messages]


def _state(run: Run) -> list[Entry]:
    """The client's state becomes the session's where it brings one. An empty one is what a fresh client
    sends and takes nothing away; the client is told what there is."""
    given = run.input.state
    if given is None or given == {}:
        return []
    run.told_state = True  # it knows its own
    change = run.change_state(copy_of(given))
    run.told_state = False  # the first change in a run goes out whole
    return [] if change is None else [change[0]]


def _tell(run: Run, intake: Intake, lost: list[Message]) -> None:
    run.announce()
    history = run.history
    if history.state is not None and history.state != {} and not same_json(history.state, run.input.state):
        run.told_state = True
        size = size_of_json(to_json(history.state))
        run.emit(StateSnapshot(run_id=run.run_id, value=copy_of(history.state), size=size))
    if intake.rewind is not None:
        run.emit(Rewound(run_id=run.run_id, after=intake.rewind))
    unasked = [message for message in intake.messages if message.role == "tool" and message.status == "not_run"]
    for result in (*lost, *unasked):  # the client knows its own answers; these are ours
        tell(run, result)
    if intake.missed:
        clients = frozenset(history.clients)
        run.emit(MessagesSnapshot(run_id=run.run_id, messages=tuple(history.messages), clients=clients))
        run.answer = next((each for each in reversed(history.messages) if each.role == "assistant"), None)
        if run.answer is not None:
            run.emit(FinalOutput(run_id=run.run_id, reply_id=run.answer.id, text=run.answer.text))
