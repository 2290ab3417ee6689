"""The one HTTP client that the engine lends to the models: JSON out, SSE payloads in.

It uses aiohttp's transport for httpx. A chunk costs a third of its cost with httpx's own transport.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from agent_core.aside import Aside
from agent_core.errors import ModelError
from agent_core.models.failures import failed_status, failed_transport, secrets_in, snippet
from agent_core.models.idle_watch import IdleWatch
from agent_core.models.sse_lines import SseLines, too_long

MAX_ERROR = 64_000
"""Bytes of an error's body that are read."""

MAX_JSON = 4_000_000
"""Bytes at most of an answer that is one JSON value."""

MAX_CONNECTIONS = 10_000

LINGER = 0.25
"""Seconds to wait after `[DONE]` for the end of the body, so that the connection can be used again."""

DONE = b"[DONE]"

HEADERS: Final[Mapping[str, str]] = {
    "accept": "text/event-stream, application/json",
    "accept-encoding": "identity",
    "content-type": "application/json",
    "user-agent": "ostinato",
}
"""The headers of each call. The call's own headers replace them."""

BODY = "ostinato.body"
"""The httpx extension that holds aiohttp's own iterator over a response's body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The time limits of a model call, in seconds.

    - connect: until the connection stands
    - idle: without data of the answer; comments that only keep the connection alive are no data
    """

    connect: float = 10.0
    idle: float = 60.0


class HttpClient:
    """Connections to model providers. They are opened at the first call, kept and used again.

    Use it as a context manager, or call `aclose`. Proxies and certificates come from the usual environment variables.
    Redirects are not followed, cookies are not kept, and ~/.netrc is not read. A model makes a large request's body in
    `aside`.
    """

    def __init__(self, timeouts: Timeouts | None = None, aside: Aside | None = None) -> None:
        self.timeouts = timeouts if timeouts is not None else Timeouts()
        self.aside = aside if aside is not None else Aside()
        self._proxies: dict[str, str] = {}
        self._clients: dict[str, Any] = {}
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections. The client can be used again, and then opens new ones."""
        clients = list(self._clients.values())
        self._clients.clear()
        for client in clients:
            await client.aclose()

    async def post_sse(self, url: str, headers: Mapping[str, str], body: bytes) -> AsyncGenerator[list[bytes], None]:
        """POST a JSON body and yield the answer's SSE payloads, a list for each read that has some.

        An answer of type application/json is one payload. Raises ModelError for every failure (see failures.py), and
        model_timeout after `timeouts.idle` without headers or data. Closing the generator closes the connection, unless
        the whole answer has been read.
        """
        hide = secrets_in(headers)
        watch = response = None
        try:
            client = await self._client(url)
            watch = IdleWatch(self.timeouts.idle)
            response = await watch.wait(client.post(url, headers, body))
            reads = _reads(response)
            if not await _is_stream(response, reads, watch, hide):
                yield [await _whole(reads, watch)]
                return
            lines = SseLines()
            with watch:
                async for chunk in reads:
                    if payloads := lines.feed(chunk):
                        watch.rest()
                        yield payloads
                        if payloads[-1] == DONE:
                            await _linger(reads)
                            return
                        watch.start()
            if payloads := lines.close():
                yield payloads
        except ModelError:
            raise
        except Exception as error:
            failure = failed_transport(error, hide)
            if failure is None:
                raise
            # The cause's own text may repeat our request, with the key.
            raise failure from None
        finally:
            if watch is not None:
                watch.close()
            if response is not None:
                await response.aclose()

    async def _client(self, url: str) -> Any:
        """The client for this URL. There is one for each proxy, and one for no proxy."""
        if url not in self._proxies:
            self._proxies[url] = _proxy_of(url)
        proxy = self._proxies[url]
        if proxy not in self._clients:
            async with self._opening:
                if proxy not in self._clients:
                    # In a thread, because the imports and the certificates would hold up all other runs.
                    self._clients[proxy] = await asyncio.to_thread(_open_client, proxy, self.timeouts.connect)
        return self._clients[proxy]


def _open_client(proxy: str, connect: float) -> Any:
    # Imported late: it takes a third of a second, and a server with only fake:fake does not need it.
    import aiohttp
    import httpx
    from httpx_aiohttp import AiohttpTransport

    certificates = httpx.create_ssl_context()

    def session() -> aiohttp.ClientSession:
        # Not trust_env: aiohttp would read ~/.netrc in a thread for each call. If that names the host or a default, it
        # would refuse a call with an Authorization header.
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS, ssl=certificates),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    class Transport(AiohttpTransport):
        """Is called without httpx's own client. Its redirects, cookies and authentication are not wanted here, and cost
        a tenth of a short run. It also hands on the body as aiohttp has it, because each layer of httpx around that
        costs as much as reading a chunk's JSON."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._urls: dict[str, httpx.URL] = {}

        async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> httpx.Response:
            parsed = self._urls.get(url) or self._urls.setdefault(url, httpx.URL(url))
            extensions = {"timeout": {"connect": connect}}
            request = httpx.Request("POST", parsed, headers={**HEADERS, **headers}, content=body, extensions=extensions)
            response = await self.handle_async_request(request)
            # The attribute is not public, but nothing else leads to aiohttp's response. If it is missing, the body
            # comes through httpx, the same but slower, and a test fails.
            inner = getattr(response.stream, "_aiohttp_response", None)
            if inner is not None:
                response.extensions[BODY] = inner.content.iter_any()
            return response

    return Transport(client=session, verify=certificates, proxy=httpx.Proxy(proxy) if proxy else None)


def _proxy_of(url: str) -> str:
    """The proxy for this URL in the environment, or an empty string."""
    parts = urlsplit(url)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return ""
    known = getproxies()
    proxy = known.get(parts.scheme) or known.get("all") or ""
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _reads(response: Any) -> AsyncIterator[bytes]:
    """The body as it arrives. It comes from aiohttp itself if it need not be decoded."""
    encoded = response.headers.get("content-encoding", "identity") != "identity"
    reads: AsyncIterator[bytes] | None = None if encoded else response.extensions.get(BODY)
    return reads if reads is not None else aiter(response.aiter_bytes())


async def _is_stream(response: Any, reads: AsyncIterator[bytes], watch: IdleWatch, hide: tuple[str, ...]) -> bool:
    """Whether the answer is an event stream. If not, it is one JSON value. Raises ModelError if it is neither."""
    status = response.status_code
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if 200 <= status < 300:
        if kind == "text/event-stream":
            return True
        if kind == "application/json" or kind.endswith("+json"):
            return False
        detail = f"HTTP {status} of type {kind or 'unknown'}: {snippet(await _start(reads, watch), hide)}"
        raise ModelError("model_bad_answer", detail=detail, status=status)
    retry_after = response.headers.get("retry-after")
    raise failed_status(status, await _start(reads, watch), retry_after=retry_after, hide=hide)


async def _start(reads: AsyncIterator[bytes], watch: IdleWatch) -> bytes:
    """The part of an error's body that comes, up to MAX_ERROR. A missing rest does no harm, since the status is
    known."""
    body = b""
    try:
        while len(body) < MAX_ERROR and (chunk := await watch.wait(anext(reads, b""))):
            body += chunk
    except Exception:
        return body
    return body


async def _whole(reads: AsyncIterator[bytes], watch: IdleWatch) -> bytes:
    body = bytearray()
    while chunk := await watch.wait(anext(reads, b"")):
        body += chunk
        if len(body) > MAX_JSON:
            raise too_long("the answer", MAX_JSON)
    return bytes(body)


async def _linger(reads: AsyncIterator[bytes]) -> None:
    """Read on to the end of the body for a short time. Ignore all failures, because the answer is complete."""
    try:
        async with asyncio.timeout(LINGER):
            while await anext(reads, b""):
                pass
    except Exception:
        return
