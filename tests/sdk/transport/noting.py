"""Receivers that record what arrives, and a server that uses them."""

from __future__ import annotations

import asyncio
import ssl

from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.transport.stream import FrameProtocol
from kafkawire.sdk.transport.wire import Address, Wire

__all__ = ["Notes", "serve"]


class Notes:
    """A receiver that keeps all frames."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.frames: list[bytes] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def receive_frame(self, frame: Buffer) -> None:
        self.frames.append(bytes(frame))

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(error)


async def serve(context: ssl.SSLContext | None) -> tuple[asyncio.Server, Address, list[Notes]]:
    """Listen like a broker called localhost; return the server, its address, and a list that gets its receivers."""
    accepted: list[Notes] = []

    def accept(wire: Wire) -> Notes:
        accepted.append(Notes(wire))
        return accepted[-1]

    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: FrameProtocol(accept), "127.0.0.1", 0, ssl=context)
    return server, Address("localhost", server.sockets[0].getsockname()[1]), accepted
