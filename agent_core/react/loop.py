"""The loop: reason, act, and again, until the model can answer or the budget is used up.

The checkpoint is at the entry of each round, so no tool is cut off in the middle by a budget. There are three ways
out: the model answers; a budget is used up, and a closing answer is given, which is still a success; or the run is
stopped. An exception means that a model call or the store has failed.
"""

import logging
import math
from time import monotonic

from agent_core.errors import ModelError
from agent_core.events import (
    ExceedMaxIters,
    FinalOutput,
    RunStatus,
    StepEnd,
    StepStart,
)
from agent_core.guards.confidence import QUESTION
from agent_core.guards.watch import Trip, closing, doubted, fallback
from agent_core.messages import Message, new_id
from agent_core.models.base import TextPiece
from agent_core.react.acting import act, act_again, settle
from agent_core.react.lane import Lane
from agent_core.react.opening.begin import begin
from agent_core.react.reply import Reply
from agent_core.react.turn import CLOSING, ask_quietly, take_turn

logger = logging.getLogger(__name__)

NUDGE = "Your last answer had no text. Answer the request above now, in plain text, or call a tool."
NO_ANSWER = "I have no answer to give: the model returned no text."
NO_SUMMARY = (
    "The budget of steps for this request is used up, and no summary could be made. "
    "What was found so far is kept: say “continue” to go on."
)

BROKEN_OFF = "The summary above broke off. What was found so far is kept: say “continue” to go on."


async def react(lane: Lane) -> RunStatus:
    """Take the input in and go through the rounds. Returns how the run ended.

    Raises ModelError, RunError or Stopped. The history may then have open calls, which the caller settles.
    """
    told = await begin(lane)
    if told is not None:
        return told
    if not lane.history.messages:
        return "completed"  # nothing was said that counts: a model refuses an empty conversation
    status = await act_again(lane)
    if status is not None:
        return status
    while lane.iteration < lane.agent.max_iterations:
        lane.scope.check()
        turn = lane.history.turn
        seconds = turn.seconds + monotonic() - lane.scope.began
        trip = lane.watch.round(seconds, turn.tokens + lane.scope.tokens, turn.rounds)
        if trip is not None:
            return await end_early(lane, trip)
        status = await _round(lane)
        if status is not None:
            return status
        lane.iteration += 1
    return await summarize(lane)


async def _round(lane: Lane) -> RunStatus | None:
    lane.emit(StepStart, iteration=lane.iteration)
    choice = lane.input.tool_choice if lane.iteration == 0 else "auto"  # else a forced call would never end
    nudge, lane.nudge = lane.nudge, ""
    message = await take_turn(lane, tools=lane.offered, tool_choice=choice, nudge=nudge)
    if not message.tool_calls and not message.text.strip() and not lane.nudged:
        lane.nudged = True
        message = await take_turn(lane, tools=lane.offered, nudge=NUDGE)
    status: RunStatus | None = None
    if message.tool_calls:
        status = await act(lane, message)
    elif await _doubts(lane, message):
        await lane.commit(message)
    else:
        await _give_answer(lane, message, _last_text(lane) or NO_ANSWER)
        status = "completed"
    lane.emit(StepEnd, iteration=lane.iteration)
    return status


async def _doubts(lane: Lane, message: Message) -> bool:
    """Ask the model, once in a run, how sure it is. Returns whether that is less than the agent wants."""
    guards, rounds = lane.agent.guards, lane.history.turn.rounds + 1
    last = lane.iteration + 1 >= lane.agent.max_iterations or rounds >= (guards.turn_iterations or math.inf)
    if not guards.confidence or lane.doubted or last or not message.text.strip():
        return False
    lane.doubted = True
    trip = doubted(guards.confidence, await ask_quietly(lane, message, QUESTION))
    if trip is None:
        return False
    lane.tripped(trip)
    lane.nudge = trip.told
    return True


async def end_early(lane: Lane, trip: Trip) -> RunStatus:
    """The way out when a guard ends the rounds: tell it, and ask for an answer that says so."""
    lane.tripped(trip)
    await _close(lane, closing(trip), fallback(trip))
    return "max_iterations"


async def summarize(lane: Lane) -> RunStatus:
    """The way out when the budget is used up: settle open calls, tell it, and ask for a closing answer."""
    lane.scope.check()
    pending = lane.history.open_calls
    if pending:
        logger.warning("run %s: %d tool calls were pending when the budget was used up", lane.run_id, len(pending))
        await settle(lane, "The budget of steps was used up before this call could run.")
    logger.debug("Maximum iterations reached. Generating summary…")
    lane.emit(ExceedMaxIters, max_iters=lane.agent.max_iterations, current_iter=lane.iteration)
    await _close(lane, CLOSING, NO_SUMMARY)
    return "max_iterations"


async def _close(lane: Lane, instruction: str, fallback: str) -> None:
    """Ask for the last answer, without tools. Give `fallback` if the model gives none."""
    try:
        message = await take_turn(lane, tools=(), closing=instruction)
    except ModelError as error:
        logger.warning("run %s: the closing call failed (%s)", lane.run_id, error.code)
        message = Message(id=new_id("msg"), role="assistant")
        fallback = BROKEN_OFF if lane.history.messages[-1].role == "assistant" else fallback
    await _give_answer(lane, message, fallback)


async def _give_answer(lane: Lane, message: Message, fallback: str) -> None:
    """Store the message as the answer. If it has no text, emit and store the fallback instead."""
    if message.text.strip():
        final = Message(id=message.id, role="assistant", content=message.content, thoughts=message.thoughts)
    else:
        lane.reply = reply = Reply(lane.emitter, lane.history.call_ids)
        reply.take(TextPiece(fallback))
        final = reply.finish()
    lane.defer(final)
    lane.answer = final
    lane.emit(FinalOutput, reply_id=final.id, text=final.text)


def _last_text(lane: Lane) -> str:
    """The last text of the model in this turn, which stood beside a call."""
    for message in reversed(lane.history.messages):
        if message.role == "user":
            return ""
        if message.role == "assistant" and message.text.strip():
            return message.text
    return ""
