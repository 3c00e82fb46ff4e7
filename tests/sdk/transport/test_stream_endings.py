"""A closed connection sends the bytes written before, and does not wait for the peer.

Method: use real sockets, with and without TLS.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kafkawire.sdk.protocol.frames import frame
from kafkawire.sdk.transport import stream
from kafkawire.sdk.transport.stream import FrameProtocol, TcpNetwork
from kafkawire.sdk.transport.tls import PemFiles
from tests.certificates import Certificates
from tests.sdk.transport.noting import Notes, serve


def test_closing_does_not_wait_for_the_peer(certificates: Certificates) -> None:
    """Nothing is left open, even if closing a connection is the last thing that a program does."""

    async def run() -> None:
        server, address, _ = await serve(certificates.context(certificates.broker))
        async with server:
            client = await TcpNetwork(tls=PemFiles(str(certificates.authority))).open(address, Notes)
            client.wire.close()
            for _ in range(3):
                await asyncio.sleep(0)
            assert client.lost.done()

    asyncio.run(run())


class Slow(asyncio.Transport):
    """A transport that holds back some bytes, and calls its protocol like asyncio's own transports."""

    def __init__(self, protocol: FrameProtocol, unsent_bytes: int) -> None:
        super().__init__()
        self.protocol = protocol
        self.unsent_bytes = unsent_bytes
        self.limits: list[int | None] = []
        self.is_paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits.append(high)
        if high is not None and self.unsent_bytes > high and not self.is_paused:
            self.is_paused = True
            self.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def is_closing(self) -> bool:
        return False

    def writelines(self, list_of_data: Any) -> None:
        self.unsent_bytes += sum(map(len, list_of_data))

    def send(self) -> None:
        self.unsent_bytes = 0
        self.protocol.resume_writing()


def test_a_single_byte_that_is_unsent_is_waited_for() -> None:
    async def run() -> None:
        protocol = FrameProtocol(Notes)
        transport = Slow(protocol, 1)
        protocol.connection_made(transport)
        sent = asyncio.ensure_future(protocol.sent())
        await asyncio.sleep(0)
        assert not sent.done()
        transport.send()
        await sent
        assert transport.limits == [stream.WRITE_BUFFER_BYTES, 0, stream.WRITE_BUFFER_BYTES]

    asyncio.run(run())


def test_who_no_longer_waits_for_unsent_bytes_leaves_the_limits_as_they_were() -> None:
    async def run() -> None:
        protocol = FrameProtocol(Notes)
        transport = Slow(protocol, 1)
        protocol.connection_made(transport)
        sent = asyncio.ensure_future(protocol.sent())
        await asyncio.sleep(0)
        sent.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sent
        assert transport.limits == [stream.WRITE_BUFFER_BYTES, 0, stream.WRITE_BUFFER_BYTES]

    asyncio.run(run())


def test_a_few_requests_may_be_unsent_before_writing_pauses() -> None:
    async def run() -> None:
        protocol = FrameProtocol(Notes)
        transport = Slow(protocol, 0)
        protocol.connection_made(transport)
        for _ in range(3):
            protocol.write([bytes(1024 * 1024)])
            assert not protocol.is_congested
        for _ in range(5):
            protocol.write([bytes(1024 * 1024)])
        assert protocol.is_congested
        transport.send()
        assert not protocol.is_congested

    asyncio.run(run())


@pytest.mark.parametrize("mebibytes", [1, 3, 30])
@pytest.mark.parametrize("is_secured", [False, True])
def test_what_was_written_before_closing_arrives(certificates: Certificates, is_secured: bool, mebibytes: int) -> None:
    """As always with TCP, no bytes from the peer may remain unread, so the peer sends one frame first."""
    content = bytes(mebibytes * 1024 * 1024)

    async def run() -> None:
        server, address, accepted = await serve(certificates.context(certificates.broker) if is_secured else None)
        async with server:
            network = TcpNetwork(tls=PemFiles(str(certificates.authority)) if is_secured else None)
            client = await network.open(address, Notes)
            while not (accepted and accepted[0].wire.is_open):
                await asyncio.sleep(0)
            accepted[0].wire.write([frame(b"hello")])
            while not client.frames:
                await asyncio.sleep(0)
            client.wire.write([frame(content)])
            client.wire.close()
            await client.lost
            await accepted[0].lost
            assert accepted[0].frames == [content]

    asyncio.run(run())


@asynccontextmanager
async def peer_that_hangs(
    certificates: Certificates, is_secured: bool
) -> AsyncIterator[tuple[Notes, Notes, asyncio.Transport]]:
    """Yield a client, its connected peer, and the peer's transport, which does not read for now."""
    server, address, accepted = await serve(certificates.context(certificates.broker) if is_secured else None)
    async with server:
        client = await TcpNetwork(tls=PemFiles(str(certificates.authority)) if is_secured else None).open(
            address, Notes
        )
        while not (accepted and accepted[0].wire.is_open):
            await asyncio.sleep(0)
        transport = accepted[0].wire._transport  # type: ignore[attr-defined]  # it is a FrameProtocol
        transport.pause_reading()
        yield client, accepted[0], transport


@pytest.mark.parametrize("is_secured", [False, True])
def test_bytes_for_a_peer_that_hangs_are_given_up(
    certificates: Certificates, is_secured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the bytes would keep the socket and their memory for as long as the peer hangs."""
    monkeypatch.setattr(stream, "CLOSE_LINGER_SECONDS", 0.05)

    async def run() -> None:
        async with peer_that_hangs(certificates, is_secured) as (client, _, transport):
            client.wire.write([frame(bytes(64 << 20))])
            client.wire.close()
            async with asyncio.timeout(10):
                await client.lost
            transport.abort()

    asyncio.run(run())


@pytest.mark.parametrize("is_secured", [False, True])
def test_what_is_unsent_is_dropped_at_once(certificates: Certificates, is_secured: bool) -> None:
    async def run() -> None:
        async with peer_that_hangs(certificates, is_secured) as (client, peer, transport):
            client.wire.write([frame(bytes(64 << 20))])
            assert client.wire.has_unsent
            client.wire.abort()
            for _ in range(3):
                await asyncio.sleep(0)
            assert client.lost.done()
            transport.abort()
            await peer.lost

    asyncio.run(run())


@pytest.mark.parametrize("is_secured", [False, True])
def test_sent_waits_until_everything_has_left(certificates: Certificates, is_secured: bool) -> None:
    async def run() -> None:
        async with peer_that_hangs(certificates, is_secured) as (client, peer, transport):
            client.wire.write([frame(bytes(16 << 20))])
            sent = asyncio.ensure_future(client.wire.sent())
            for _ in range(3):
                await asyncio.sleep(0)
            assert not sent.done()
            transport.resume_reading()
            async with asyncio.timeout(10):
                await sent
            assert not client.wire.has_unsent
            client.wire.close()
            await client.lost
            await peer.lost

    asyncio.run(run())
