"""A gate at which the tools of a server process wait, until the test lets them go.

async with Gatehouse() as gate:
    ...                              a server with FAULTS_GATE=str(gate.port) runs `hold:x`
    await gate.arrived("x")          the tool is running now
    gate.let_go("x")
"""

import asyncio
from collections import defaultdict
from typing import Self, cast


class Gatehouse:
    """Listens on loopback. Whoever is let go before arriving passes at once; a name holds for one test."""

    def __init__(self) -> None:
        self.port = 0
        self.waiting: defaultdict[str, set[asyncio.Transport]] = defaultdict(set)
        self._arrivals: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._free: set[str] = set()
        self._guests: set[asyncio.Transport] = set()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Guest(self), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for transport in list(self._guests):
            transport.abort()
        await self._server.wait_closed()

    async def arrived(self, name: str) -> None:
        """Return when the tool is running; TimeoutError after half a minute."""
        async with asyncio.timeout(30):
            await self._arrivals[name].wait()

    def let_go(self, name: str) -> None:
        self._free.add(name)
        for transport in self.waiting.pop(name, ()):
            transport.write(b"go\n")

    def came(self, transport: asyncio.Transport, name: str) -> None:
        self._arrivals[name].set()
        if name in self._free:
            transport.write(b"go\n")
        else:
            self.waiting[name].add(transport)

    def entered(self, transport: asyncio.Transport) -> None:
        self._guests.add(transport)

    def left(self, transport: asyncio.Transport) -> None:
        self._guests.discard(transport)
        for guests in self.waiting.values():
            guests.discard(transport)


class _Guest(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, gate: Gatehouse) -> None:
        self._gate = gate
        self._said = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: uvloop's transports are not derived from asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        self._gate.entered(self.transport)

    def data_received(self, data: bytes) -> None:
        self._said += data
        if self._said.endswith(b"\n"):
            self._gate.came(self.transport, self._said.decode().strip())

    def connection_lost(self, exc: Exception | None) -> None:
        self._gate.left(self.transport)
