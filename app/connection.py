"""uvicorn's connection, with what it lacks: a deadline on requests that do not come to an end.

Without one, a peer that connects and says nothing, or drips its headers or its body, is kept for ever.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

TRANSPORT = "ostinato.transport"
"""The ASGI extension whose `transport` is the one of the request's connection."""

REQUEST_SECONDS = 10.0
"""How long a request may take to arrive, headers and body, from the first byte (or from connecting)."""


class Connection(HttpToolsProtocol):
    """One connection. A request that does not arrive in time closes it; idle ones are uvicorn's to close."""

    request_seconds = REQUEST_SECONDS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {TRANSPORT: {"transport": self.transport}}
        if self._deadline is None:
            self._expect()

    def on_message_complete(self) -> None:
        self._arrived()
        super().on_message_complete()

    def _expect(self) -> None:
        self._deadline = self.loop.call_later(self.request_seconds, self._late)

    def _arrived(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        self.transport.close()
