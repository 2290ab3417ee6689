"""What the client is told before the model is asked: what its input has changed; if nothing, what there is."""

from collections.abc import Iterable

from pydantic_core import to_json

from agent_core.events import Custom, FinalOutput, MessagesSnapshot, Rewound, RunStatus, StateSnapshot, latest
from agent_core.interrupts import ANSWER_IGNORED
from agent_core.messages import Message
from agent_core.react.acting import left_waiting
from agent_core.react.calls.result import tell
from agent_core.react.lane import Lane
from agent_core.react.opening.decisions import Decided
from agent_core.react.opening.request import Intake
from agent_core.sessions.state import copy_of, same_json
from agent_core.sizes import size_of_json


def tell_opening(lane: Lane, intake: Intake, results: Iterable[Message], answers: Decided, *, had_state: bool) -> None:
    """Tell what the input has changed. `results` are those that the server made; the client knows its own answers.
    `had_state`: the session had a state, which a rewind may have taken away."""
    lane.announce()
    _tell_state(lane, even_none=had_state)
    if intake.rewind is not None:
        lane.emit(Rewound, after=intake.rewind)
    for result in results:
        tell(lane, result)
    _tell_unused(lane, intake, answers)


def tell_what_there_is(lane: Lane, intake: Intake, answers: Decided) -> RunStatus:
    """Tell the conversation as it stands, and what it waits for. Returns how the agent's last run ended. If that
    failed, or if there was none, this run is a plain success."""
    history = lane.history
    lane.announce()
    _tell_unused(lane, intake, answers)
    last = history.run
    if not history.messages:
        return "completed"  # nothing was said that counts: no session begins with it
    lane.told = next(reversed(history.runs), "")
    _tell_state(lane)
    lane.emit(
        MessagesSnapshot,
        messages=latest(history.messages),
        clients=frozenset(history.clients),
        told=_said_by(lane, lane.told),
    )
    waits = left_waiting(lane)
    if waits is not None:
        return waits
    lane.cut = None if last is None else last.cut
    lane.answer = next((each for each in reversed(history.messages) if each.role == "assistant"), None)
    if lane.answer is not None:
        lane.emit(FinalOutput, reply_id=lane.answer.id, text=lane.answer.text)
    if last is not None and last.status in ("max_iterations", "cancelled"):
        return "max_iterations" if last.status == "max_iterations" else "cancelled"
    return "completed"


def _said_by(lane: Lane, run_id: str) -> tuple[Message, ...]:
    """The agent's shown answers of this run."""
    nodes = lane.history.tree.nodes()
    return tuple(node.message for node in nodes if node.run_id == run_id and node.message.role == "assistant")


def _tell_state(lane: Lane, *, even_none: bool = False) -> None:
    """Tell the state, unless the client has just sent the same. An empty state of the client's counts as none."""
    state = {} if lane.history.state is None else lane.history.state
    if even_none if state == {} else not same_json(state, lane.input.state):
        lane.told_state = True
        size = size_of_json(to_json(state))
        lane.emit(StateSnapshot, value=copy_of(state), size=size)


def _tell_unused(lane: Lane, intake: Intake, answers: Decided) -> None:
    for at, message in intake.ignored:
        where = {"messageId": message.id} if lane.input.own_ids else {"index": at}
        lane.emit(Custom, name="message_ignored", value=where)
    for name, unused in (("unknown_interrupt", answers.unknown), (ANSWER_IGNORED, answers.late)):
        for interrupt_id in unused:
            lane.emit(Custom, name=name, value={"interruptId": interrupt_id})
