"""A connection that is closed sends what was written, and waits for no peer.

Method: over real sockets, with TLS and without.
"""

from __future__ import annotations

import asyncio

import pytest

from kafkawire.sdk.protocol.frames import frame
from kafkawire.sdk.transport import stream
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.tls import PemFiles
from tests.certificates import Certificates
from tests.sdk.transport.test_stream import Notes, serve


def test_closing_does_not_wait_for_the_peer(certificates: Certificates) -> None:
    """A connection closed as the last thing that a program does leaves nothing open."""

    async def run() -> None:
        server, address, _ = await serve(certificates.context(certificates.broker))
        async with server:
            client = await TcpNetwork(tls=PemFiles(str(certificates.authority))).open(address, Notes)
            client.wire.close()
            for _ in range(3):
                await asyncio.sleep(0)
            assert client.lost.done()

    asyncio.run(run())


@pytest.mark.parametrize("mebibytes", [1, 3, 30])
@pytest.mark.parametrize("is_secured", [False, True])
def test_what_was_written_before_closing_arrives(certificates: Certificates, is_secured: bool, mebibytes: int) -> None:
    """As always with TCP, that holds if nothing from the peer is unread: so one frame comes from there first."""
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


@pytest.mark.parametrize("is_secured", [False, True])
def test_bytes_for_a_peer_that_hangs_are_given_up(
    certificates: Certificates, is_secured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would keep the socket and their memory for as long as the peer hangs."""
    monkeypatch.setattr(stream, "CLOSE_LINGER_SECONDS", 0.05)

    async def run() -> None:
        server, address, accepted = await serve(certificates.context(certificates.broker) if is_secured else None)
        tls = PemFiles(str(certificates.authority)) if is_secured else None
        notes = await TcpNetwork(tls=tls).open(address, Notes)
        while not (accepted and accepted[0].wire.is_open):
            await asyncio.sleep(0)
        transport = accepted[0].wire._transport  # type: ignore[attr-defined]  # of a FrameProtocol
        transport.pause_reading()
        notes.wire.write([frame(bytes(64 << 20))])
        notes.wire.close()
        async with asyncio.timeout(10):
            await notes.lost
        transport.abort()
        server.close()
        await server.wait_closed()

    asyncio.run(run())


@pytest.mark.parametrize("is_secured", [False, True])
def test_what_is_unsent_is_dropped_at_once(certificates: Certificates, is_secured: bool) -> None:
    async def run() -> None:
        server, address, accepted = await serve(certificates.context(certificates.broker) if is_secured else None)
        tls = PemFiles(str(certificates.authority)) if is_secured else None
        notes = await TcpNetwork(tls=tls).open(address, Notes)
        while not (accepted and accepted[0].wire.is_open):
            await asyncio.sleep(0)
        transport = accepted[0].wire._transport  # type: ignore[attr-defined]  # of a FrameProtocol
        transport.pause_reading()
        notes.wire.write([frame(bytes(64 << 20))])
        assert notes.wire.has_unsent
        notes.wire.abort()
        for _ in range(3):
            await asyncio.sleep(0)
        assert notes.lost.done()
        transport.abort()
        await accepted[0].lost
        server.close()
        await server.wait_closed()

    asyncio.run(run())


@pytest.mark.parametrize("is_secured", [False, True])
def test_sent_waits_until_everything_has_left(certificates: Certificates, is_secured: bool) -> None:
    async def run() -> None:
        server, address, accepted = await serve(certificates.context(certificates.broker) if is_secured else None)
        tls = PemFiles(str(certificates.authority)) if is_secured else None
        async with server:
            notes = await TcpNetwork(tls=tls).open(address, Notes)
            while not (accepted and accepted[0].wire.is_open):
                await asyncio.sleep(0)
            transport = accepted[0].wire._transport  # type: ignore[attr-defined]  # of a FrameProtocol
            transport.pause_reading()
            notes.wire.write([frame(bytes(16 << 20))])
            sent = asyncio.ensure_future(notes.wire.sent())
            for _ in range(3):
                await asyncio.sleep(0)
            assert not sent.done()
            transport.resume_reading()
            async with asyncio.timeout(10):
                await sent
            assert not notes.wire.has_unsent
            notes.wire.close()
            await notes.lost
            await accepted[0].lost

    asyncio.run(run())
