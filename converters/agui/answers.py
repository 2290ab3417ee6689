"""A client's answers to interrupts. Shape: ag-ui-protocol 1.0, ResumeEntry.

A payload is handed on as it came. Only the engine knows the interrupt, and so what the payload must be.
"""

from typing import Any

from agent_core.interrupts import Answer
from converters.fields import an_object, list_at, needed_text, refuse
from converters.parsing import step

MOST_ANSWERS = 1_000
"""Answers of one request at most. It is more than the calls that can wait in one session."""

LONGEST_INTERRUPT_ID = 256
"""Characters of an interrupt's id at most."""


def answers_of(members: dict[str, Any], name: str = "resume") -> tuple[Answer, ...]:
    """The answers in the list `name` of the members; none without such a list. Removes the list from the members.

    Raises InvalidRequest with the path of the wrong field, such as `resume[2].status`; also for an interrupt that is
    answered twice.
    """
    entries = list_at(members, name, MOST_ANSWERS)
    members.pop(name, None)
    answers: dict[str, Answer] = {}
    for index, entry in enumerate(entries):
        path = step(name, index)
        answer = _answer(an_object(entry, path), path)
        if answer.interrupt_id in answers:
            raise refuse(step(path, "interruptId"), "this interrupt is answered twice.")
        answers[answer.interrupt_id] = answer
    return tuple(answers.values())


def _answer(entry: dict[str, Any], path: str) -> Answer:
    # The protocol's own models accept `interrupt_id` too.
    name = "interrupt_id" if "interrupt_id" in entry and "interruptId" not in entry else "interruptId"
    interrupt_id = needed_text(entry, name, path)
    if len(interrupt_id) > LONGEST_INTERRUPT_ID:
        raise refuse(step(path, name), f"must have 1 to {LONGEST_INTERRUPT_ID} characters.")
    status = needed_text(entry, "status", path)
    if status == "resolved":
        return Answer(interrupt_id=interrupt_id, status="resolved", payload=entry.get("payload"), param=path)
    if status == "cancelled":
        return Answer(interrupt_id=interrupt_id, status="cancelled", payload=entry.get("payload"), param=path)
    raise refuse(step(path, "status"), "must be 'resolved' or 'cancelled'.")
