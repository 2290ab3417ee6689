"""The loop: reason, act, and again, until the model can answer or the budget is used up.

The checkpoint stands at the entry of reasoning; nothing is cut off in the middle of a tool. There are
three ways out: the model answers, a budget is used up (a closing answer is given, still a success),
or the user interrupts. An exception comes up only where the model call itself failed.
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
from agent_core.pairing import open_calls
from agent_core.react.acting import act, act_again, settle
from agent_core.react.opening.begin import begin
from agent_core.react.reply import Reply
from agent_core.react.run import Run
from agent_core.react.turn import CLOSING, ask_quietly, take_turn

logger = logging.getLogger(__name__)

NUDGE = "Your last answer had no text. Answer the request above now, in plain text, or call a tool."
NO_ANSWER = "I have no answer to give: the model returned no text."
NO_SUMMARY = (
    "The budget of steps for this request is used up, and no summary could be made. "
    "What was found so far is kept: say “continue” to go on."
)

BROKEN_OFF = "The summary above broke off. What was found so far is kept: say “continue” to go on."


async def react(run: Run) -> RunStatus:
    """Take the input in and go through the rounds. Returns how the run ended.

    Raises ModelError, RunError or Stopped; the history may then hold open calls, which are the
    caller's to settle.
    """
    told = await begin(run)
    if told is not None:
        return told
    if not run.history.messages:
        return "completed"  # nothing was said that counts: a model refuses an empty conversation
    status = await act_again(run)
    if status is not None:
        return status
    while run.iteration < run.agent.max_iterations:
        run.check()
        turn = run.history.turn
        seconds = turn.seconds + monotonic() - run.began
        trip = run.watch.round(seconds, turn.tokens + run.tokens, turn.rounds)
        if trip is not None:
            return await end_early(run, trip)
        status = await _round(run)
        if status is not None:
            return status
        run.iteration += 1
    return await summarize(run)


async def _round(run: Run) -> RunStatus | None:
    run.emit(StepStart(run_id=run.run_id, iteration=run.iteration))
    choice = run.input.tool_choice if run.iteration == 0 else "auto"  # else a forced call would never end
    nudge, run.nudge = run.nudge, ""
    message = await take_turn(run, tools=run.offered, tool_choice=choice, nudge=nudge)
    if not message.tool_calls and not message.text.strip() and not run.nudged:
        run.nudged = True
        message = await take_turn(run, tools=run.offered, nudge=NUDGE)
    status: RunStatus | None = None
    if message.tool_calls:
        status = await act(run, message)
    elif await _doubts(run, message):
        await run.commit(message)
    else:
        await _give_answer(run, message, _last_text(run) or NO_ANSWER)
        status = "completed"
    run.emit(StepEnd(run_id=run.run_id, iteration=run.iteration))
    return status


async def _doubts(run: Run, message: Message) -> bool:
    """Whether the model, when it is asked, is less sure of its answer than the agent wants; once in a run."""
    guards, rounds = run.agent.guards, run.history.turn.rounds + 1
    last = run.iteration + 1 >= run.agent.max_iterations or rounds >= (guards.turn_iterations or math.inf)
    if not guards.confidence or run.doubted or last or not message.text.strip():
        return False
    run.doubted = True
    trip = doubted(guards.confidence, await ask_quietly(run, message, QUESTION))
    if trip is None:
        return False
    run.tripped(trip)
    run.nudge = trip.told
    return True


async def end_early(run: Run, trip: Trip) -> RunStatus:
    """The way out when a guard wants no more tools: say so, and ask for an answer that is honest about it."""
    run.tripped(trip)
    await _close(run, closing(trip), fallback(trip))
    return "max_iterations"


async def summarize(run: Run) -> RunStatus:
    """The way out when the budget is used up: settle what is pending, say so, and ask for a closing answer."""
    run.check()
    pending = open_calls(run.history.messages)
    if pending:
        logger.warning("run %s: %d tool calls were pending when the budget was used up", run.run_id, len(pending))
        await settle(run, "The budget of steps was used up before this call could run.")
    logger.debug("Maximum iterations reached. Generating summary…")
    run.emit(
        ExceedMaxIters(run_id=run.run_id, max_iters=run.agent.max_iterations, current_iter=run.iteration),
    )
    await _close(run, CLOSING, NO_SUMMARY)
    return "max_iterations"


async def _close(run: Run, instruction: str, fallback: str) -> None:
    """The last answer, without tools; `fallback` where the model gives none."""
    try:
        message = await take_turn(run, tools=(), closing=instruction)
    except ModelError as error:
        logger.warning("run %s: the closing call failed (%s)", run.run_id, error.code)
        message = Message(id=new_id("msg"), role="assistant")
        fallback = BROKEN_OFF if run.history.messages[-1].role == "assistant" else fallback
    await _give_answer(run, message, fallback)


async def _give_answer(run: Run, message: Message, fallback: str) -> None:
    """Store the message as the answer; where it says nothing, say and store the fallback instead."""
    if message.text.strip():
        final = Message(id=message.id, role="assistant", content=message.content, thoughts=message.thoughts)
    else:
        run.reply = reply = Reply(run.run_id, run.emit, run.history.call_ids)
        reply.take(TextPiece(fallback))
        final = reply.finish()
    run.defer(final)
    run.answer = final
    run.emit(FinalOutput(run_id=run.run_id, reply_id=final.id, text=final.text))


def _last_text(run: Run) -> str:
    """The last text that the model gave in this run, beside a call."""
    for message in reversed(run.history.messages):
        if message.role == "user":
            return ""
        if message.role == "assistant" and message.text.strip():
            return message.text
    return ""
