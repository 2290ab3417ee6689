"""What was said: the messages of a conversation, as the engine keeps and stores them.

Every provider and every wire protocol has shapes of its own for the same few things; they are
translated at the edges (`agent_core/models`, `converters`) and nowhere else.

The invariant of the whole engine stands here, because it is about messages: a tool call in an
assistant message is followed by exactly one tool message that answers it, before the next request
to the model. `agent_core/pairing.py` keeps it.
"""

import re
import secrets
from collections.abc import Mapping
from typing import Any, Literal

import orjson
from msgspec import Struct, field

from agent_core.sizes import size_of

MESSAGE = 400
"""What a message takes beside its text, roughly, in bytes."""

Role = Literal["system", "developer", "user", "assistant", "tool"]

LONGEST_GIVEN = 256
"""Characters of a provider's id that an id of our own repeats."""

_OWN_ID = re.compile(r"(.+)__own_[0-9a-f]{12}", re.DOTALL)

ResultStatus = Literal["ok", "error", "timed_out", "interrupted", "denied", "not_run"]
"""How a tool call ended. All but `ok` are told to the model in the result's text."""


class TextPart(Struct, frozen=True, kw_only=True, tag="text"):
    """A piece of text inside a message made of parts."""

    text: str


class MediaPart(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="media"):
    """An image, a sound, a film or a document. It is handed on and never fetched by us.

    `source` says what `value` is: `data` (base64), `url`, or `file` (a provider's opaque handle). `detail` is
    what else was said of it: of an image, how closely to look (OpenAI's `low`, `high`); of a document, its name.
    """

    kind: Literal["image", "audio", "video", "document"]
    source: Literal["data", "url", "file"]
    value: str
    mime_type: str | None = None
    detail: str | None = None


Part = TextPart | MediaPart


class ToolCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's wish to have a tool run.

    `arguments` is JSON text as the model wrote it, valid or not: it is judged when it is acted on.
    `extra` holds members that a provider adds and wants back (Gemini's thought signature); `origin` is the mark of
    the model that made the call, empty where that is not known.
    """

    id: str
    name: str
    arguments: str = "{}"
    extra: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""


def arguments_of(call: ToolCall) -> dict[str, Any] | None:
    """The call's arguments as an object, `{}` for null; None where the text is no JSON or no object."""
    try:
        value = orjson.loads(call.arguments)
    except ValueError:
        return None
    if value is None:
        return {}
    return value if isinstance(value, dict) else None


def counts_as_none(arguments: str, *, theirs: bool) -> bool:
    """Whether the JSON text, which is no object, stands for an object without members: null does, and for a call of
    the client's any other value but an object that was encoded twice."""
    try:
        value = orjson.loads(arguments)
    except ValueError:
        return False
    if isinstance(value, str):
        return theirs and not value.lstrip().startswith("{")
    return value is None or theirs


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message. Which members count depends on the role.

    - assistant: `content`, `thoughts` (one text for each block of thinking), `tool_calls`
    - tool: `tool_call_id`, `name` (the tool's), `content`, `status`; `edited_arguments` are those that a person has
      put in the place of the call's, None where nobody has; for the guards, `error` (the class of what went wrong)
      and `noted` (how many characters at the content's end they have added)
    - system, developer, user: `content`, `name`
    """

    id: str
    role: Role
    content: str | tuple[Part, ...] = ""
    name: str | None = None
    thoughts: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    status: ResultStatus = "ok"
    edited_arguments: dict[str, Any] | None = field(default=None, name="editedArguments")
    error: str = ""
    noted: int = 0

    @property
    def weight(self) -> int:
        """Roughly the bytes that it takes in memory. Most messages of a long conversation are a text and nothing
        more."""
        plain = isinstance(self.content, str) and self.role in ("user", "assistant")
        if not plain or self.tool_calls or self.thoughts or self.name or self.tool_call_id or self.error:
            return size_of(self)
        return MESSAGE + len(self.id) + len(self.content)

    @property
    def thinking(self) -> str:
        """All thoughts, joined."""
        return "".join(self.thoughts)

    @property
    def text(self) -> str:
        """The text of the content; media parts have none."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content if isinstance(part, TextPart))

    @property
    def says(self) -> bool:
        """Whether the content holds anything: a text, or a medium."""
        return bool(self.text) or any(isinstance(part, MediaPart) for part in self.content)


def plain(content: str | tuple[Part, ...]) -> str | tuple[Part, ...]:
    """The content as one text, unless it has media."""
    if isinstance(content, str) or any(isinstance(part, MediaPart) for part in content):
        return content
    return "".join(part.text for part in content if isinstance(part, TextPart))


def new_id(prefix: str) -> str:
    """A fresh id such as `msg_9f2c…`, unique across sessions (96 random bits)."""
    return f"{prefix}_{secrets.token_hex(12)}"


def own_id(given: str) -> str:
    """A fresh id for a call that its provider calls `given`, which `given_id` finds in it again."""
    return f"{given}__own_{secrets.token_hex(6)}" if 0 < len(given) <= LONGEST_GIVEN else new_id("call")


def given_id(call_id: str) -> str:
    """What the provider calls the call: the id itself, unless `own_id` made it."""
    made = _OWN_ID.fullmatch(call_id)
    return made[1] if made is not None else call_id


def well_formed(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD, so that UTF-8 can carry it.

    A provider that cuts a pair in two, or a tool that reads a file with `surrogateescape`, would
    otherwise end the run in an encoder (RFC 8259, section 8.2).
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
