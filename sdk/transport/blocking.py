"""A blocking socket that carries frames, and bytes that are no frames.

For tools that ask one thing at a time, the conformance suite first of all: it must be able to send what no client sends
and to see how the peer takes it. Clients use the asynchronous transport.
"""

from __future__ import annotations

import socket
from types import TracebackType

from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.frames import LENGTH_BYTES, MAX_FRAME_BYTES, frame_length
from kafkawire.sdk.protocol.schema import Buffer

__all__ = ["ConnectionEnded", "FrameSocket"]


class ConnectionEnded(RemoteProtocolError):
    """The peer closed the connection, or reset it, while a frame was awaited."""


class FrameSocket:
    """A connection on which frames are sent and received in turn.

    Args:
        host: name or address.
        port: TCP port.
        timeout_seconds: limit of connecting, and of each wait for bytes.

    Raises:
        OSError: the connection cannot be made.
    """

    def __init__(self, host: str, port: int, timeout_seconds: float = 10.0) -> None:
        self._socket = socket.create_connection((host, port), timeout_seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> FrameSocket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, *parts: Buffer) -> None:
        """Write bytes as they are.

        Raises:
            ConnectionEnded: the peer has closed the connection.
        """
        try:
            self._socket.sendall(b"".join(parts))
        except ConnectionError as error:
            raise ConnectionEnded(f"while sending: {error}") from error

    def receive(self, limit: int = MAX_FRAME_BYTES) -> bytes:
        """Wait for a frame and return its content.

        Raises:
            ConnectionEnded: the peer closed the connection before the frame was whole.
            FrameTooLarge: the announced length is outside 0..limit.
            TimeoutError: nothing came within the time limit.
        """
        return self._exactly(frame_length(self._exactly(LENGTH_BYTES), limit))

    def finish_sending(self) -> None:
        """Tell the peer that no more bytes will come."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection; any number of times."""
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                chunk = self._socket.recv(min(count - len(data), 1 << 20))
            except ConnectionError as error:
                raise ConnectionEnded(f"after {len(data)} of {count} bytes: {error}") from error
            if not chunk:
                raise ConnectionEnded(f"after {len(data)} of {count} bytes")
            data += chunk
        return bytes(data)
