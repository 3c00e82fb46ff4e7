"""Carry out a router's decisions over the simulated network: the driver for a client, or for a broker's links.

This is the counterpart of `sdk/transport/driver.py` and `connection.py`, with events instead of an event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from kafkawire.reference_broker.simulation.network import Network
from kafkawire.reference_broker.simulation.scheduler import Event, Host
from kafkawire.sdk.errors import ConnectFailed, ConnectionLost, KafkaWireError, RequestTimedOut
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.gate import ConnectionState
from kafkawire.sdk.protocol.schema import Buffer, Message
from kafkawire.sdk.routing.call import Call
from kafkawire.sdk.routing.links import Link
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.driver_interface import Open, Send
from kafkawire.sdk.transport.wire import Address, FrameReceiver, Wire

__all__ = ["RouterDriver"]

#: How long a connection may take to open.
_CONNECT_TIMEOUT_MS: Final = 500

#: Called with the response, or with an error in its place.
_OnDone = Callable[[Message | None, KafkaWireError | None], None]


class _Waiting(NamedTuple):
    """A request without a response; `deadline_ms` refers to the host's clock."""

    on_done: _OnDone
    name: str
    deadline_ms: int


class _Connection:
    """A connection, from the attempt to open it to its end; see `BrokerConnection`."""

    def __init__(self, driver: RouterDriver, link: Link) -> None:
        self.address: Address = link.address
        self._driver = driver
        self._link = link
        self._host = driver.host
        self._protocol = ClientConnection(driver.client_id)
        self._wire: Wire | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._versions: dict[tuple[type[Message], tuple[type[Message], str] | None], int] = {}
        self._timer: Event | None = None
        self.is_over = False
        self._limit = self._host.later_us(_CONNECT_TIMEOUT_MS * 1_000, self._open_too_late)

    def opened(self, wire: Wire) -> FrameReceiver:
        """Begin to use a wire."""
        self._wire = wire
        if self.is_over:
            wire.abort()
        else:
            self._protocol.start()
            wire.write(self._protocol.take_outgoing())
        return self

    def refused(self, error: OSError) -> None:
        """End the connection, since nothing listens at the address."""
        self.end(ConnectFailed(self.address, str(error)))

    def _open_too_late(self) -> None:
        self.end(ConnectFailed(self.address, "it took too long"))

    # For the router.

    def version_for(self, request: type[Message], carrying: tuple[type[Message], str] | None = None) -> int:
        key = request, carrying
        version = self._versions.get(key)
        if version is None:
            version = self._protocol.version_for(KAFKA_APIS.of(request))
            if carrying is not None:
                structure, name = carrying
                last = next(field.versions.last for field in structure.FIELDS if field.name == name)
                version = min(version, last)
            self._versions[key] = version
        return version

    def feature_level(self, name: str) -> int:
        return self._protocol.feature_level(name)

    def begin(self, request: Message, on_done: _OnDone, version: int | None, timeout_ms: int | None) -> None:
        """Send a request."""
        if self._wire is None or self.is_over or not self._wire.is_open:
            raise ConnectionLost(f"connection to {self.address} has ended")
        sent = self._protocol.request(request, version)
        self._wire.write(sent.parts)
        clock = self._host.clock
        deadline_ms = clock() + (self._driver.request_timeout_ms if timeout_ms is None else timeout_ms)
        self._waiting[sent.correlation_id] = _Waiting(on_done, sent.api.name, deadline_ms)
        if self._timer is None:
            self._timer = self._host.later_us(clock.until_us(deadline_ms), self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        late = min(self._waiting.values(), key=lambda waiting: waiting.deadline_ms, default=None)
        if late is None or self.is_over:
            return
        if late.deadline_ms > self._host.clock():
            self._timer = self._host.later_us(self._host.clock.until_us(late.deadline_ms), self._check_deadlines)
        else:
            self.end(RequestTimedOut(f"{self.address} did not respond to {late.name} in time"))

    # For the wire.

    def receive_frame(self, frame: Buffer) -> None:
        if self.is_over or self._wire is None:
            return
        was_ready = self._protocol.state is ConnectionState.READY
        try:
            received = self._protocol.receive(frame)
        except KafkaWireError as error:
            self.end(error)
            return
        waiting = self._waiting.pop(received.correlation_id, None) if was_ready else None
        if waiting is not None:
            waiting.on_done(received.message, None)
            return
        if parts := self._protocol.take_outgoing():
            self._wire.write(parts)
        if self._protocol.state is ConnectionState.READY:
            self._limit.cancel()
            self._driver.opened(self._link, self)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_over:
            self.end(ConnectionLost(f"connection to {self.address} was lost"))

    def end(self, error: KafkaWireError, *, is_reported: bool = True) -> None:
        """End the connection, and fail the waiting requests."""
        if self.is_over:
            return
        self.is_over = True
        self._limit.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._wire is not None:
            self._wire.close()
        waiting, self._waiting = self._waiting, {}
        if is_reported:
            self._driver.closed(self._link, error)
        for entry in waiting.values():
            entry.on_done(None, error)


class RouterDriver:
    """Drives the router of a client or broker on a host.

    Args:
        host: see `Host`.
        network: see `Network`.
        router: makes the decisions.
        client_id: identifies the client to the brokers.
        request_timeout_ms: how long to wait for responses to requests that have no timeout of their own.

    Attributes:
        host, client_id, request_timeout_ms: see above.
    """

    def __init__(self, host: Host, network: Network, router: Router, client_id: str, request_timeout_ms: int) -> None:
        self.host = host
        self.client_id = client_id
        self.request_timeout_ms = request_timeout_ms
        self._network = network
        self._router = router
        self._connections: dict[Link, _Connection] = {}
        self._is_woken = False
        self._timer: Event | None = None
        self._timer_due_ms = 0
        self._is_over = False

    def wake(self) -> None:
        """Let the router make its next decision soon."""
        if not self._is_woken and not self._is_over:
            self._is_woken = True
            self.host.post(self._turn)

    def end(self, error: KafkaWireError) -> None:
        """Fail all requests and close all connections."""
        if not self._is_over:
            self._is_over = True
            self._router.close(error, self.host.clock())
            for connection in list(self._connections.values()):
                connection.end(error, is_reported=False)

    def _turn(self) -> None:
        self._is_woken = False
        if self._is_over:
            return
        now_ms = self.host.clock()
        for action in self._router.poll(now_ms):
            if isinstance(action, Send):
                self._send(action.link, action.call, now_ms)
            elif isinstance(action, Open):
                connection = self._connections[action.link] = _Connection(self, action.link)
                self._network.connect(self.host, action.link.address, connection.opened, connection.refused)
            else:
                closed = self._connections.pop(action.link)
                closed.end(ConnectionLost(f"connection to {closed.address} was closed"), is_reported=False)
        due_ms = self._router.due_ms(now_ms)
        if due_ms is not None:
            self._set_timer(due_ms, now_ms)

    def _set_timer(self, due_ms: int, now_ms: int) -> None:
        if self._timer is not None:
            if now_ms < self._timer_due_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_due_ms = max(due_ms, now_ms + 1)
        self._timer = self.host.later_us(self.host.clock.until_us(self._timer_due_ms), self._fired)

    def _fired(self) -> None:
        self._timer = None
        self.wake()

    def _send(self, link: Link, call: Call, now_ms: int) -> None:
        connection = self._connections.get(link)
        try:
            if connection is None:
                raise ConnectionLost(f"connection to {link.address} has ended")
            request, version = call.request(connection)
            connection.begin(request, partial(self._received, call), version, call.timeout_ms)
        except KafkaWireError as error:
            self._router.failed(call, error, now_ms)
            self.wake()

    def _received(self, call: Call, response: Message | None, error: KafkaWireError | None) -> None:
        if self._is_over:
            return
        if error is not None:
            self._router.failed(call, error, self.host.clock())
        else:
            self._router.answered(call, response, self.host.clock())
        self.wake()

    # For the connections.

    def opened(self, link: Link, connection: _Connection) -> None:
        """Accept a connection that is ready."""
        if not self._is_over:
            self._router.opened(link, connection, self.host.clock())
            self.wake()

    def closed(self, link: Link, error: KafkaWireError) -> None:
        """Handle the end of a connection."""
        self._connections.pop(link, None)
        if not self._is_over:
            self._router.closed(link, error, self.host.clock())
            self.wake()
