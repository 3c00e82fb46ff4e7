"""A client's connection with TLS: the handshake, then the `ClientWire` of the client on top of a `TlsTransport`.

Source: RFC 8446; `SslTransportLayer` in Apache Kafka.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple, cast

from kafkawire.reference_broker.network.handshakes import Handshakes
from kafkawire.reference_broker.network.tls_transport import TlsTransport

__all__ = ["CIPHERTEXT_BYTES", "TlsConnection", "TlsDoor", "ciphertext_buffer"]

#: The size of one read: four records of the maximum size.
CIPHERTEXT_BYTES: Final = 64 * 1024 + 4 * 256

#: How much of a handshake, and of what follows it, may wait for its turn. A long chain of certificates has 20 KB.
_HANDSHAKE_BYTES_MAX: Final = 256 * 1024

#: The first byte of every TLS connection.
_TLS_HANDSHAKE: Final = 0x16


def ciphertext_buffer() -> memoryview:
    """Return the buffer for what all TLS connections of one event loop receive."""
    return memoryview(bytearray(CIPHERTEXT_BYTES))


class TlsDoor(NamedTuple):
    """What the TLS connections of a listener share.

    Attributes:
        context: returns the context for a new connection.
        handshakes: the handshakes of the listener that are in progress.
        buffer: see `ciphertext_buffer`.
        refused: called with a connection that has failed, and the reason.
    """

    context: Callable[[], ssl.SSLContext]
    handshakes: Handshakes
    buffer: memoryview
    refused: Callable[[str], None]


class TlsConnection(asyncio.BufferedProtocol):
    """A connection, from its first byte.

    Args:
        client: the non-blocking socket.
        door: what the listener's connections share.
        enter: returns the protocol on top of TLS, given the client's certificate (DER; None if it has none) and
            the transport; raises `PermissionError` if the client is refused.
        gone: called when the connection ends before its handshake is complete.
    """

    def __init__(
        self,
        client: socket.socket,
        door: TlsDoor,
        enter: Callable[[bytes | None, TlsTransport], asyncio.BufferedProtocol],
        gone: Callable[[], None],
    ) -> None:
        self._socket = client
        self._door = door
        self._enter = enter
        self._gone = gone
        self._below: asyncio.Transport | None = None
        self._tls: ssl.SSLObject | None = None
        self._received = ssl.MemoryBIO()
        self._to_send = ssl.MemoryBIO()
        self._transport: TlsTransport | None = None
        self._above: asyncio.BufferedProtocol | None = None

    # asyncio.BufferedProtocol: called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast("asyncio.Transport", transport)  # uvloop's class has no base class
        self._below.set_write_buffer_limits(0)  # so any unsent data pauses writing
        self._door.handshakes.begin(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._door.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._received.write(self._door.buffer[:nbytes])
        if self._transport is not None:
            self._transport.deliver()
        elif self._below is not None and not self._below.is_closing():
            if self._tls is None and self._door.buffer[0] != _TLS_HANDSHAKE:
                self.give_up("the client does not use TLS; does it have another security.protocol?")
                return
            if self._received.pending > _HANDSHAKE_BYTES_MAX:
                self.give_up(f"more than {_HANDSHAKE_BYTES_MAX} bytes before its TLS handshake was complete")
                return
            self._door.handshakes.continue_with(self)

    def eof_received(self) -> bool:
        self._received.write_eof()
        if self._transport is not None:
            self._transport.deliver()
        return False

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._transport.full_below(True)

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._transport.full_below(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.handshakes.end(self)
        above, self._above, self._transport = self._above, None, None
        if above is not None:
            above.connection_lost(exc)
        else:
            self._gone()

    # Handshake: called by the listener's handshakes.

    def step(self) -> None:
        """Continue the handshake with what has been received."""
        below = self._below
        if below is None or below.is_closing():
            return
        if self._tls is None:
            self._tls = self._door.context().wrap_bio(self._received, self._to_send, server_side=True)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush(below)
        except ssl.SSLError as error:
            self._flush(below)  # the alert that tells the client why
            self.give_up(_reason(error))
        else:
            self._flush(below)
            self._open(below, self._tls)

    def give_up(self, reason: str) -> None:
        """End the connection during the handshake."""
        self._door.handshakes.end(self)
        self._door.refused(reason)
        if self._below is not None:
            self._below.close()

    # Internals.

    def _open(self, below: asyncio.Transport, tls: ssl.SSLObject) -> None:
        self._door.handshakes.end(self)
        transport = TlsTransport(self._socket, below, tls, self._received, self._to_send, self._door.refused)
        try:
            above = self._enter(tls.getpeercert(binary_form=True), transport)
        except PermissionError as error:
            self.give_up(str(error))
            return
        self._above, self._transport = above, transport
        if below.get_write_buffer_size():
            transport.full_below(True)
        transport.begin(above)

    def _flush(self, below: asyncio.Transport) -> None:
        if self._to_send.pending:
            below.write(self._to_send.read())


def _reason(error: ssl.SSLError) -> str:
    """Return why a handshake failed, in OpenSSL's words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()
