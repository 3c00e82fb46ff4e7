"""The two ends of an in-process connection behave like the two ends of a socket.

Method: use receivers that record frames and losses; the event loop orders the events.
"""

from __future__ import annotations

import asyncio

import pytest

from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.frames import FrameTooLarge, frame
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.transport.memory import MemoryNetwork, MemoryWire, join
from kafkawire.sdk.transport.wire import Address, Wire


class Notes:
    """A receiver that keeps all frames."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.frames: list[bytes] = []
        self.losses: list[Exception | None] = []

    def receive_frame(self, frame: Buffer) -> None:
        self.frames.append(bytes(frame))

    def connection_lost(self, error: Exception | None) -> None:
        self.losses.append(error)


def pair(max_frame_bytes: int = 1000) -> tuple[Notes, Notes]:
    """Return both ends of a connection."""
    servers: list[Notes] = []

    def serve(wire: Wire) -> Notes:
        servers.append(Notes(wire))
        return servers[0]

    return join(Notes, serve, max_frame_bytes), servers[0]


def test_frames_pass_both_ways() -> None:
    async def run() -> None:
        client, server = pair()
        client.wire.write([frame(b"ab"), frame(b"")[:2]])
        client.wire.write([frame(b"")[2:]])
        server.wire.write([frame(b"answer")])
        assert server.frames == []
        await client.wire.drain()
        assert server.frames == [b"ab", b""]
        assert client.frames == [b"answer"]

    asyncio.run(run())


def test_an_end_without_a_receiver_drops_what_comes() -> None:
    async def run() -> None:
        wire = MemoryWire(1000)
        wire._receive(frame(b"early"))
        wire.close()
        await asyncio.sleep(0)
        assert not wire.is_open

    asyncio.run(run())


def test_close_is_seen_by_both_and_ends_writing() -> None:
    async def run() -> None:
        client, server = pair()
        client.wire.close()
        client.wire.close()
        server.wire.write([frame(b"too late")])
        await client.wire.drain()
        assert (client.losses, server.losses) == ([None], [None])
        assert client.frames == []
        assert not server.wire.is_open

    asyncio.run(run())


def test_a_frame_above_the_limit_breaks_the_connection() -> None:
    async def run() -> None:
        client, server = pair(max_frame_bytes=3)
        client.wire.write([frame(b"abc"), frame(b"abcd")])
        await client.wire.drain()
        await client.wire.drain()
        assert server.frames == [b"abc"]
        assert isinstance(server.losses[0], FrameTooLarge)
        assert client.losses == [None]

    asyncio.run(run())


class Choosy(Notes):
    """A receiver that accepts frames of at most three bytes."""

    def check_length(self, length: int) -> None:
        if length > 3:
            raise RemoteProtocolError(f"{length} bytes are too many")


def test_a_receiver_refuses_a_frame_that_has_begun() -> None:
    async def run() -> None:
        servers: list[Choosy] = []

        def serve(wire: Wire) -> Choosy:
            servers.append(Choosy(wire))
            return servers[-1]

        client = join(Notes, serve)
        client.wire.write([frame(b"abc")[:5]])
        client.wire.write([frame(b"abc")[5:], frame(b"abcd")[:4]])
        await client.wire.drain()
        await client.wire.drain()
        assert servers[0].frames == [b"abc"]
        assert [str(error) for error in servers[0].losses] == ["4 bytes are too many"]

    asyncio.run(run())


def test_network_finds_servers_by_address() -> None:
    async def run() -> None:
        network = MemoryNetwork()
        with pytest.raises(ConnectionRefusedError, match="nothing listens at there:1"):
            await network.open(Address("there", 1), Notes)
        network.servers[Address("there", 1)] = Notes
        assert (await network.open(Address("there", 1), Notes)).wire.is_open

    asyncio.run(run())
