"""The messages of a conversation, as the engine keeps and stores them.

Each provider and each wire protocol has its own shapes for messages. They are translated at the edges only
(`agent_core/models`, `converters`).

One invariant holds in the whole engine: exactly one tool message answers each tool call of an assistant message,
before the next request to the model. `agent_core/pairing.py` keeps it.
"""

import re
import secrets
from collections.abc import Mapping
from typing import Any, Literal

import orjson
from msgspec import Struct, field

from agent_core.sizes import size_of

MESSAGE = 400
"""Bytes of a message without its text, roughly."""

Role = Literal["system", "developer", "user", "assistant", "tool"]

LONGEST_GIVEN = 256
"""Our own id repeats a provider's id only up to this many characters."""

_OWN_ID = re.compile(r"(.+)__own_[0-9a-f]{12}", re.DOTALL)

ResultStatus = Literal["ok", "error", "timed_out", "interrupted", "denied", "not_run"]
"""How a tool call ended. All but `ok` are told to the model in the result's text."""


class TextPart(Struct, frozen=True, kw_only=True, tag="text"):
    """A piece of text in a message that is made of parts."""

    text: str


class MediaPart(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="media"):
    """An image, a sound, a film or a document. We hand it on and never fetch it.

    - source: what `value` is: `data` (base64), `url`, or `file` (a provider's opaque handle)
    - detail: for an image, how closely to look (OpenAI's `low`, `high`); for a document, its name
    """

    kind: Literal["image", "audio", "video", "document"]
    source: Literal["data", "url", "file"]
    value: str
    mime_type: str | None = None
    detail: str | None = None


Part = TextPart | MediaPart


class ToolCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's request to run a tool.

    - arguments: JSON text as the model wrote it, valid or not; it is checked when the call is acted on
    - extra: fields that the provider adds and wants back, such as Gemini's thought signature
    - origin: the mark of the model that made the call, empty if it is not known
    """

    id: str
    name: str
    arguments: str = "{}"
    extra: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""


def arguments_of(call: ToolCall) -> dict[str, Any] | None:
    """The call's arguments as an object, `{}` for null. None if the text is no JSON or no object."""
    try:
        value = orjson.loads(call.arguments)
    except ValueError:
        return None
    if value is None:
        return {}
    return value if isinstance(value, dict) else None


def counts_as_none(arguments: str, *, theirs: bool) -> bool:
    """Whether JSON text that is no object stands for no arguments.

    null does. `theirs` says that the call is the client's: then any other value does too, except an object that was
    encoded twice.
    """
    try:
        value = orjson.loads(arguments)
    except ValueError:
        return False
    if isinstance(value, str):
        return theirs and not value.lstrip().startswith("{")
    return value is None or theirs


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message. The role says which members count.

    - assistant: `content`, `thoughts` (a text for each block of thinking), `tool_calls`
    - tool: `tool_call_id`, `name` (the tool's), `content`, `status`, and
      `edited_arguments`: those that a person has put in place of the call's, None without an edit;
      `error`: the class of the failure, for the guards;
      `noted`: how many characters at the content's end the guards have added
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
        """Roughly the bytes that the message takes in memory. Most messages are only a text, and have a quick way."""
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
        """Whether the content has a text or a media part."""
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
    """A fresh id for a call whose provider's id is `given`. `given_id` gets that back, unless it is too long."""
    return f"{given}__own_{secrets.token_hex(6)}" if 0 < len(given) <= LONGEST_GIVEN else new_id("call")


def given_id(call_id: str) -> str:
    """The provider's id of the call: the one that `own_id` was given, else the id itself."""
    made = _OWN_ID.fullmatch(call_id)
    return made[1] if made is not None else call_id


def well_formed(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, so that UTF-8 can encode it (RFC 8259, section 8.2).

    Lone surrogates come from providers that cut a pair in two, and from tools that read files with `surrogateescape`.
    An encoder would fail on them and end the run.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
