"""How a connection's responses reach the socket: as they are, or encrypted by TLS (`tls_connection.py`).

An outlet takes buffers and regions of files in order, until the socket accepts no more.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from typing import Final, Protocol

from kafkawire.reference_broker.storage.disk.disk import File, FileSlice
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.transport.stream import remaining

__all__ = ["PIECE_BYTES", "Outlet", "PlainOutlet"]

#: Buffers of up to this total size are joined: copying them costs less than passing each one to the system.
_JOINED_BYTES_MAX: Final = 64 * 1024

#: How many bytes of a file to read at a time if they cannot go from the file to the socket directly.
PIECE_BYTES: Final = 64 * 1024


class Outlet(Protocol):
    """The sending side of a connection. Both methods let the connection be paused if the socket is full."""

    @property
    def held_bytes(self) -> int:
        """The number of received bytes that the connection has not been given yet."""
        ...

    def send(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        """Send buffers, and return those that the connection has to send again later.

        Raises:
            OSError: the connection is lost.
        """
        ...

    def send_file(self, part: FileSlice) -> int:
        """Send a region of a file, and return the position in the file up to which it is sent, or on its way.

        Nothing is sent only if the file ends before the region, or the connection was paused already.

        Raises:
            OSError: the file cannot be read, or the connection is lost (ConnectionError).
        """
        ...

    def end(self) -> None:
        """Tell the client that nothing more will be sent.

        Raises:
            OSError: the connection is lost.
        """
        ...


class PlainOutlet:
    """Sends without TLS: straight to the socket, and through the transport what the socket does not accept at once.

    Args:
        client: the non-blocking socket.
        transport: the transport on top of it, which pauses the connection as soon as it holds anything.
    """

    held_bytes = 0

    def __init__(self, client: socket.socket, transport: asyncio.Transport) -> None:
        self._socket = client
        self._transport = transport

    def send(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        """See `Outlet.send`; nothing is left to the connection."""
        size_bytes = sum(map(len, parts))
        if len(parts) > 1 and size_bytes <= _JOINED_BYTES_MAX:
            parts = [b"".join(parts)]
        try:
            sent_bytes = self._socket.sendmsg(parts) if len(parts) > 1 else self._socket.send(parts[0])
        except BlockingIOError:
            sent_bytes = 0
        if sent_bytes < size_bytes:
            self._transport.writelines(remaining(parts, sent_bytes))
            # In early releases of Python 3.12, `writelines` does not pause writing; setting the limits does.
            self._transport.set_write_buffer_limits(0)
        return ()

    def send_file(self, part: FileSlice) -> int:
        """See `Outlet.send_file`; a piece of what `sendfile` does not send goes through the transport."""
        file, end = part.file, part.position + part.size_bytes
        position = self._send_directly(file, part.position, end)
        piece = file.read(position, min(end - position, PIECE_BYTES)) if position < end else b""
        if piece:
            self._transport.write(piece)
        return position + len(piece)

    def end(self) -> None:
        """See `Outlet.end`."""
        self._socket.shutdown(socket.SHUT_WR)

    def _send_directly(self, file: File, position: int, end: int) -> int:
        """Send a region with `sendfile` until the socket is full; return the end position."""
        descriptor = file.fileno()
        end = min(end, file.size_bytes)  # after a truncation, unrelated bytes may follow
        while descriptor is not None and position < end:
            try:
                sent_bytes = os.sendfile(self._socket.fileno(), descriptor, position, end - position)
            except BlockingIOError:
                break
            if not sent_bytes:
                break
            position += sent_bytes
        return position
