"""Frames over TCP: an asyncio protocol that receives into its own memory, and the network that opens it.

Small frames are copied out of one reusable buffer. A large frame is received straight into its own memory, which the
records decoded from it keep alive, so its bytes are never copied; the memory is reused once those records are gone. The
length prefix is checked before memory is allocated. Clients use this module through `TcpNetwork`, and servers use
`FrameProtocol` on their listening sockets.

Source: Kafka protocol guide, "Network".
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.frames import LENGTH_BYTES, MAX_FRAME_BYTES, frame_length
from kafkawire.sdk.protocol.gate import ConnectionState
from kafkawire.sdk.protocol.reusable_memory import take_memory
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.transport.sockets import connect_one, resolve
from kafkawire.sdk.transport.threads import in_thread
from kafkawire.sdk.transport.tls import PemFiles, tls_context
from kafkawire.sdk.transport.wire import Address, FrameReceiver, LengthReceiver, Receiver, Wire

__all__ = [
    "CLOSE_LINGER_SECONDS",
    "RECEIVE_BUFFER_BYTES",
    "WRITE_BUFFER_BYTES",
    "FrameProtocol",
    "TcpNetwork",
    "remaining",
]

#: Size of the reusable buffer: the most that one read of the socket returns, and the longest frame that is copied.
#: Above this, allocating memory costs less than copying.
RECEIVE_BUFFER_BYTES = 64 * 1024

#: The number of unsent bytes above which `drain` waits: a few produce requests, enough to keep the socket busy.
WRITE_BUFFER_BYTES = 4 * 1024 * 1024

#: Interval between checks for unsent bytes of a TLS connection: the checks take negligible CPU time, and keep waits
#: short.
_LOOK_SECONDS = 0.005

#: Time limit for sending the remaining bytes of a connection that is being closed: ample for a peer that reads.
CLOSE_LINGER_SECONDS = 5.0


class FrameProtocol(asyncio.BufferedProtocol):
    """The `Wire` of one TCP connection.

    Args:
        receiver: creates the receiver of the frames, given this wire.
        max_frame_bytes: largest frame accepted; a peer whose length prefix exceeds this is disconnected.
        sendmsg: the `sendmsg` method of the socket below the transport; None to leave all writing to the transport.
    """

    def __init__(
        self,
        receiver: Callable[[Wire], FrameReceiver],
        max_frame_bytes: int = MAX_FRAME_BYTES,
        sendmsg: Callable[[Sequence[Buffer]], int] | None = None,
    ) -> None:
        self.receiver = receiver(self)
        # Checked only once, because the check takes as long as a small request.
        self._length_receiver = self.receiver if isinstance(self.receiver, LengthReceiver) else None
        self._sendmsg = sendmsg
        self._max_frame_bytes = max_frame_bytes
        self._transport: asyncio.Transport | None = None
        self._below_tls: asyncio.Transport | None = None
        self._buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        self._filled = 0
        self._big: memoryview | None = None
        self._writable: asyncio.Future[None] | None = None
        self._failure: Exception | None = None

    # Wire: called by the code that writes.

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_congested(self) -> bool:
        return self._writable is not None

    @property
    def has_unsent(self) -> bool:
        return any(each is not None and each.get_write_buffer_size() for each in (self._transport, self._below_tls))

    def write(self, parts: Sequence[Buffer]) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        # Before Python 3.12, a transport copies the parts into new memory, whose pages cost more than sending the
        # parts.
        if self._sendmsg is not None and not transport.get_write_buffer_size():
            try:
                sent_bytes = self._sendmsg(parts)
            except OSError:
                sent_bytes = 0  # impossible now, or permanently: the transport will find out
            parts = () if sent_bytes == sum(map(len, parts)) else remaining(parts, sent_bytes)
        if parts:
            transport.writelines(parts)
            if self._writable is None and transport.get_write_buffer_size() > WRITE_BUFFER_BYTES:
                # In early releases of Python 3.12, `writelines` does not pause the writer, but setting the limits does.
                transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)

    async def drain(self) -> None:
        if self._writable is not None:
            await asyncio.shield(self._writable)

    async def sent(self) -> None:
        transport = self._transport
        if transport is None:
            return
        if self._below_tls is not None:
            while self.has_unsent:  # asyncio does not report when the layer below TLS has sent everything
                await asyncio.sleep(_LOOK_SECONDS)
            return
        transport.set_write_buffer_limits(0)  # pauses writing if anything is unsent
        try:
            await self.drain()
        finally:
            if self._transport is not None:
                transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)

    def close(self) -> None:
        if self._transport is None:
            return
        self._transport.close()
        if (self._below_tls or self._transport).get_write_buffer_size():
            # A hung peer would keep the socket and the unsent bytes forever.
            asyncio.get_running_loop().call_later(CLOSE_LINGER_SECONDS, self._transport.abort)
        elif self._below_tls is not None:
            # TLS has sent its closing alert. The peer's alert is not needed, and the wait for it could outlive the
            # loop.
            self._transport.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def secured(self, transport: asyncio.Transport) -> None:
        """Switch to an encrypting transport on top of the current one."""
        self._below_tls = self._transport
        self._sendmsg = None
        self.connection_made(transport)

    # asyncio.BufferedProtocol: called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transport class has no base class
        self._transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)

    def get_buffer(self, sizehint: int) -> memoryview:
        return (self._buffer if self._big is None else self._big)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        try:
            if self._big is None:
                self._cut_frames()
            elif self._filled == len(self._big):
                frame, self._big, self._filled = self._big, None, 0
                self.receiver.receive_frame(frame)
        except RemoteProtocolError as error:
            self._fail(error)

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = self._below_tls = None  # uvloop's methods raise errors from now on
        self.resume_writing()
        self.receiver.connection_lost(self._failure or exc)

    def _cut_frames(self) -> None:
        """Deliver the frames in the reusable buffer; allocate memory for a large frame that begins there."""
        start, end = 0, self._filled
        while end - start >= LENGTH_BYTES and self.is_open:
            length = frame_length(self._buffer[start : start + LENGTH_BYTES], self._max_frame_bytes)
            content = start + LENGTH_BYTES
            if content + length <= end:
                self.receiver.receive_frame(bytes(self._buffer[content : content + length]))
                start = content + length
            elif length > RECEIVE_BUFFER_BYTES - LENGTH_BYTES:
                if self._length_receiver is not None:
                    self._length_receiver.check_length(length)
                self._big = take_memory(length)
                self._filled = end - content
                self._big[: self._filled] = self._buffer[content:end]
                return
            else:
                break
        self._filled = end - start
        if start and self._filled:
            self._buffer[: self._filled] = bytes(self._buffer[start:end])

    def _fail(self, error: Exception) -> None:
        """Disconnect immediately; a peer that violated the protocol has no use for unsent bytes."""
        self._failure = error
        if self._transport is not None:
            self._transport.abort()


def remaining(parts: Sequence[Buffer], sent_bytes: int) -> Sequence[Buffer]:
    """Return what remains of buffers once `sent_bytes` of their bytes have been sent."""
    for place, part in enumerate(parts):
        if sent_bytes < len(part):
            return [memoryview(part)[sent_bytes:], *parts[place + 1 :]]
        sent_bytes -= len(part)
    return ()


class TcpNetwork:
    """Reach brokers over TCP, with or without TLS.

    Args:
        max_frame_bytes: largest response accepted.
        tls: a context; the arguments from which `tls_context` creates one on first use; or a function that returns the
            context for each connection. None for no TLS.
        keeps_alive: whether the kernel probes a silent connection.
    """

    def __init__(
        self,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        tls: ssl.SSLContext | PemFiles | Callable[[], ssl.SSLContext] | None = None,
        *,
        keeps_alive: bool = True,
    ) -> None:
        self._keeps_alive = keeps_alive
        self._max_frame_bytes = max_frame_bytes
        self._tls = tls

    async def open(
        self,
        address: Address,
        receiver: Callable[[Wire], Receiver],
        enter: Callable[[ConnectionState], None] = lambda state: None,
    ) -> Receiver:
        """Connect, trying every address to which the name resolves.

        Raises:
            OSError: the name is unknown, nothing accepts the connection, or the TLS handshake fails.
            ConfigurationError: the certificates for TLS cannot be used.
        """
        if isinstance(self._tls, PemFiles):  # reading all trusted certificates takes a while, and a file may block
            self._tls = await in_thread(partial(tls_context, self._tls), self)
        enter(ConnectionState.RESOLVING)
        endpoints = await resolve(address)
        failure: OSError | None = None
        while True:
            enter(ConnectionState.CONNECTING)
            try:
                connected, endpoint = await connect_one(endpoints, keeps_alive=self._keeps_alive)
            except OSError as error:
                if failure is None:
                    raise
                enter(ConnectionState.TLS)
                raise failure from error
            if self._tls is not None:
                enter(ConnectionState.TLS)
            try:
                return await self._carry(connected, address.host, receiver)
            except OSError as error:  # only TLS can fail here, but another address may work
                failure = failure or error
                endpoints.remove(endpoint)

    async def _carry(self, connected: socket.socket, host: str, receiver: Callable[[Wire], Receiver]) -> Receiver:
        """Carry frames over a socket, after the TLS handshake if there is one."""
        made: list[Receiver] = []

        def make(wire: Wire) -> Receiver:
            made.append(receiver(wire))
            return made[-1]

        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(
            lambda: FrameProtocol(make, self._max_frame_bytes, getattr(connected, "sendmsg", None)), sock=connected
        )
        context = self._tls() if callable(self._tls) else self._tls
        if isinstance(context, ssl.SSLContext):
            # A fully qualified name may end with a dot, which the certificate and the name sent to the broker do not
            # have.
            name = host.rstrip(".")
            try:
                encrypted = await loop.start_tls(transport, protocol, context, server_hostname=name)
            except BaseException:
                transport.abort()
                raise
            assert encrypted is not None, "only a closing transport returns none, and then there is an error"
            protocol.secured(encrypted)
        return made[-1]
