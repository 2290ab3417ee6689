"""uvicorn's connection, with bounds on requests that do not end.

Without bounds, a peer that connects and sends nothing is kept for ever, and so is one that sends its headers or body
very slowly. A peer that sends headers without end fills the memory.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.errors import error_answer

TRANSPORT = "ostinato.transport"
"""The ASGI extension that holds the `transport` of the request's connection."""

REQUEST_SECONDS = 10.0
"""Seconds that a request may take to arrive, with headers and body, from its first byte or from the connection."""

LARGEST_HEAD = 64 * 1024
"""Bytes in a row that belong to no body: a request's line and headers, or its trailers. HeaderLimit allows a complete
request less. h11 has the same bound."""


class Connection(HttpToolsProtocol):
    """One connection. It is closed if a request does not arrive in time, or if its headers do not end. uvicorn closes
    idle connections.

    The parent is not public. But uvicorn has no setting for these bounds, and an ASGI application sees a request only
    when its headers have ended. tests/app/test_private_parts.py lists the parts of the parent that are used.
    """

    request_seconds = REQUEST_SECONDS
    _deadline: asyncio.TimerHandle | None = None
    _moved = False
    _bodiless = 0
    _earlier: tuple[RequestResponseCycle, ...] = ()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        for cycle in self._unanswered():
            cycle.disconnected = True  # uvicorn tells only the last of several requests
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._moved = False
        super().data_received(data)
        self._bodiless = 0 if self._moved else self._bodiless + len(data)
        if self._bodiless > LARGEST_HEAD and not self.transport.is_closing():
            self._refuse()

    def on_message_begin(self) -> None:
        self._moved = True
        if self.cycle is not None:
            self._earlier = tuple(each for each in (*self._earlier, self.cycle) if not each.response_complete)
        super().on_message_begin()
        self.scope["extensions"] = {TRANSPORT: {"transport": self.transport}}
        if self._deadline is None:
            self._expect()

    def on_headers_complete(self) -> None:
        self._moved = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._moved = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._arrived()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._deadline is not None:  # the next request has begun, and its time counts from now on
            self._arrived()
            self._expect()

    def _expect(self) -> None:
        self._deadline = self.loop.call_later(self.request_seconds, self._late)

    def _arrived(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self) -> None:
        """Close the connection. Send an answer first, unless another answer has begun."""
        if self.cycle is None or self.cycle.response_complete:
            answer = error_answer({}, "invalid_request", "The request's headers do not end.", status=431)
            head = [b"HTTP/1.1 431 Request Header Fields Too Large", b"connection: close"]
            head += (name + b": " + value for name, value in answer.raw_headers)
            self.transport.write(b"\r\n".join(head) + b"\r\n\r\n" + bytes(answer.body))
        self.transport.close()

    def _late(self) -> None:
        self._deadline = None
        if self._unanswered():
            self._expect()  # nothing is read until the request before has its answer, and that may be a long stream
        else:
            self.transport.close()

    def _unanswered(self) -> list[RequestResponseCycle]:
        """The requests before the last one whose answers are not complete."""
        return [each for each in self._earlier if not each.response_complete]
