"""A TLS connection on a socket pair: a wire on a bench, and a client whose TLS the test drives step by step."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import cast

from kafkawire.reference_broker.network.client_wire import ClientWire
from kafkawire.reference_broker.network.handshakes import Handshakes
from kafkawire.reference_broker.network.tls_connection import TlsConnection, TlsDoor, ciphertext_buffer
from kafkawire.reference_broker.network.tls_transport import TlsTransport
from kafkawire.reference_broker.requests.session import Session
from tests.reference_broker.network.wire_bench import Bench

__all__ = ["TlsBench", "TlsClient"]


class TlsClient:
    """The client's side.

    Args:
        end: its socket.
        context: its TLS context.
    """

    def __init__(self, end: socket.socket, context: ssl.SSLContext) -> None:
        self._socket = end
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._received, self._to_send, server_hostname="localhost")

    async def do(self, step: Callable[[], object]) -> object:
        """Take a step of TLS, and exchange what it needs."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                done = step()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await loop.sock_recv(self._socket, 65_536)
                if data:
                    self._received.write(data)
                else:
                    self._received.write_eof()
            else:
                await self._flush()
                return done

    async def send(self, data: bytes) -> None:
        await self.do(lambda: self.tls.write(data))

    async def read(self, size_bytes: int) -> bytes:
        data = b""
        while len(data) < size_bytes:
            more = await self.do(partial(self.tls.read, size_bytes - len(data)))
            if not more:
                break
            data += cast("bytes", more)
        return data

    async def _flush(self) -> None:
        if self._to_send.pending:
            await asyncio.get_running_loop().sock_sendall(self._socket, self._to_send.read())


class TlsBench(Bench):
    """A wire on top of TLS, and its client.

    Args:
        server: the context of the broker.
        trusting: the context of the client.
        handshakes: the handshakes of the listener; None for new ones.

    Attributes:
        refused: why connections have failed.
        was_gone: whether the connection has ended before its handshake was complete.
        certificates: the certificates that clients have shown.
    """

    def __init__(self, server: ssl.SSLContext, trusting: ssl.SSLContext, handshakes: Handshakes | None = None) -> None:
        super().__init__(ends=_tcp_pair())
        self.refused: list[str] = []
        self.was_gone = False
        self.certificates: list[bytes | None] = []
        self.handshakes = handshakes or Handshakes()
        self.client = TlsClient(self.far, trusting)
        self.refuses = ""
        door = TlsDoor(lambda: server, self.handshakes, ciphertext_buffer(), self.refused.append)
        self.connection = TlsConnection(self.near, door, self._enter, self._gone)

    def _enter(self, certificate: bytes | None, transport: TlsTransport) -> ClientWire:
        self.certificates.append(certificate)
        if self.refuses:
            raise PermissionError(self.refuses)
        self.wire = ClientWire(
            self.near,
            lambda wire: cast("Session", self.session),
            self.shared,
            self.gone.append,
            lambda client, above: transport,
        )
        self.session.close = self.wire.close
        return self.wire

    def _gone(self) -> None:
        self.was_gone = True

    async def accept(self) -> None:
        """Let the client connect, without any TLS."""
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self.connection, self.near)

    async def open(self) -> ClientWire:
        """Complete the handshake."""
        await self.accept()
        await self.client.do(self.client.tls.do_handshake)
        await self.until(lambda: self.certificates)
        return self.wire

    def end(self) -> None:
        if self.connection._below is not None:
            self.connection._below.abort()
        self.far.close()


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        far = socket.create_connection(server.getsockname())
        near, _ = server.accept()
    return near, far
