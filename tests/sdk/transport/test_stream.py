"""Frames arrive as sent, however the stream is split; hostile lengths disconnect it; `drain` waits for slow peers.

Method: drive the protocol as the event loop does, with a transport that only records; then use real sockets, without
and with TLS.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable
from typing import cast

import pytest

from kafkawire.sdk.errors import ConfigurationError, RemoteProtocolError
from kafkawire.sdk.protocol.frames import FrameTooLarge, frame
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.transport import stream
from kafkawire.sdk.transport.sockets import Endpoint
from kafkawire.sdk.transport.stream import RECEIVE_BUFFER_BYTES, FrameProtocol, TcpNetwork, remaining
from kafkawire.sdk.transport.tls import PemFiles, tls_context
from kafkawire.sdk.transport.wire import Address, Wire
from tests.certificates import Certificates
from tests.sdk.transport.noting import Notes, serve

SMALL = [b"", b"a", b"\x00" * 300]
BIG = [bytes(range(256)) * 300, b"b", bytes(RECEIVE_BUFFER_BYTES - 4), bytes(RECEIVE_BUFFER_BYTES - 3), b"c"]


class NotingTransport(asyncio.Transport):
    """A transport that records what is written, and sends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return 0

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
    """Pass bytes to a protocol, at most `step` of them at a time."""
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


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 4])
def test_bytes_of_former_frames_are_no_length(cut: int) -> None:
    """The buffer is reused, so it still has older bytes behind an incomplete length."""

    async def run() -> None:
        protocol = FrameProtocol(Notes)
        transport = NotingTransport()
        protocol.connection_made(transport)
        feed(protocol, frame(b"\xff" * 100), 200)
        second, third = frame(b"abc"), frame(b"defg")
        feed(protocol, second + third[:cut], 200)
        feed(protocol, third[cut:], 200)
        assert isinstance(protocol.receiver, Notes)
        assert protocol.receiver.frames == [b"\xff" * 100, b"abc", b"defg"]
        assert not transport.aborted

    asyncio.run(run())


def test_a_small_frame_that_is_kept_stays_as_it_was() -> None:
    """The buffer in which the frame arrived is reused for the next frame."""
    kept: list[Buffer] = []

    class Keeping(Notes):
        def receive_frame(self, frame: Buffer) -> None:
            kept.append(frame)

    async def run() -> None:
        protocol = FrameProtocol(Keeping)
        protocol.connection_made(NotingTransport())
        for content in (b"first", b"other"):
            feed(protocol, frame(content), 200)
        assert kept == [b"first", b"other"]

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


class Choosy(Notes):
    """A receiver that accepts frames that fit into the reusable buffer."""

    def check_length(self, length: int) -> None:
        if length > RECEIVE_BUFFER_BYTES:
            raise RemoteProtocolError(f"{length} bytes are too many")


@pytest.mark.parametrize(("length", "accepted"), [(RECEIVE_BUFFER_BYTES, True), (RECEIVE_BUFFER_BYTES + 1, False)])
def test_a_receiver_refuses_a_frame_that_has_begun(
    length: int, accepted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []

    def take(size: int) -> memoryview:
        taken.append(size)
        return memoryview(bytearray(size))

    monkeypatch.setattr("kafkawire.sdk.transport.stream.take_memory", take)

    async def run() -> None:
        protocol = FrameProtocol(Choosy)
        transport = NotingTransport()
        protocol.connection_made(transport)
        feed(protocol, frame(b"ab") + length.to_bytes(4, "big"), 10)
        assert isinstance(protocol.receiver, Choosy)
        assert protocol.receiver.frames == [b"ab"]
        assert transport.aborted is not accepted
        assert taken == ([length] if accepted else [])
        if not accepted:
            protocol.connection_lost(None)
            assert str(protocol.receiver.lost.result()) == f"{length} bytes are too many"

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


def test_a_receiver_that_fails_leaves_nobody_waiting() -> None:
    class Failing(Notes):
        def connection_lost(self, error: Exception | None) -> None:
            raise ZeroDivisionError

    async def run() -> None:
        protocol = FrameProtocol(Failing)
        protocol.connection_made(NotingTransport())
        protocol.pause_writing()
        waiting = asyncio.ensure_future(protocol.drain())
        await asyncio.sleep(0)
        with pytest.raises(ZeroDivisionError):
            protocol.connection_lost(None)
        await asyncio.wait_for(waiting, 10)

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
    """Over loopback, each end receives what the other writes, even big frames, and notices the close."""

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


class PausingServer(asyncio.Protocol):
    """A server that reads nothing until reading resumes, and then keeps everything."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transport has no base class
        self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self.content += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)


#: More bytes than the buffers of both sockets hold.
MUCH = 32 * 1024 * 1024


@pytest.mark.parametrize("is_gathering", [True, False])
def test_what_the_socket_does_not_take_follows_in_order(is_gathering: bool) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = PausingServer()
        async with await loop.create_server(lambda: server, "127.0.0.1", 0) as listener:
            client = await TcpNetwork().open(Address(*listener.sockets[0].getsockname()), Notes)
            wire = client.wire
            assert isinstance(wire, FrameProtocol)
            if not is_gathering:  # as on Windows
                wire._sendmsg = None
            wire.write([b"head", memoryview(b"x" * 1000)])
            assert not wire.has_unsent
            wire.write([b"a" * MUCH, b"b", memoryview(b"c" * 1000)])
            wire.write([b"d"])
            assert wire.has_unsent
            assert wire.is_congested
            sent = asyncio.ensure_future(wire.sent())
            await asyncio.sleep(0)
            assert not sent.done()
            server.transport.resume_reading()
            await sent
            assert not wire.has_unsent
            assert not wire.is_congested
            wire.close()
            await server.ended
            assert server.content == b"head" + b"x" * 1000 + b"a" * MUCH + b"b" + b"c" * 1000 + b"d"

    asyncio.run(run())


@pytest.mark.parametrize("sent_bytes", range(7))
def test_what_is_left_of_several_parts(sent_bytes: int) -> None:
    parts = [b"ab", b"", b"cde", b"f"]
    assert b"".join(remaining(parts, sent_bytes)) == b"abcdef"[sent_bytes:]


def test_a_transport_whose_connection_was_lost_is_left_alone() -> None:
    """A uvloop transport raises errors after that."""

    async def run() -> None:
        transport, protocol = NotingTransport(), FrameProtocol(Notes)
        protocol.connection_made(transport)
        protocol.connection_lost(None)
        transport.high = -1
        await protocol.sent()
        protocol.close()
        assert (transport.high, transport.aborted) == (-1, False)

    asyncio.run(run())


def test_nothing_is_waited_for_if_nothing_is_unsent() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = PausingServer()
        async with await loop.create_server(lambda: server, "127.0.0.1", 0) as listener:
            client = await TcpNetwork().open(Address(*listener.sockets[0].getsockname()), Notes)
            await client.wire.sent()
            client.wire.write([b"x" * MUCH])
            sent = asyncio.ensure_future(client.wire.sent())
            await asyncio.sleep(0)
            assert isinstance(client.wire, FrameProtocol)
            client.wire._fail(ConnectionError("the peer misbehaved"))
            await sent
            server.transport.abort()
            await server.ended
        await FrameProtocol(Notes).sent()

    asyncio.run(run())


# ----------------------------------------------------------------------------------------------------------------- TLS


def refused(context: ssl.SSLContext | None, tls: PemFiles | ssl.SSLContext | None) -> tuple[Exception, list[str]]:
    """Return a failed connection's error, and the states through which the connection went."""
    states: list[str] = []

    async def run() -> Exception:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # for errors on the server's side
        server, address, _ = await serve(context)
        async with server:
            with pytest.raises((ssl.SSLError, ConnectionError)) as caught:
                await TcpNetwork(tls=tls).open(address, Notes, lambda state: states.append(state.value))
        return caught.value

    return asyncio.run(run()), states


@pytest.mark.parametrize("made", [False, True])
def test_over_tls(certificates: Certificates, made: bool) -> None:
    """With any context, frames of every size arrive in both directions, and the close is noticed."""
    pem = PemFiles(str(certificates.authority), str(certificates.client))

    async def run() -> None:
        states: list[str] = []
        server, address, accepted = await serve(certificates.context(certificates.broker, wants_client=True))
        async with server:
            network = TcpNetwork(tls=tls_context(pem) if made else pem)
            client = await network.open(address, Notes, lambda state: states.append(state.value))
            for content in [*SMALL, *BIG]:
                client.wire.write([frame(content)])
                await client.wire.drain()
            while len(accepted[0].frames) < len(SMALL + BIG):
                await asyncio.sleep(0)
            accepted[0].wire.write([frame(content) for content in BIG])
            while len(client.frames) < len(BIG):
                await asyncio.sleep(0)
            client.wire.close()
            assert await client.lost is None
            assert await accepted[0].lost is None
            assert accepted[0].frames == [*SMALL, *BIG]
            assert client.frames == BIG
            assert states == ["dns", "tcp", "tls"]

    asyncio.run(run())


def test_an_authority_that_is_not_trusted(certificates: Certificates) -> None:
    error, states = refused(certificates.context(certificates.stranger), PemFiles(str(certificates.authority)))
    assert isinstance(error, ssl.SSLCertVerificationError)
    assert states[-1] == "tls"


def test_a_certificate_for_another_host(certificates: Certificates) -> None:
    error, _ = refused(certificates.context(certificates.elsewhere), PemFiles(str(certificates.authority)))
    assert isinstance(error, ssl.SSLCertVerificationError)
    assert "localhost" in error.verify_message


def test_tls_to_a_port_without_it(certificates: Certificates) -> None:
    """The server mistakes the handshake for the length of a frame, and disconnects."""
    _, states = refused(None, PemFiles(str(certificates.authority)))
    assert states[-1] == "tls"


def test_a_server_that_does_not_answer_the_handshake(certificates: Certificates) -> None:
    """A caller that gives up leaves no socket open."""

    async def run() -> None:
        states: list[str] = []
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address = Address("localhost", listening.getsockname()[1])
            network = TcpNetwork(tls=PemFiles(str(certificates.authority)))
            opening = asyncio.ensure_future(network.open(address, Notes, lambda state: states.append(state.value)))
            while "tls" not in states:
                await asyncio.sleep(0)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening

    asyncio.run(run())


def test_another_address_of_the_name_may_have_the_right_certificate(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no address has the right certificate, the first TLS failure is reported, not a later one."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: None)
        wrong, first, _ = await serve(certificates.context(certificates.stranger))
        right, second, _ = await serve(certificates.context(certificates.broker))
        ports = [first.port, second.port]

        async def endpoints(address: Address) -> list[Endpoint]:
            return [Endpoint(socket.AF_INET, ("127.0.0.1", port)) for port in ports]

        monkeypatch.setattr(stream, "resolve", endpoints)
        network = TcpNetwork(tls=PemFiles(str(certificates.authority)))
        async with wrong:
            async with right:
                client = await network.open(Address("localhost", 1), Notes)
                client.wire.close()
                await client.lost
            with pytest.raises(ssl.SSLCertVerificationError):
                await network.open(Address("localhost", 1), Notes)

    asyncio.run(run())


def test_certificates_that_cannot_be_used() -> None:
    async def run() -> None:
        with pytest.raises(ConfigurationError, match="No such file"):
            await TcpNetwork(tls=PemFiles("/nowhere.pem")).open(Address("localhost", 1), Notes)

    asyncio.run(run())
