"""AG-UI's input: a request body as what the engine takes. Shapes: ag-ui-protocol 1.0, RunAgentInput.

Stricter than the protocol where the server must be (ids, names of tools, how much of everything), and
more lenient than its models where clients are known to differ (see `tidy`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ag_ui.core import RunAgentInput
from ag_ui.core import Tool as AguiTool
from pydantic import ValidationError

from agent_core.context import ContextItem
from agent_core.errors import InvalidRequest
from agent_core.names import RUN_ID, SESSION_ID
from agent_core.run_input import RunInput
from agent_core.tools.base import ToolSpec
from converters.agui.dialect import Dialect, client_word
from converters.agui.lenient import tidy
from converters.agui.messages_in import to_messages
from converters.agui.resume import answers_of
from converters.parsing import invalid, read_object, shorten, step
from converters.tools import once_each, spec_of

MOST_ERRORS = 20
"""How many errors of an input are told."""

_TAGS = {"messages": "role", "content": "type", "source": "type"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AguiRequest:
    """A request to run. The session is the thread; `dialect` says how to answer, `reasoning` whether the client has
    sent a message of that role."""

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
    """The body of a request. How long it may be is the caller's to say.

    Raises InvalidRequest, and nothing else, whatever the bytes are: the message names up to
    MOST_ERRORS fields and is bounded, `param` is the path of the first.
    """
    members = read_object(body)
    answers = answers_of(members)  # and out of the way of the models, which would tell a list of errors for each
    tidy(members)
    try:
        given = RunAgentInput.model_validate(members)
    except ValidationError as error:
        raise _told(error, members) from None
    _check_id(given.thread_id, SESSION_ID, 128, "threadId")
    _check_id(given.run_id, RUN_ID, 64, "runId")
    messages = to_messages(given.messages)
    if not messages and not answers:
        raise InvalidRequest("messages: there must be at least one message for the model.", "messages")
    return AguiRequest(
        thread_id=given.thread_id,
        run_id=given.run_id,
        dialect=Dialect.of(given.protocol_version),
        reasoning=any(message.role == "reasoning" for message in given.messages),
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


def _check_id(value: str, pattern: re.Pattern[str], most: int, name: str) -> None:
    if not pattern.fullmatch(value):
        raise InvalidRequest(f"{name}: 1 to {most} of A-Z a-z 0-9 . _ : - are allowed.", name)


def _tools(tools: Iterable[AguiTool]) -> Iterator[tuple[str, ToolSpec]]:
    for index, tool in enumerate(tools):
        path = step("tools", index)
        yield path, spec_of(tool.name, tool.description, tool.parameters, path)


def _told(error: ValidationError, members: dict[str, Any]) -> InvalidRequest:
    """The models' errors in one message, each with the path of its field in the client's input."""
    reasons: dict[str, list[str]] = {}
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        path, reason = _path(each["loc"], members), each["msg"].removeprefix("Input ")
        if each["type"] == "missing":
            reason = "is missing"
        elif each["type"].startswith("union_tag_"):
            path = step(path, "role" if each["loc"][-2:-1] == ("messages",) else "type")
            reason = "is missing" if each["type"] == "union_tag_not_found" else "is not one that AG-UI has"
        reasons.setdefault(path, []).append(shorten(reason, 150))
        if len(reasons) > MOST_ERRORS:
            break
    # A member of several types fails as each of them; what is wrong further inside says more.
    telling = {path: why for path, why in reasons.items() if not any(_inside(other, path) for other in reasons)}
    lines = [f"{shorten(path, 100)}: {', or '.join(why)}." for path, why in list(telling.items())[:MOST_ERRORS]]
    return invalid(" ".join(lines), next(iter(telling)))


def _inside(path: str, outer: str) -> bool:
    return path.startswith((f"{outer}.", f"{outer}["))


def _path(loc: Sequence[str | int], members: object) -> str:
    """The path in the input. Among the names of fields, pydantic lists the union members that it
    tried: the value of `role` or `type` once for each message, part and source, and type names.
    """
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
