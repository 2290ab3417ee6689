"""Asks the person at the terminal about calls that wait: AG-UI's interrupts in, resume entries out."""

from typing import Any, Protocol

import orjson

Interrupt = dict[str, Any]
Answer = dict[str, Any]

LONGEST_VALUE, LONGEST_CALL = 60, 400
"""Characters of one argument, and of all, in the question; longer ones are shown whole above it."""


class Desk(Protocol):
    """The terminal, as it is needed here."""

    def ask(self, prompt: str, text: str = "") -> str | None:
        """A line from the person, who finds `text` on it; None at the end of the input."""
        ...

    def tell(self, text: str) -> None:
        """Show the text whole, on lines of its own."""
        ...


def interrupts_in(frame: dict[str, Any]) -> list[Interrupt]:
    """What the run waits for, if this frame is the end of a run that waits."""
    outcome = frame.get("outcome")
    if frame.get("type") != "RUN_FINISHED" or not isinstance(outcome, dict) or outcome.get("type") != "interrupt":
        return []
    interrupts = outcome.get("interrupts")
    return [each for each in interrupts if isinstance(each, dict)] if isinstance(interrupts, list) else []


def is_approval(interrupt: Interrupt) -> bool:
    """Whether it asks if a call may be made, which a person can answer here."""
    return interrupt.get("reason") == "tool_call"


def in_words(interrupt: Interrupt) -> str:
    """What waits, and for what, in one line."""
    name, arguments = _call_of(interrupt)
    if is_approval(interrupt):
        return f"waits for an approval: {_call(name, arguments)[0]}"
    return f"waits for a result from outside: {_visible(name)}"


def ask_about(interrupt: Interrupt, desk: Desk) -> Answer | None:
    """The person's answer about a call: yes, no with a reason, or yes to other arguments. None if they leave it."""
    name, given = _call_of(interrupt)
    arguments = given
    if given is None:
        desk.tell(f"The arguments of {_visible(name)} are too long to be shown here.")
    while True:
        question, whole = _call(name, arguments)
        if not whole:
            desk.tell(_visible(orjson.dumps(arguments, option=orjson.OPT_INDENT_2).decode()))
        word = desk.ask(f"{question}? [y/n/e] ")
        if word is None:
            return None
        match word.strip().lower():
            case "y" | "yes":
                edited = {} if arguments == given else {"arguments": arguments}
                return _answer(interrupt, {"approved": True, **edited})
            case "n" | "no":
                reason = desk.ask("Why not? (may be empty) ")
                if reason is None:
                    return None
                return _answer(interrupt, {"approved": False, **({"reason": reason.strip()} if reason.strip() else {})})
            case "e" | "edit":
                arguments = _edited(arguments, desk)


def _edited(arguments: dict[str, Any] | None, desk: Desk) -> dict[str, Any] | None:
    """The arguments as the person has edited them; unchanged if the edit is no JSON object."""
    line = desk.ask("arguments: ", _visible(orjson.dumps(arguments or {}).decode()))
    if line is None or not line.strip():
        return arguments
    try:
        value = orjson.loads(line)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return value
    desk.tell("That is no JSON object; the arguments are as they were.")
    return arguments


def _answer(interrupt: Interrupt, payload: dict[str, Any]) -> Answer:
    return {"interruptId": interrupt.get("id"), "status": "resolved", "payload": payload}


def _call_of(interrupt: Interrupt) -> tuple[str, dict[str, Any] | None]:
    metadata = interrupt.get("metadata")
    about = metadata if isinstance(metadata, dict) else {}
    name, arguments = about.get("toolName"), about.get("arguments")
    return str(name or "a tool"), arguments if isinstance(arguments, dict) else None


def _call(name: str, arguments: dict[str, Any] | None) -> tuple[str, bool]:
    """The call as code, and whether it is complete."""
    if arguments is None:
        return f"{_visible(name)}(…)", True
    whole = True
    shown: list[str] = []
    for key, value in arguments.items():
        # A name that is no identifier could look like further arguments.
        name_of = key if key.isidentifier() else orjson.dumps(key).decode()
        text = _visible(f"{name_of}={orjson.dumps(value).decode()}")
        longest = LONGEST_VALUE + len(name_of)
        whole = whole and len(text) <= longest
        shown.append(text if len(text) <= longest else f"{text[:longest]}…")
    line = ", ".join(shown)
    if len(line) > LONGEST_CALL:
        line, whole = f"{line[:LONGEST_CALL]}…", False
    return f"{_visible(name)}({line})", whole


def _visible(text: str) -> str:
    """The text with an escape for every character that a terminal would not show, such as a change of direction.

    A person must see what they agree to.
    """
    return "".join(each if each.isprintable() or each == "\n" else _escape(each) for each in text)


def _escape(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
