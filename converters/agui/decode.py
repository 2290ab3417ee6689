"""AG-UI's input: a request body as the engine's input. Shapes: ag-ui-protocol 1.0, RunAgentInput.

It is stricter than the protocol where the server needs it: ids, names of tools, and sizes. It is more lenient than the
protocol's models where clients are known to differ (see `tidy`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ag_ui.core import Message as AguiMessage
from ag_ui.core import RunAgentInput
from ag_ui.core import Tool as AguiTool
from pydantic import ValidationError

from agent_core.context import ContextItem
from agent_core.errors import InvalidRequest
from agent_core.messages import Message
from agent_core.names import RUN_ID, SESSION_ID
from agent_core.run_input import RunInput
from agent_core.tools.base import ToolSpec
from converters.agui.answers import answers_of
from converters.agui.dialect import Dialect, client_word
from converters.agui.lenient import tidy
from converters.agui.messages_in import all_count, numbered, to_message
from converters.parsing import invalid, read_object, shorten, step
from converters.tools import once_each, spec_of

MOST_ERRORS = 20
"""Errors of an input that are told at most."""

MOST_CHECKED = 1_000
"""Messages that are not plain and are read together: one call of the models, which holds the interpreter. If one of
them is wrong, no later ones are looked at."""

_TAGS = {"messages": "role", "content": "type", "source": "type"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AguiRequest:
    """A request for a run. The session is the thread. `dialect` says how to answer, and `reasoning` whether the client
    has sent a message of that role."""

    thread_id: str
    run_id: str
    dialect: Dialect
    reasoning: bool
    parent_run_id: str | None
    input: RunInput

    @property
    def client(self) -> str:
        return client_word(self.dialect, reasoning=self.reasoning)


def parse_run_input(body: bytes) -> AguiRequest:
    """Read the body of a request. The caller bounds its length.

    Raises only InvalidRequest, whatever the bytes are. Its message is bounded and names up to MOST_ERRORS fields;
    `param` is the path of the first.
    """
    members = read_object(body)
    answers = answers_of(members)  # it also removes them: the models would tell a list of errors for each
    plain = tidy(members)
    given, others = _read(members, plain)
    _check_id(given.thread_id, SESSION_ID, 128, "threadId")
    _check_id(given.run_id, RUN_ID, 64, "runId")
    messages = _messages(plain, others)
    if not messages and not answers:
        raise InvalidRequest("messages: there must be at least one message for the model.", "messages")
    return AguiRequest(
        thread_id=given.thread_id,
        run_id=given.run_id,
        dialect=Dialect.of(given.protocol_version),
        reasoning=any(message.role == "reasoning" for message in others.values()),
        parent_run_id=given.parent_run_id,
        input=RunInput(
            messages=tuple(messages.values()),
            places=tuple(messages),
            tools=once_each(_tools(given.tools or ())),
            context=tuple(ContextItem(description=each.description, value=each.value) for each in given.context or ()),
            state=given.state,
            forwarded_props=given.forwarded_props,
            answers=answers,
        ),
    )


def _read(members: dict[str, Any], plain: Mapping[int, Message]) -> tuple[RunAgentInput, dict[int, AguiMessage]]:
    """The input as the models read it, and those of its messages that are not plain, each under its index."""
    messages = members["messages"]
    if not isinstance(messages, list):
        return _validated(members, members, ()), {}
    places = [at for at in range(len(messages)) if at not in plain]
    first, read = places[:MOST_CHECKED], dict[int, AguiMessage]()
    given = _validated(members, {**members, "messages": [messages[at] for at in first]}, first)
    read.update(zip(first, given.messages, strict=True))
    for start in range(MOST_CHECKED, len(places), MOST_CHECKED):
        some = places[start : start + MOST_CHECKED]
        others = {**members, "messages": [messages[at] for at in some], "tools": [], "context": []}
        read.update(zip(some, _validated(members, others, some).messages, strict=True))
    return given, read


def _validated(members: dict[str, Any], some: dict[str, Any], places: Sequence[int]) -> RunAgentInput:
    """`some` of the members as the models read them. Raises InvalidRequest with paths in all of them; `places` are the
    indexes of the messages."""
    try:
        return RunAgentInput.model_validate(some)
    except ValidationError as error:
        raise _told(error, members, places) from None


def _messages(plain: dict[int, Message], others: Mapping[int, AguiMessage]) -> dict[int, Message]:
    if not others:
        return plain if all_count(plain.values()) else numbered(plain.items())
    read: dict[int, Message | None] = {**plain, **{at: to_message(each) for at, each in others.items()}}
    return numbered((at, read[at]) for at in range(len(read)))


def _check_id(value: str, pattern: re.Pattern[str], most: int, name: str) -> None:
    if not pattern.fullmatch(value):
        raise InvalidRequest(f"{name}: 1 to {most} of A-Z a-z 0-9 . _ : - are allowed.", name)


def _tools(tools: Iterable[AguiTool]) -> Iterator[tuple[str, ToolSpec]]:
    for index, tool in enumerate(tools):
        path = step("tools", index)
        yield path, spec_of(tool.name, tool.description, tool.parameters, path)


def _told(error: ValidationError, members: dict[str, Any], places: Sequence[int]) -> InvalidRequest:
    """The models' errors in one message, each with its field's path in the client's input."""
    reasons: dict[str, list[str]] = {}
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        loc = each["loc"]
        if loc[0] == "messages" and len(loc) > 1 and isinstance(loc[1], int) and places:
            loc = ("messages", places[loc[1]], *loc[2:])
        path, reason = _path(loc, members), each["msg"].removeprefix("Input ")
        if each["type"] == "missing":
            reason = "is missing"
        elif each["type"].startswith("union_tag_"):
            path = step(path, "role" if loc[-2:-1] == ("messages",) else "type")
            reason = "is missing" if each["type"] == "union_tag_not_found" else "is not one that AG-UI has"
        reasons.setdefault(path, []).append(shorten(reason, 150))
        if len(reasons) > MOST_ERRORS:
            break
    # A member of several possible types fails once for each type. Errors further inside say more.
    telling = {path: why for path, why in reasons.items() if not any(_inside(other, path) for other in reasons)}
    lines = [f"{shorten(path, 100)}: {', or '.join(why)}." for path, why in list(telling.items())[:MOST_ERRORS]]
    return invalid(" ".join(lines), next(iter(telling)))


def _inside(path: str, outer: str) -> bool:
    return path.startswith((f"{outer}.", f"{outer}["))


def _path(loc: Sequence[str | int], members: object) -> str:
    """The path in the input. Pydantic's path also has names that are no fields: the value of `role` or `type` for each
    message, part and source, and the names of the types that it tried. They are left out."""
    path, here, field, tag = "", members, "", None
    for index, name in enumerate(loc):
        if tag is not None and name == tag:
            tag = None
            continue
        inside = isinstance(here, list) and isinstance(name, int) and name < len(here)
        if inside or (isinstance(here, dict) and name in here):
            path, here = step(path, name), here[name]  # type: ignore[index]
            field = name if isinstance(name, str) else field
            tag = here.get(_TAGS[field]) if isinstance(here, dict) and field in _TAGS else None
        elif isinstance(here, dict) and index == len(loc) - 1:
            path = step(path, name)
    return path
