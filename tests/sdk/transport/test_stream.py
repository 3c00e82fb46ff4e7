"""Frames arrive as they were sent, however the stream is cut; hostile lengths disconnect; `drain` waits for slow peers.

Method: the protocol is driven as the event loop drives it, with a transport that only notes; then once over a real
socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from kafkawire.sdk.protocol.frames import FrameTooLarge, frame
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.transport.stream import RECEIVE_BUFFER_BYTES, FrameProtocol, TcpNetwork
from kafkawire.sdk.transport.wire import Address, Wire

SMALL = [b"", b"a", b"\x00" * 300]
BIG = [bytes(range(256)) * 300, b"b", bytes(RECEIVE_BUFFER_BYTES - 4), bytes(RECEIVE_BUFFER_BYTES - 3), b"c"]


class Notes:
    """A receiver that keeps what it gets."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.frames: list[bytes] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def receive_frame(self, frame: Buffer) -> None:
        self.frames.append(bytes(frame))

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(error)


class NotingTransport(asyncio.Transport):
    """A transport that sends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.written += map(bytes, list_of_data)

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    close = abort


def feed(protocol: FrameProtocol, data: bytes, step: int) -> None:
    """Give bytes to a protocol, at most `step` at a time."""
    view = memoryview(data)
    while view:
        buffer = protocol.get_buffer(-1)
        assert len(buffer) > 0
        count = min(step, len(buffer), len(view))
        buffer[:count] = view[:count]
        protocol.buffer_updated(count)
        view = view[count:]


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 1000, 10**9])
@pytest.mark.parametrize("frames", [SMALL, SMALL * 3])
def test_small_frames(frames: list[bytes], step: int) -> None:
    async def run() -> None:
        protocol = FrameProtocol(Notes)
        protocol.connection_made(NotingTransport())
        feed(protocol, b"".join(map(frame, frames)), step)
        assert isinstance(protocol.receiver, Notes)
        assert protocol.receiver.frames == frames

    asyncio.run(run())


@pytest.mark.parametrize("step", [997, 4096, RECEIVE_BUFFER_BYTES, 10**9])
def test_big_frames_between_small_ones(step: int) -> None:
    async def run() -> None:
        protocol = FrameProtocol(Notes)
        protocol.connection_made(NotingTransport())
        feed(protocol, b"".join(map(frame, [*SMALL, *BIG, *SMALL])), step)
        assert isinstance(protocol.receiver, Notes)
        assert protocol.receiver.frames == [*SMALL, *BIG, *SMALL]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("length", "accepted"), [(-1, False), (0, True), (1000, True), (1001, False), (2**31 - 1, False)]
)
def test_limit(length: int, accepted: bool) -> None:
    async def run() -> None:
        protocol = FrameProtocol(Notes, max_frame_bytes=1000)
        transport = NotingTransport()
        protocol.connection_made(transport)
        feed(protocol, length.to_bytes(4, "big", signed=True), 4)
        assert transport.aborted is not accepted
        if not accepted:
            protocol.connection_lost(None)
            assert isinstance(protocol.receiver, Notes)
            assert isinstance(protocol.receiver.lost.result(), FrameTooLarge)

    asyncio.run(run())


def test_drain_waits_while_writing_is_paused() -> None:
    async def run() -> None:
        protocol = FrameProtocol(Notes)
        protocol.connection_made(NotingTransport())
        await protocol.drain()
        protocol.pause_writing()
        waiting = asyncio.ensure_future(protocol.drain())
        await asyncio.sleep(0)
        assert not waiting.done()
        protocol.resume_writing()
        await waiting

    asyncio.run(run())


def test_a_lost_connection_ends_the_wait() -> None:
    async def run() -> None:
        protocol = FrameProtocol(Notes)
        protocol.connection_made(NotingTransport())
        protocol.pause_writing()
        waiting = asyncio.ensure_future(protocol.drain())
        await asyncio.sleep(0)
        protocol.connection_lost(None)
        await waiting

    asyncio.run(run())


def test_nothing_is_written_after_close() -> None:
    async def run() -> None:
        protocol = FrameProtocol(Notes)
        transport = NotingTransport()
        assert not protocol.is_open
        protocol.write([b"too early"])
        protocol.connection_made(transport)
        protocol.write([b"a", b"b"])
        protocol.close()
        protocol.write([b"too late"])
        assert transport.written == [b"a", b"b"]

    asyncio.run(run())


def test_over_a_socket() -> None:
    """Both roles over loopback: what one end writes the other receives, big frames too, and closing is seen."""

    async def run() -> None:
        accepted: list[Notes] = []

        def accept(wire: Wire) -> Notes:
            accepted.append(Notes(wire))
            return accepted[-1]

        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: FrameProtocol(accept), "127.0.0.1", 0)
        async with server:
            client = await TcpNetwork().open(Address(*server.sockets[0].getsockname()), Notes)
            for content in [*SMALL, *BIG]:
                client.wire.write([frame(content)])
                await client.wire.drain()
            client.wire.close()
            assert await client.lost is None
            assert await accepted[0].lost is None
            assert accepted[0].frames == [*SMALL, *BIG]

    asyncio.run(run())
