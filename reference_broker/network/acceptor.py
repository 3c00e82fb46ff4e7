"""Listen on one address and accept clients, up to the limits.

A listener that accepts too many connections per second pauses before it admits the next one, and so does one with as
many connections as it may have. Connections from an address that connects too often are closed after a while, as in
Kafka (KIP-612).

Kafka's brokers and clients send data immediately (TCP_NODELAY). asyncio sets that option only on sockets with an
explicit protocol, which accepted sockets lack.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections.abc import Callable
from functools import partial

from kafkawire.reference_broker.config.endpoints import SYSTEM_BUFFER, Listener, SocketBuffers
from kafkawire.reference_broker.network.connection_limits import Admission
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.security.quotas.connection_rates import ConnectionRates
from kafkawire.reference_broker.storage.disk.disk import is_short_of_descriptors
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.transport.wire import Address

__all__ = ["PAUSE_SECONDS", "Acceptor"]

_log = logging.getLogger("kafkawire.broker")

#: The number of connections that the operating system queues for acceptance.
_BACKLOG = 511

#: The number of connections to accept before other work has a turn.
_TURN_CONNECTIONS = 32

#: How long to stop accepting connections after failing to accept one.
PAUSE_SECONDS = 0.1

#: The maximum number of connections that a listener keeps open only to close them later; further ones are closed
#: immediately, since each one needs a file descriptor.
_DELAYED_MAX = 1_000

#: Creates the protocol for a new client; the last argument is called when the connection is closed.
Connect = Callable[[socket.socket, Peer, Callable[[], None]], asyncio.BufferedProtocol]


class Acceptor:
    """One listener.

    Args:
        listener: its address; port 0 means any free port.
        limits: limits on the number of connections.
        connect: creates the protocol for a client.
        clock: returns the time in milliseconds.
        buffers: the buffer sizes for each connection.

    Raises:
        OSError: the address is in use, or does not belong to this machine.

    Attributes:
        rates: limits on new connections per second; None for no limits.
        is_protected: whether only brokers use the listener, which then does not count towards the broker's limit.
        listener: the address and the advertised address, with actual ports.
    """

    def __init__(
        self,
        listener: Listener,
        limits: Admission,
        connect: Connect,
        clock: Callable[[], int],
        buffers: SocketBuffers,
    ) -> None:
        self._limits = limits
        self._connect = connect
        self._clock = clock
        self._lines = LogLimit(_log)
        self.rates: ConnectionRates | None = None
        self.is_protected = False
        #: The connection that is waiting to be admitted, and those that are waiting to be closed.
        self._waiting: tuple[socket.socket, str, int] | None = None
        self._delayed: dict[socket.socket, asyncio.TimerHandle] = {}
        self._connecting: set[asyncio.Task[object]] = set()
        self._pause: asyncio.TimerHandle | None = None
        family = socket.AF_INET6 if ":" in listener.bind.host else socket.AF_INET
        self._socket = socket.create_server(listener.bind, family=family, backlog=_BACKLOG)
        self._socket.setblocking(False)
        # The sizes are set here because accepted sockets inherit them, and a client learns the first window before it
        # is accepted.
        for option, size_bytes in ((socket.SO_SNDBUF, buffers.send_bytes), (socket.SO_RCVBUF, buffers.receive_bytes)):
            if size_bytes != SYSTEM_BUFFER:
                self._socket.setsockopt(socket.SOL_SOCKET, option, size_bytes)
        port = self._socket.getsockname()[1]
        advertised = listener.advertised
        self.listener = listener._replace(
            bind=Address(listener.bind.host, port),
            advertised=advertised if advertised.port else advertised._replace(port=port),
        )

    def start(self) -> None:
        """Begin to accept connections."""
        self._pause = None
        asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def abandon(self) -> None:
        """Close a listener that was not started."""
        self._socket.close()

    async def stop(self) -> None:
        """Stop accepting connections."""
        asyncio.get_running_loop().remove_reader(self._socket)
        if self._pause is not None:
            self._pause.cancel()
        self._socket.close()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting[0].close()
        for client, closing in self._delayed.items():
            closing.cancel()
            client.close()
        self._delayed.clear()
        if self._connecting:
            await asyncio.wait(self._connecting)

    def _accept(self) -> None:
        for _ in range(_TURN_CONNECTIONS):
            try:
                client, address = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._cannot_accept(error)
                return
            host, port = str(address[0]), int(address[1])
            delay_ms = self._delay_ms()
            if delay_ms or self._limits.full():
                self._admit_later(client, host, port, delay_ms)
                return
            self._admit(client, host, port)

    def _delay_ms(self) -> int:
        if self.rates is None:
            return 0
        return self.rates.delay_ms(self.listener.name, monotonic_ms(), is_protected=self.is_protected)

    def _admit_later(self, client: socket.socket, host: str, port: int, delay_ms: int) -> None:
        """Accept no other connection until this one is admitted."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)
        self._waiting = client, host, port
        if delay_ms:
            self._pause = loop.call_later(delay_ms / 1_000, self._admit_waiting)
        else:
            self._admit_waiting()

    def _admit_waiting(self) -> None:
        """Admit the waiting connection, unless there is no room for it yet."""
        self._pause = None
        if self._waiting is None:  # the listener has been stopped
            return
        if reason := self._limits.full():
            text = "connections to listener %s have to wait: %s"
            self._lines.warning("full", self._clock(), text, self.listener.name, reason)
            loop = asyncio.get_running_loop()
            self._limits.wait(lambda: loop.call_soon(self._admit_waiting))
            return
        waiting, self._waiting = self._waiting, None
        self.start()
        self._admit(*waiting)

    def _cannot_accept(self, error: OSError) -> None:
        """Pause until connections may have been closed; otherwise, the system would keep reporting the same one."""
        reason = str(error)
        if is_short_of_descriptors(error):
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            reason = f"all {limit} file descriptors of this process are in use (ulimit -n)"
        self._lines.error(
            "accept", self._clock(), "cannot accept connections on listener %s for now: %s", self.listener.name, reason
        )
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)
        self._pause = loop.call_later(PAUSE_SECONDS, self.start)

    def _refusal_ms(self, host: str) -> int:
        if self.rates is None:
            return 0
        return self.rates.refusal_ms(self.listener.name, host, monotonic_ms(), is_protected=self.is_protected)

    def _close_later(self, client: socket.socket, delay_ms: int) -> None:
        """Close a connection from an address that connects too often, after a delay that slows its client down."""
        if len(self._delayed) >= _DELAYED_MAX:
            client.close()
            return

        def close() -> None:
            del self._delayed[client]
            client.close()

        self._delayed[client] = asyncio.get_running_loop().call_later(delay_ms / 1_000, close)

    def _admit(self, client: socket.socket, host: str, port: int) -> None:
        if refusal_ms := self._refusal_ms(host):
            self._close_later(client, refusal_ms)
            return
        if reason := self._limits.refusal(host):
            self._lines.warning("refused", self._clock(), "refusing a connection from %s: %s", host, reason)
            client.close()
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._limits.opened(host)
        protocol = self._connect(client, Peer(self.listener, host, port), partial(self._limits.closed, host))
        loop = asyncio.get_running_loop()
        task = loop.create_task(loop.connect_accepted_socket(lambda: protocol, client))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
