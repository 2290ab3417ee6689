"""Models on OpenAI's Chat Completions, or on one of the many APIs that imitate it."""

import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

import orjson

from agent_core.errors import ModelError
from agent_core.messages import well_formed
from agent_core.models.base import ModelOptions, ModelRequest, Piece
from agent_core.models.failures import secrets_in
from agent_core.models.http import HttpClient
from agent_core.models.openai_chunks import ChunkDecoder
from agent_core.models.openai_messages import encode_messages
from agent_core.tools.base import ToolSpec

OPENAI = "https://api.openai.com/v1"

PATH = "/chat/completions"

ENCODING = 100
"""The weight of one message for `Aside`: roughly the work to encode it."""


@dataclass(frozen=True, slots=True)
class OpenAIChat:
    """A model on Chat Completions (https://platform.openai.com/docs/api-reference/chat).

    - name: the model's name at the provider
    - api_key, base_url: by default OPENAI_API_KEY and OPENAI_BASE_URL, read at each call. The base URL is OpenAI's own
      if neither is given; only that one demands a key
    - provider: its name in usage records
    - headers: sent with each call; they replace those that are made here
    - replay_thinking: send `reasoning_content` back with the history. DeepSeek wants it in thinking mode, and other
      models refuse it
    - media: whether the model takes images, sounds, films and documents. If not, it gets a note in place of each

    Raises ValueError for a base URL that cannot be called.
    """

    name: str
    _: KW_ONLY
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    provider: str = "openai"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    replay_thinking: bool = False
    media: bool = True

    def __post_init__(self) -> None:
        self._base_url()

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:
        """As Model.stream. Raises ModelError without a call: model_auth if OpenAI's key is missing, and
        model_unreachable if OPENAI_BASE_URL has become a URL that cannot be called."""
        try:
            base_url = self._base_url()
        except ValueError as refusal:
            raise ModelError("model_unreachable", detail=str(refusal), retryable=False) from None
        headers = self._headers(base_url)
        limit = "max_completion_tokens" if base_url == OPENAI else "max_tokens"
        origin = _origin(self.provider, base_url, self.name)
        body = await http.aside(
            ENCODING * len(request.messages),
            encode_request,
            self.name,
            request,
            replay_thinking=self.replay_thinking,
            media=self.media,
            limit=limit,
            origin=origin,
        )
        decoder = ChunkDecoder(provider=self.provider, model=self.name, hide=secrets_in(headers), origin=origin)
        try:
            async with aclosing(http.post_sse(f"{base_url}{PATH}", headers, body)) as reads:
                async for payloads in reads:
                    for payload in payloads:
                        for piece in decoder.feed(payload):
                            yield piece
        except ModelError as error:
            # If the provider has said that its answer is whole, only the end of the body is missing.
            if not (decoder.complete and error.code in ("model_unreachable", "model_timeout")):
                raise
        for piece in decoder.finish():
            yield piece

    def _base_url(self) -> str:
        named = "base_url" if self.base_url else "OPENAI_BASE_URL"
        chosen = self.base_url or os.environ.get("OPENAI_BASE_URL", "")
        base_url, why = _read_base_url(chosen)
        if why is not None:
            raise ValueError(f"{named}: {why}, such as {OPENAI}")  # without the URL: it may hold a password
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


@lru_cache
def _origin(provider: str, base_url: str, name: str) -> str:
    """The mark of this model's calls. It is a hash, because a session's export shows it and must show no URL."""
    return blake2b(f"{provider} {base_url} {name}".encode(), digest_size=8).hexdigest()


@lru_cache
def _read_base_url(chosen: str) -> tuple[str, str | None]:
    """The base URL that was meant, and the reason if no call can go there."""
    # People copy the whole address of the call from a provider's examples.
    base_url = chosen.strip().rstrip("/").removesuffix(PATH).rstrip("/") or OPENAI
    return base_url, _unfit(base_url)


def _unfit(url: str) -> str | None:
    """The reason why no call can go to this base URL, or None."""
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
    model: str,
    request: ModelRequest,
    *,
    replay_thinking: bool = False,
    media: bool = True,
    limit: str = "max_tokens",
    origin: str = "",
) -> bytes:
    """The JSON body of a streamed call.

    - limit: the provider's name for the bound of an answer. OpenAI's newer models refuse `max_tokens`, and most other
      servers know only that
    - origin: the mark of this model's own calls
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": encode_messages(request.messages, replay_thinking=replay_thinking, media=media, origin=origin),
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
        # orjson refuses a number over 64 bits in a schema, and text that is not well formed.
        return well_formed(json.dumps(body, default=_plain, ensure_ascii=False)).encode()


def _choice(name: str) -> str | dict[str, Any]:
    return name if name in ("none", "required") else {"type": "function", "function": {"name": name}}


def _options(options: ModelOptions, limit: str) -> dict[str, Any]:
    """The options that were asked for, and no others: a provider refuses an option that its model does not know."""
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


def _tool(spec: ToolSpec, strict: bool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": spec.name}
    if spec.description:
        function["description"] = spec.description
    function["parameters"] = spec.parameters
    if strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _plain(value: Any) -> Any:
    """A mapping of a schema or of an `extra` as a dict, which orjson can write."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
