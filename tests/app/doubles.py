"""Small stand-ins for the tests of the outer floor."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from app.server import Server, bind
from app.settings import Settings


async def silence(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers nothing."""


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must happen soon; ten seconds mean that it will not."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for belongs to uvicorn, which sets no event
            await asyncio.sleep(0.005)


class PromptServer(Server):
    """Ends when it is told to, and not up to a tenth of a second later, when uvicorn looks next."""

    def __init__(self, app: FastAPI, settings: Settings) -> None:
        super().__init__(app, settings)
        self.told = asyncio.Event()

    async def main_loop(self) -> None:
        ways = [asyncio.ensure_future(each) for each in (super().main_loop(), self.told.wait())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ways:
                each.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server in the test's own event loop."""

    server: PromptServer
    port: int
    task: "asyncio.Task[None]"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def running(app: FastAPI, settings: Settings) -> AsyncIterator[Running]:
    """Serve the app on a free port of the loopback interface, and stop it at the end."""
    sockets = bind("127.0.0.1", 0)
    server = PromptServer(app, settings)
    task = asyncio.create_task(_serve(server, sockets))
    await until(lambda: server.started or task.done())
    try:
        assert server.started
        yield Running(server=server, port=sockets[0].getsockname()[1], task=task)
    finally:
        server.should_exit = True
        server.told.set()
        await task


async def _serve(server: Server, sockets: list[socket.socket]) -> None:
    try:
        # Not `serve`: that would take the signal handlers from pytest.
        await server._serve(sockets)
    except SystemExit as exc:
        # It would end the event loop, and pytest with it.
        raise RuntimeError(f"the server did not start: {exc.code}") from None
    finally:
        for each in sockets:
            each.close()
