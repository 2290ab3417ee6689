"""Models behind OpenAI's Chat Completions, or behind one of the many APIs that imitate it."""

import json
import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson

from agent_core.errors import ModelError
from agent_core.messages import MediaPart, Message, Part, TextPart, ToolCall, arguments_of, well_formed
from agent_core.models.base import ModelOptions, ModelRequest, Piece
from agent_core.models.failures import secrets_in
from agent_core.models.http import HttpClient
from agent_core.models.openai_chunks import ChunkDecoder
from agent_core.tools.base import ToolSpec

OPENAI = "https://api.openai.com/v1"

PATH = "/chat/completions"

SENDABLE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Participants' names that no provider refuses; any other is not sent."""

FORMATS = {"audio/mpeg": "mp3", "audio/x-wav": "wav", "audio/wave": "wav", "audio/vnd.wave": "wav"}
"""What OpenAI calls a sound's media type, where it is not the type's own second half."""

WORDS = {"image": "An image", "audio": "A sound", "video": "A film", "document": "A document"}


@dataclass(frozen=True, slots=True)
class OpenAIChat:
    """A model on Chat Completions (https://platform.openai.com/docs/api-reference/chat).

    - name: the model's name at the provider
    - api_key, base_url: else OPENAI_API_KEY and OPENAI_BASE_URL when the call is made; the base URL
      defaults to OpenAI's own, which is the only one that a key is demanded for
    - provider: what the usage records call it
    - headers: sent with each call, over those that are made here
    - replay_thinking: send `reasoning_content` back with the history; DeepSeek wants it in thinking
      mode, and other models refuse it

    Raises ValueError for a base URL that cannot be called.
    """

    name: str
    _: KW_ONLY
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    provider: str = "openai"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    replay_thinking: bool = False

    def __post_init__(self) -> None:
        self._base_url()

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:
        """See Model.stream. Raises ModelError without a call: model_auth if OpenAI's key is missing, and
        model_unreachable if OPENAI_BASE_URL became one that cannot be called."""
        try:
            base_url = self._base_url()
        except ValueError as refusal:
            raise ModelError("model_unreachable", detail=str(refusal), retryable=False) from None
        headers = self._headers(base_url)
        limit = "max_completion_tokens" if base_url == OPENAI else "max_tokens"
        body = encode_request(self.name, request, replay_thinking=self.replay_thinking, limit=limit)
        decoder = ChunkDecoder(provider=self.provider, model=self.name, hide=secrets_in(headers))
        try:
            async with aclosing(http.post_sse(f"{base_url}{PATH}", headers, body)) as reads:
                async for payloads in reads:
                    for payload in payloads:
                        for piece in decoder.feed(payload):
                            yield piece
        except ModelError as error:
            # The provider had said that its answer was whole: only the end of the body is missing.
            if not (decoder.complete and error.code in ("model_unreachable", "model_timeout")):
                raise
        for piece in decoder.finish():
            yield piece

    def _base_url(self) -> str:
        named = "base_url" if self.base_url else "OPENAI_BASE_URL"
        chosen = self.base_url or os.environ.get("OPENAI_BASE_URL", "")
        # The whole address of the call is what people find in a provider's examples.
        base_url = chosen.strip().rstrip("/").removesuffix(PATH).rstrip("/") or OPENAI
        if (why := _unfit(base_url)) is not None:
            raise ValueError(f"{named}: {why}, such as {OPENAI}")  # it is not repeated: it may hold a password
        return base_url

    def _headers(self, base_url: str) -> dict[str, str]:
        key = (self.api_key if self.api_key is not None else os.environ.get("OPENAI_API_KEY", "")).strip()
        headers = {name.lower(): value for name, value in self.headers.items()}
        if not key and "authorization" not in headers and urlsplit(base_url).hostname == urlsplit(OPENAI).hostname:
            raise ModelError("model_auth", detail="OPENAI_API_KEY is not set")
        if not (key.isascii() and key.isprintable()):
            raise ModelError("model_auth", detail="the API key has characters that no header can carry")
        authorization = {"authorization": f"Bearer {key}"} if key else {}
        return authorization | headers


def _unfit(url: str) -> str | None:
    """Why no call can go to this base URL; None where one can."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "the value is no URL: it needs http(s)://, a host, and a port from 1 to 65535 if any"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "the value must begin with http:// or https:// and a host"
    if port == 0 or parts.netloc.endswith(":"):
        return "the value needs a port from 1 to 65535, or none"
    if "?" in url or "#" in url:
        return "the value must have no query and no fragment"
    if not url.isprintable() or " " in url or "\\" in url:
        return "the value must have no blanks, line ends or backslashes"
    return None


def encode_request(
    model: str, request: ModelRequest, *, replay_thinking: bool = False, limit: str = "max_tokens"
) -> bytes:
    """The JSON body of a streamed call. `limit` is what the provider calls the bound of an answer: OpenAI's
    newer models refuse `max_tokens`, and most other servers know nothing else."""
    body: dict[str, Any] = {
        "model": model,
        "messages": _messages(request.messages, replay_thinking),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [_tool(spec, spec.name in request.options.strict_tools) for spec in request.tools]
        if request.tool_choice != "auto":
            body["tool_choice"] = _choice(request.tool_choice)
        if request.options.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = request.options.parallel_tool_calls
    body |= _options(request.options, limit)
    try:
        return orjson.dumps(body, default=_plain)
    except orjson.JSONEncodeError:
        # A number over 64 bits in a schema, or text that somebody did not make well formed.
        return well_formed(json.dumps(body, default=_plain, ensure_ascii=False)).encode()


def _choice(name: str) -> str | dict[str, Any]:
    return name if name in ("none", "required") else {"type": "function", "function": {"name": name}}


def _options(options: ModelOptions, limit: str) -> dict[str, Any]:
    """What was asked of the sampling, and nothing else: a provider refuses what its model does not know."""
    given = {
        "temperature": options.temperature,
        "top_p": options.top_p,
        limit: options.max_tokens,
        "stop": list(options.stop) or None,
        "seed": options.seed,
        "presence_penalty": options.presence_penalty,
        "frequency_penalty": options.frequency_penalty,
        "reasoning_effort": options.reasoning_effort,
    }
    return {name: value for name, value in given.items() if value is not None}


def _messages(messages: Sequence[Message], replay_thinking: bool) -> list[dict[str, Any]]:
    """The conversation. A tool's message takes only text here, and nothing may come between the results of one
    answer's calls: their media follow behind the last of them, as if the user had sent them."""
    encoded: list[dict[str, Any]] = []
    media: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "tool":
            encoded.append(_result(message, media))
            continue
        if media:
            encoded.append({"role": "user", "content": media})
            media = []
        encoded.append(_message(message, replay_thinking))
    return [*encoded, {"role": "user", "content": media}] if media else encoded


def _result(message: Message, media: list[dict[str, Any]]) -> dict[str, Any]:
    """The tool's message, with a note in the place of each medium, which goes to `media` under the same name."""
    text = message.content
    if not isinstance(text, str):
        said = []
        for part in text:
            shape = {"text": part.text} if isinstance(part, TextPart) else _media(part)
            if isinstance(part, MediaPart) and "text" not in shape:
                name = f"{part.kind} {len(media) // 2 + 1}"
                media += [{"type": "text", "text": f"[{name}, from the tool {message.name}]"}, shape]
                shape = {"text": f"[{name} follows]"}
            said.append(shape["text"])
        text = "\n".join(said)
    return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}


def _message(message: Message, replay_thinking: bool) -> dict[str, Any]:
    if message.role == "assistant":
        return _assistant(message, replay_thinking)
    content = _content(message.content) if message.role == "user" else message.text
    encoded = {"role": message.role, "content": content}
    if message.name and SENDABLE_NAME.fullmatch(message.name):
        encoded["name"] = message.name
    return encoded


def _assistant(message: Message, replay_thinking: bool) -> dict[str, Any]:
    text = message.text
    encoded: dict[str, Any] = {"role": "assistant", "content": text or (None if message.tool_calls else "")}
    if replay_thinking and message.thinking:
        encoded["reasoning_content"] = message.thinking
    if message.tool_calls:
        encoded["tool_calls"] = [
            {
                **call.extra,
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call)},
            }
            for call in message.tool_calls
        ]
    return encoded


def _content(content: str | Sequence[Part]) -> list[dict[str, Any]] | str:
    """The content's text, or its parts.

    What has no shape in Chat Completions (a sound behind a URL, a file's handle for anything but a document) is
    left out, and the model is told so in its place.
    """
    if isinstance(content, str):
        return content
    return [
        {"type": "text", "text": part.text} if isinstance(part, TextPart) else _media(part) for part in content
    ] or ""


def _media(part: MediaPart) -> dict[str, Any]:
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
    return {"type": "text", "text": f"({WORDS[part.kind]} was sent that cannot be passed on to you.)"}


def _url(part: MediaPart, kind: str) -> str:
    return part.value if part.source == "url" else f"data:{part.mime_type or kind};base64,{part.value}"


def _tool(spec: ToolSpec, strict: bool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": spec.name}
    if spec.description:
        function["description"] = spec.description
    function["parameters"] = spec.parameters
    if strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _plain(value: Any) -> Any:
    """JSON for what a schema or an `extra` may be made of beside dicts and lists."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _arguments(call: ToolCall) -> str:
    # Several servers parse the arguments of a replayed call, and refuse the whole request where they
    # are no object. The model has been told what it wrote, in the call's result.
    return call.arguments if arguments_of(call) is not None else "{}"
