"""The transport of a TLS connection after its handshake: decrypts into the connection's buffers, encrypts in pieces.

    socket ─▶ ciphertext, shared buffer ─▶ SSLObject ─▶ the connection's own buffer ─▶ requests
    responses, pieces of files ─▶ SSLObject ─▶ one send per piece ─▶ socket

`ClientWire` uses it in two roles: as the transport of its connection, and as its `Outlet`. OpenSSL works in memory, so
it neither waits for the socket nor owns it. docs/decisions/0051-doors.md has the measurements.

Source: RFC 8446; the `ssl` module.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from kafkawire.reference_broker.network.outlets import PIECE_BYTES
from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.transport.stream import remaining

__all__ = ["TURN_BYTES", "TlsTransport"]

#: How much one connection encrypts before others have a turn: about a millisecond's work.
TURN_BYTES: Final = 1024 * 1024


class TlsTransport(asyncio.Transport):
    """Encrypts and decrypts for one connection.

    Args:
        client: the non-blocking socket.
        below: the transport of the socket, which pauses its protocol as soon as it holds anything.
        tls: the TLS session, after its handshake.
        received: the ciphertext for `tls`.
        to_send: the ciphertext from `tls`.
        failed: called with the reason if the client violates TLS; the connection is aborted then.
    """

    def __init__(
        self,
        client: socket.socket,
        below: asyncio.Transport,
        tls: ssl.SSLObject,
        received: ssl.MemoryBIO,
        to_send: ssl.MemoryBIO,
        failed: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._socket = client
        self._below = below
        self._tls = tls
        self._received = received
        self._to_send = to_send
        self._failed = failed
        self._protocol: asyncio.BufferedProtocol | None = None
        self._is_reading = True
        self._is_full_below = False
        self._is_yielding = False
        self._turn_bytes = 0
        self._has_ended = False

    def begin(self, protocol: asyncio.BufferedProtocol) -> None:
        """Connect a protocol, which gets what has been received already."""
        protocol.connection_made(self)
        self._protocol = protocol
        if self._is_stopped:
            protocol.pause_writing()
        self.deliver()

    # asyncio.Transport: called by the connection.

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def close(self) -> None:
        self._end_tls()
        self._below.close()

    def abort(self) -> None:
        self._below.abort()

    def get_write_buffer_size(self) -> int:
        return self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self._is_reading = False
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._is_reading = True
        self._below.resume_reading()
        if self.held_bytes:
            asyncio.get_running_loop().call_soon(self.deliver)

    # Outlet: called by the connection.

    @property
    def held_bytes(self) -> int:
        return self._received.pending + self._tls.pending()

    def send(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        sent_bytes = 0
        for piece in _pieces(parts):
            self._write(piece)
            sent_bytes += len(piece)
            if self._is_stopped or self.is_closing():
                return remaining(parts, sent_bytes)
        return ()

    def send_file(self, part: FileSlice) -> int:
        file, position = part.file, part.position
        end = min(position + part.size_bytes, file.size_bytes)  # after a truncation, unrelated bytes may follow
        while position < end and not (self._is_stopped or self.is_closing()):
            piece = file.read(position, min(end - position, PIECE_BYTES))
            if not piece:
                break
            self._write(piece)
            position += len(piece)
        return position

    def end(self) -> None:
        self._end_tls()
        self._below.write_eof()

    # Called by the connection below.

    def deliver(self) -> None:
        """Give the connection what can be decrypted, until it stops reading."""
        protocol = self._protocol
        while protocol is not None and self._is_reading and not self.is_closing():
            buffer = memoryview(protocol.get_buffer(-1))
            size_bytes = self._decrypt(buffer)
            if size_bytes:
                protocol.buffer_updated(size_bytes)
            if size_bytes < len(buffer):
                break
        self._flush()
        if self._has_ended and self._is_reading and not self.is_closing():
            self._below.close()

    def full_below(self, is_full: bool) -> None:
        """Record that the socket is full, or has room again."""
        self._tell(is_full, self._is_yielding)

    # Internals.

    @property
    def _is_stopped(self) -> bool:
        return self._is_full_below or self._is_yielding

    def _tell(self, is_full_below: bool, is_yielding: bool) -> None:
        """Pause or resume the connection if that has changed."""
        was_stopped = self._is_stopped
        self._is_full_below, self._is_yielding = is_full_below, is_yielding
        if self._protocol is not None and self._is_stopped != was_stopped:
            if was_stopped:
                self._protocol.resume_writing()
            else:
                self._protocol.pause_writing()

    def _decrypt(self, buffer: memoryview) -> int:
        """Decrypt into a buffer, and return the number of bytes; it is full if there may be more."""
        size_bytes = 0
        try:
            while size_bytes < len(buffer):
                received_bytes = self._tls.read(len(buffer) - size_bytes, buffer[size_bytes:])
                if not received_bytes:
                    self._has_ended = True
                    break
                size_bytes += int(received_bytes)
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._has_ended = True
        except ssl.SSLError as error:
            self._flush()
            self._failed(str(error.reason or error))
            self.abort()
        return size_bytes

    def _write(self, piece: Buffer) -> None:
        try:
            self._tls.write(piece)
        except ssl.SSLError as error:
            raise ConnectionAbortedError(f"TLS cannot encrypt: {error.reason}") from error
        self._flush()
        self._turn_bytes += len(piece)
        if self._turn_bytes >= TURN_BYTES and not self._is_stopped:
            self._tell(self._is_full_below, True)
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_bytes = 0
        if not self.is_closing():
            self._tell(self._is_full_below, False)

    def _flush(self) -> None:
        """Send the ciphertext; what the socket does not accept is left to the transport below."""
        if not self._to_send.pending or self.is_closing():
            return
        data, sent_bytes = self._to_send.read(), 0
        if not self._below.get_write_buffer_size():
            try:
                sent_bytes = self._socket.send(data)
            except BlockingIOError:
                pass
            except OSError:
                self.abort()
                return
        if sent_bytes < len(data):
            self._turn_bytes = 0
            self._below.write(memoryview(data)[sent_bytes:])
            # uvloop pauses writing later, unless the limits are set.
            self._below.set_write_buffer_limits(0)

    def _end_tls(self) -> None:
        """Send TLS's own end of the data, without waiting for the client's."""
        with suppress(ssl.SSLError, ValueError):
            self._tls.unwrap()
        self._flush()


def _pieces(parts: Sequence[Buffer]) -> Iterator[Buffer]:
    """Yield buffers in pieces that are encrypted together: small buffers are joined, large ones split."""
    small: list[Buffer] = []
    small_bytes = 0
    for part in parts:
        if small and small_bytes + len(part) > PIECE_BYTES:
            yield small[0] if len(small) == 1 else b"".join(small)
            small, small_bytes = [], 0
        if len(part) <= PIECE_BYTES:
            small.append(part)
            small_bytes += len(part)
        else:
            view = memoryview(part)
            for start in range(0, len(view), PIECE_BYTES):
                yield view[start : start + PIECE_BYTES]
    if small_bytes:
        yield small[0] if len(small) == 1 else b"".join(small)
