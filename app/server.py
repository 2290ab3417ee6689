"""uvicorn, with a shutdown that lets runs end and saves them before it closes.

At SIGTERM or Ctrl-C it does this, in order:

1. `/readyz` and new runs answer 503. The socket still accepts.
2. Runs under way get `drain_seconds` to end.
3. The others are stopped, and end with RUN_ERROR `draining`.
4. Connections are closed, and the lifespan ends.

A second Ctrl-C ends all of this early.
"""

import asyncio
import errno
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

import uvicorn
from fastapi import FastAPI
from sse_starlette.sse import AppStatus

from agent_core.errors import StoreError
from app.connection import Connection
from app.settings import Settings
from app.telemetry import configure_logging

BACKLOG = 2048

UNREAD_SECONDS = 30
"""Seconds that a peer may leave our data unacknowledged. Then the kernel drops the connection."""

GC_ALLOCATIONS = 5_000
"""Net allocations between two collections of the youngest objects. It is high because streams make many objects that
live for a moment and are freed without the collector."""

HASTE = 1.0
"""Seconds that open runs get at a second Ctrl-C, to save and to tell their clients."""

CLOSING_SECONDS = 2
"""Seconds that connections get after the drain. Everything is saved by then, and a client that never reads would keep
the server open for ever."""

logger = logging.getLogger(__name__)


class ListenError(OSError):
    """The server cannot listen on the address. The text is one sentence."""


class Server(uvicorn.Server):
    """Serves the app of `create_app`. `settings` are the app's. It calls `ready` when it listens.

    uvicorn does not document `startup` and `shutdown`, or the parts that they use here. But it has no other way to
    drain before the socket is closed. tests/app/test_private_parts.py has the list of these parts.
    """

    def __init__(self, app: FastAPI, settings: Settings, ready: Callable[[], None] = lambda: None) -> None:
        self.app = app
        self._ready = ready
        self.settings = settings
        self.refusal: StoreError | None = None
        # On import, sse-starlette replaces uvicorn's handler of signals. At SIGTERM it would end all streams, though
        # their runs still go on.
        AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]
        super().__init__(
            uvicorn.Config(
                app,
                host=settings.host,
                port=settings.port,
                loop="auto" if sys.platform == "win32" else "uvloop",
                http=Connection,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_graceful_shutdown=CLOSING_SECONDS,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and freeze the imported objects, so that no later garbage collection looks at them.

        It opens the store first, so that a failure is told in one sentence and not as a lifespan's traceback.
        """
        storage = getattr(self.app.state, "storage", None)
        try:
            if storage is not None:
                await storage.open()
        except StoreError as refusal:
            self.refusal = refusal
            self.should_exit = True
            return
        await super().startup(sockets)
        self._ready()
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_ALLOCATIONS, 20, 50)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain the runs, then do what uvicorn does."""
        await self._drain()
        if self.force_exit:
            self._abort_connections()
        await super().shutdown(sockets)
        if self.force_exit:
            # uvicorn leaves the lifespan's end out then, and its cancelled task would show a traceback.
            with suppress(TimeoutError):
                async with asyncio.timeout(HASTE):
                    await self.lifespan.shutdown()

    async def _drain(self) -> None:
        logger.info("draining for up to %g s", self.settings.drain_seconds)
        drain = asyncio.ensure_future(self.app.state.services.runs.drain(self.settings.drain_seconds))
        while not drain.done() and not self.force_exit:
            # Wait in steps, because the signal handler of a second Ctrl-C only sets a flag.
            await asyncio.wait({drain}, timeout=0.1)
        if not drain.done():
            drain.cancel()
            # Connected clients are told also now, since it takes only milliseconds.
            await asyncio.wait({asyncio.ensure_future(self.app.state.services.runs.drain(0))}, timeout=HASTE)
            await asyncio.sleep(0.05)  # for the readers to write it
        await asyncio.wait({drain})
        if not drain.cancelled() and drain.exception() is not None:
            logger.error("the drain failed", exc_info=drain.exception())

    def _abort_connections(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def bind(host: str, port: int) -> list[socket.socket]:
    """Listening sockets on every address of the host. Port 0 takes one free port for all of them. Raises
    ListenError."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise ListenError(f"The host {host!r} cannot be resolved: check --host or OSTINATO_HOST.") from None
    sockets: list[socket.socket] = []
    failure: OSError | None = None
    for family, _, _, _, address in dict.fromkeys(found):
        taken = sockets[0].getsockname()[1] if sockets else port
        try:
            sockets.append(_listen(family, (address[0], taken, *address[2:])))
        except OSError as exc:
            failure = exc
            if exc.errno == errno.EADDRINUSE:
                break
    # `localhost` may have an IPv6 address on a machine without IPv6, so one working address is enough.
    if sockets and (failure is None or failure.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)):
        return sockets
    for each in sockets:
        each.close()
    raise ListenError(_listen_failure(host, port, failure)) from None


def _listen(family: int, address: tuple[object, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # Connections inherit this. Without it, a peer that stopped reading would keep its socket for ever.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_SECONDS * 1000)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _listen_failure(host: str, port: int, failure: OSError | None) -> str:
    number = failure.errno if failure is not None else None
    if number == errno.EADDRINUSE:
        return f"Port {port} on {host} is in use: choose another with --port or OSTINATO_PORT."
    if number == errno.EACCES:
        return f"Port {port} on {host} needs more rights than this user has: choose one above 1023."
    return f"{host} is no address of this machine: check --host or OSTINATO_HOST."


def serve(
    app: FastAPI,
    settings: Settings,
    sockets: Sequence[socket.socket] | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Run the server until a signal ends it.

    - sockets: from `bind`, made here if None
    - ready: called when the server takes requests

    The process then ends by that signal, as supervisors and shells expect. It does not wait for the threads of
    synchronous tools. Raises ListenError, or StoreError if the store cannot be opened.
    """
    configure_logging(settings.log_level)
    listeners = list(sockets) if sockets is not None else bind(settings.host, settings.port)
    server = Server(app, settings, ready)
    try:
        server.run(sockets=listeners)
    except KeyboardInterrupt:
        # uvicorn raises the signals that it caught again after its shutdown. SIGTERM has ended the process by now.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
    if server.refusal is not None:
        raise server.refusal
