"""A blocking socket that carries frames, or arbitrary bytes.

It is meant for tools that send one request at a time, especially the conformance suite, which must send bytes that no
client would send and observe how the peer reacts. Clients use the asynchronous transport.
"""

from __future__ import annotations

import socket
from types import TracebackType

from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.frames import LENGTH_BYTES, MAX_FRAME_BYTES, frame_length
from kafkawire.sdk.protocol.values import Buffer

__all__ = ["ConnectionEnded", "FrameSocket"]


class ConnectionEnded(RemoteProtocolError):
    """The peer closed or reset the connection while a frame was expected."""


class FrameSocket:
    """A connection for sending and receiving frames.

    Args:
        host: name or address.
        port: TCP port.
        timeout_seconds: time limit for connecting, and for each wait for bytes.

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
        """Send bytes unchanged.

        Raises:
            ConnectionEnded: the peer has closed the connection.
        """
        try:
            self._socket.sendall(b"".join(parts))
        except ConnectionError as error:
            raise ConnectionEnded(f"while sending: {error}") from error

    def receive(self, limit: int = MAX_FRAME_BYTES) -> bytes:
        """Wait for a frame and return its payload.

        Raises:
            ConnectionEnded: the peer closed the connection before the frame was complete.
            FrameTooLarge: the length prefix is outside 0..limit.
            TimeoutError: nothing arrived within the time limit.
        """
        return self._exactly(frame_length(self._exactly(LENGTH_BYTES), limit))

    def fileno(self) -> int:
        """Return the socket's descriptor, for `select` and the like; -1 once it is closed."""
        return self._socket.fileno()

    def finish_sending(self) -> None:
        """Shut down the sending direction."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection; can be called more than once."""
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
