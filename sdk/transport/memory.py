"""In-process connections between client and broker, without sockets.

Tests for clients and brokers use them to run without ports and to decide when a connection breaks. As over TCP, the
event loop delivers bytes in the order in which they were written, and never from inside `write`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.frames import MAX_FRAME_BYTES, FrameBuffer
from kafkawire.sdk.protocol.gate import ConnectionState
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.transport.wire import Address, FrameReceiver, LengthReceiver, Receiver, Wire

__all__ = ["MemoryNetwork", "MemoryWire", "join"]


class MemoryWire:
    """One end of an in-process connection; `join` creates them in pairs."""

    def __init__(self, max_frame_bytes: int) -> None:
        self.receiver: FrameReceiver | None = None
        self._peer: MemoryWire | None = None
        self._frames = FrameBuffer(max_frame_bytes)
        self._open = True

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def is_congested(self) -> bool:
        return False

    @property
    def has_unsent(self) -> bool:
        return False

    def write(self, parts: Sequence[Buffer]) -> None:
        peer = self._peer
        if self._open and peer is not None and parts:
            asyncio.get_running_loop().call_soon(peer._receive, b"".join(parts))

    async def drain(self) -> None:
        await asyncio.sleep(0)

    sent = drain

    def close(self) -> None:
        self.break_off(None)

    abort = close

    def break_off(self, error: Exception | None) -> None:
        """End the connection, and notify both receivers, this one with `error`.

        Args:
            error: why the connection broke; None for an orderly close.
        """
        if not self._open:
            return
        loop = asyncio.get_running_loop()
        for wire, reason in ((self, error), (self._peer, None)):
            if wire is not None and wire._open:
                wire._open = False
                loop.call_soon(wire._lost, reason)

    def _receive(self, data: bytes) -> None:
        if self.receiver is None or not self._open:
            return
        try:
            for frame in self._frames.receive(data):
                self.receiver.receive_frame(frame)
            if self._frames.error is not None:
                raise self._frames.error
            length = self._frames.announced
            if length is not None and self._open and isinstance(self.receiver, LengthReceiver):
                self.receiver.check_length(length)
        except RemoteProtocolError as error:
            self.break_off(error)

    def _lost(self, error: Exception | None) -> None:
        if self.receiver is not None:
            self.receiver.connection_lost(error)


def join(
    client: Callable[[Wire], Receiver], server: Callable[[Wire], FrameReceiver], max_frame_bytes: int = MAX_FRAME_BYTES
) -> Receiver:
    """Connect a client's end to a server's end.

    Args:
        client: creates the client's receiver, given its wire.
        server: creates the server's receiver, given its wire.
        max_frame_bytes: the largest frame that either end accepts.

    Returns:
        The client's receiver.
    """
    near, far = MemoryWire(max_frame_bytes), MemoryWire(max_frame_bytes)
    near._peer, far._peer = far, near
    far.receiver = server(far)
    receiver = client(near)
    near.receiver = receiver
    return receiver


class MemoryNetwork:
    """Reach servers in this process by address.

    Attributes:
        servers: for each address, the function that creates the receiver of each connection; entries may be added and
            removed at any time.
    """

    def __init__(self) -> None:
        self.servers: dict[Address, Callable[[Wire], FrameReceiver]] = {}

    async def open(
        self,
        address: Address,
        receiver: Callable[[Wire], Receiver],
        enter: Callable[[ConnectionState], None] = lambda state: None,
    ) -> Receiver:
        """Connect to the server at `address`.

        Raises:
            ConnectionRefusedError: there is no such server.
        """
        enter(ConnectionState.CONNECTING)
        server = self.servers.get(address)
        if server is None:
            raise ConnectionRefusedError(f"nothing listens at {address}")
        return join(receiver, server)
