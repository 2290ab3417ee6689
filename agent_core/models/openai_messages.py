"""Messages as Chat Completions takes them. Every provider accepts them, whatever the session holds.

- A call's name is one that a tool may have. Models make up others (`functions.echo`), and a provider would refuse
  every later request with such a name. The call's result tells the name that the model used.
- A call's id has at most 40 letters, digits, `_` and `-`. A longer id, or one with other characters, becomes a hash,
  so it is the same in every request and on every worker. The model that made the call gets back the id that it gave,
  also if clients were told an id of our own.
- Arguments are a JSON object. Fields that a provider wants back with a call go to no other provider.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from agent_core.messages import MediaPart, Message, Part, TextPart, ToolCall, arguments_of, given_id

SENDABLE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names of participants and of tools that no provider refuses."""

SENDABLE_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Ids of calls that no provider refuses, also if it did not make them."""

LONGEST_NAME = 64

FORMATS = {"audio/mpeg": "mp3", "audio/x-wav": "wav", "audio/wave": "wav", "audio/vnd.wave": "wav"}
"""OpenAI's names for a sound's media type, where the name is not the type's second half."""

WORDS = {"image": "An image", "audio": "A sound", "video": "A film", "document": "A document"}


class _Encoder:
    """Encodes one conversation. A tool message can hold only text here, and nothing may stand between the results of
    one answer's calls. So the results' media follow behind the last result, in a message of the user's role."""

    def __init__(self, replay_thinking: bool, media: bool, origin: str) -> None:
        self._replay_thinking = replay_thinking
        self._takes_media = media
        self._origin = origin
        self._ids: dict[str | None, str] = {}
        self._sent: set[str] = set()
        self._media: list[dict[str, Any]] = []
        self.encoded: list[dict[str, Any]] = []

    def add(self, message: Message) -> None:
        if message.role == "tool":
            self.encoded.append(self._result(message))
            return
        self.flush()
        self.encoded.append(self._assistant(message) if message.role == "assistant" else self._said(message))

    def flush(self) -> None:
        """Send the media of the results so far."""
        if self._media:
            self.encoded.append({"role": "user", "content": self._media})
            self._media = []

    def _result(self, message: Message) -> dict[str, Any]:
        """The tool message, with a note in place of each media part. The part follows later under the same name."""
        text = message.content
        if not isinstance(text, str):
            said = []
            for part in text:
                shape = self._part(part)
                if isinstance(part, MediaPart) and "text" not in shape:
                    name = f"{part.kind} {len(self._media) // 2 + 1}"
                    self._media += [{"type": "text", "text": f"[{name}, from the tool {message.name}]"}, shape]
                    shape = {"text": f"[{name} follows]"}
                said.append(shape["text"])
            text = "\n".join(said)
        call_id = message.tool_call_id or ""
        return {"role": "tool", "tool_call_id": self._ids.get(call_id) or legal_id(call_id), "content": text}

    def _said(self, message: Message) -> dict[str, Any]:
        content = self._content(message.content) if message.role == "user" else message.text
        encoded = {"role": message.role, "content": content}
        if message.name and SENDABLE_NAME.fullmatch(message.name):
            encoded["name"] = message.name
        elif message.role == "user" and (name := _in_one_line(message.name or "")):
            encoded["content"] = _under(name, content)
        return encoded

    def _assistant(self, message: Message) -> dict[str, Any]:
        text = message.text
        encoded: dict[str, Any] = {"role": "assistant", "content": text or (None if message.tool_calls else "")}
        if self._replay_thinking and message.thinking:
            encoded["reasoning_content"] = message.thinking
        if message.tool_calls:
            encoded["tool_calls"] = [self._call(call) for call in message.tool_calls]
        return encoded

    def _call(self, call: ToolCall) -> dict[str, Any]:
        ours = call.origin == self._origin
        given = given_id(call.id)
        call_id = given if ours and call.origin else legal_id(given)
        if call_id in self._sent:  # the provider has given the same id twice
            call_id = legal_id(call.id)
        while call_id in self._sent:  # and our own id is another call's id, too
            call_id = legal_id(f"{call_id} {len(self._sent)}")
        self._ids[call.id] = call_id
        self._sent.add(call_id)
        return {
            **(call.extra if ours or not call.origin else {}),
            "id": call_id,
            "type": "function",
            "function": {"name": legal_name(call.name), "arguments": _arguments(call)},
        }

    def _content(self, content: str | Sequence[Part]) -> list[dict[str, Any]] | str:
        if isinstance(content, str):
            return content
        return [self._part(part) for part in content] or ""

    def _part(self, part: Part) -> dict[str, Any]:
        """The part as Chat Completions has it, else a note in its place.

        It has no shape for a sound behind a URL, and for a file's handle unless it is a document. A model may also take
        no media at all.
        """
        if isinstance(part, TextPart):
            return {"type": "text", "text": part.text}
        shape = _media(part) if self._takes_media else None
        return shape or {"type": "text", "text": f"({WORDS[part.kind]} was sent that cannot be passed on to you.)"}


def encode_messages(
    messages: Sequence[Message], *, replay_thinking: bool = False, media: bool = True, origin: str = ""
) -> list[dict[str, Any]]:
    """The conversation for the model whose calls are marked with `origin`.

    - replay_thinking: whether to send thinking back, as `reasoning_content`
    - media: whether the model takes media
    """
    encoder = _Encoder(replay_thinking, media, origin)
    for message in messages:
        encoder.add(message)
    encoder.flush()
    return encoder.encoded


def legal_name(name: str) -> str:
    """The tool's name with `_` for each character that providers refuse, cut to LONGEST_NAME."""
    return name if SENDABLE_NAME.fullmatch(name) else re.sub(r"[^A-Za-z0-9_-]", "_", name[:LONGEST_NAME]) or "_"


def legal_id(call_id: str) -> str:
    """The call's id, or a hash of it if a provider may refuse the id."""
    if SENDABLE_ID.fullmatch(call_id):
        return call_id
    return f"call_{blake2b(call_id.encode('utf-8', 'replace'), digest_size=16).hexdigest()}"


def _arguments(call: ToolCall) -> str:
    # Several servers parse the arguments of earlier calls, and refuse the whole request if they are no object. The
    # call's result has told the model what it wrote.
    return call.arguments if arguments_of(call) is not None and call.arguments.strip() != "null" else "{}"


def _in_one_line(name: str) -> str:
    """The name in one line, so that it can stand in front of a text."""
    return " ".join("".join(each if each.isprintable() else " " for each in name[:LONGEST_NAME]).split())


def _under(name: str, content: list[dict[str, Any]] | str) -> list[dict[str, Any]] | str:
    """The content with the speaker's name at its head. It is for names that providers refuse in the `name` field."""
    head = f"[from {name}]"
    return f"{head}\n{content}" if isinstance(content, str) else [{"type": "text", "text": head}, *content]


def _media(part: MediaPart) -> dict[str, Any] | None:
    match part.kind, part.source:
        case "image", "url" | "data":
            image = {"url": _url(part, "image/png")}
            return {"type": "image_url", "image_url": image | ({"detail": part.detail} if part.detail else {})}
        case "video", "url" | "data":
            return {"type": "video_url", "video_url": {"url": _url(part, "video/mp4")}}
        case "audio", "data":
            mime_type = part.mime_type or "audio/wav"
            form = FORMATS.get(mime_type) or mime_type.partition("/")[2]
            return {"type": "input_audio", "input_audio": {"data": part.value, "format": form}}
        case "document", "file":
            return {"type": "file", "file": {"file_id": part.value}}
        case "document", "data":
            name = part.detail or f"document.{(part.mime_type or 'application/pdf').partition('/')[2]}"
            return {"type": "file", "file": {"filename": name, "file_data": _url(part, "application/pdf")}}
    return None


def _url(part: MediaPart, kind: str) -> str:
    return part.value if part.source == "url" else f"data:{part.mime_type or kind};base64,{part.value}"
