"""A connection to one broker: requests in, responses out.

`BrokerConnection` combines the sans-I/O `ClientConnection` with a wire. Requests are pipelined: several callers may
have requests in flight, and the broker responds in order. A request that times out ends the connection, since no later
response can arrive before the missing one; every pending request then fails with that error, and the caller opens a new
connection.

Source: Kafka protocol guide, "Network"; `NetworkClient` in Apache Kafka.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import (
    ConfigurationError,
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    NeverAnswered,
    RemoteProtocolError,
    RequestTimedOut,
)
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS, ApiRegistry
from kafkawire.sdk.protocol.connection import MAX_IN_FLIGHT, ClientConnection
from kafkawire.sdk.protocol.gate import ConnectionState
from kafkawire.sdk.protocol.sasl.authenticator import Login
from kafkawire.sdk.protocol.schema import Buffer, Message
from kafkawire.sdk.transport.failures import connect_failed, login_lost, silence
from kafkawire.sdk.transport.gate import GateDriver
from kafkawire.sdk.transport.wire import Address, Network, Wire

__all__ = ["BrokerConnection", "ConnectionSettings", "Traffic"]

#: Called once, with the response or with the error that takes its place.
OnDone = Callable[[Message | None, KafkaWireError | None], None]


class Traffic(Protocol):
    """Counts the traffic of connections, except logins."""

    def sent(self, parts: Iterable[Buffer], now_ms: int) -> None:
        """Count a request, given its parts."""
        ...

    def received(self, size_bytes: int, now_ms: int) -> None:
        """Count a response, given its size without the length prefix."""
        ...


class ConnectionSettings(NamedTuple):
    """How to connect.

    Attributes:
        client_id: the name that brokers use for logs and quotas.
        connect_timeout_ms: time limit for connecting, the TLS handshake, negotiating versions and logging in.
        request_timeout_ms: time limit for each response, including those in the last two steps, unless a request has
            its own timeout.
        max_in_flight: the maximum number of requests waiting for a response on one connection.
        login: creates the authenticator for each login; None for connections without SASL.
        credentials: where `login` gets its credentials, for errors.
        traffic: counts requests and responses; None if they are not counted.
        apis: the APIs that can be called.
    """

    client_id: str | None = "kafkawire"
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    max_in_flight: int = MAX_IN_FLIGHT
    login: Login | None = None
    credentials: str = "the login"
    traffic: Traffic | None = None
    apis: ApiRegistry = KAFKA_APIS


class _Waiting(NamedTuple):
    """A request in flight."""

    on_done: OnDone
    api_name: str
    deadline_ms: int
    timeout_ms: int


class BrokerConnection:
    """One connection to one broker; created by `open`.

    Args:
        wire: carries the bytes.
        address: the broker's address, for error messages.
        settings: see `ConnectionSettings`.
        protocol: the connection's state machine, without the wire.

    Attributes:
        on_end: called with the reason when the connection ends, before the pending requests fail; not called by
            `close`.
    """

    def __init__(self, wire: Wire, address: Address, settings: ConnectionSettings, protocol: ClientConnection) -> None:
        self.address = address
        self.on_end: Callable[[KafkaWireError], None] | None = None
        self._wire = wire
        self._settings = settings
        self._protocol = protocol
        login = settings.login, settings.credentials
        self._gate = GateDriver(protocol, wire, address, *login, settings.connect_timeout_ms, self._end)
        self._versions: dict[tuple[type[Message], tuple[type[Message], str] | None], int] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        self._ended: KafkaWireError | None = None
        self._has_answered = False

    @classmethod
    async def open(cls, network: Network, address: Address, settings: ConnectionSettings) -> "BrokerConnection":
        """Connect to a broker and pass the gate: version negotiation and login.

        Raises:
            AuthenticationFailed: the broker's certificate or this client's login was rejected.
            ConnectFailed: the broker cannot be reached, does not respond in time, or does not speak the protocol; the
                cause says why, and the phase says at which step.
            ConfigurationError: the certificates or credentials cannot be used.
        """
        protocol = ClientConnection(
            settings.client_id,
            settings.max_in_flight,
            authenticates=settings.login is not None,
            apis=settings.apis,
        )
        entered: list[ConnectionState] = []

        def enter(state: ConnectionState) -> None:
            entered.append(state)
            protocol.enter(state)

        limit = asyncio.timeout(settings.connect_timeout_ms / 1000)
        try:
            async with limit:
                connection = await network.open(address, lambda wire: cls(wire, address, settings, protocol), enter)
                try:
                    await connection._gate.open(settings.request_timeout_ms)
                except BaseException:
                    connection.close()
                    raise
        except ConfigurationError:
            raise
        except TimeoutError as error:
            state = protocol.state
            if limit.expired():
                name, timeout_ms = "connect_timeout_ms", settings.connect_timeout_ms
            elif state.is_before_ready:
                name, timeout_ms = "request_timeout_ms", settings.request_timeout_ms
            else:
                raise connect_failed(address, state, error) from error  # the operating system gave up
            if protocol.wants_login:  # so the broker is not to blame
                reason = f"{settings.credentials} gave no credentials within {name}={timeout_ms}"
            else:
                reason = silence(state, f"{name}={timeout_ms}", is_encrypted=ConnectionState.TLS in entered)
            raise ConnectFailed(address, reason, state.value) from error
        except (OSError, KafkaWireError) as error:
            raise connect_failed(address, protocol.state, error) from error
        return connection

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._ended is None and self._wire.is_open

    @property
    def in_flight(self) -> int:
        """The number of requests waiting for a response."""
        return len(self._waiting)

    def version_for(self, request: type[Message], carrying: tuple[type[Message], str] | None = None) -> int:
        """Return the version in which a request will be sent.

        Args:
            request: the class of the request.
            carrying: a structure and one of its fields; only versions that have the field are considered.

        Raises:
            UnsupportedVersion: the broker and this release have no common version.
            LocalProtocolError: the request's API is not in the registry.
        """
        version = self._versions.get((request, carrying))
        if version is not None:
            return version
        version = self._protocol.version_for(self._settings.apis.of(request))
        if carrying is not None:
            structure, name = carrying
            version = min(version, next(field.versions.last for field in structure.FIELDS if field.name == name))
        self._versions[request, carrying] = version
        return version

    def feature_level(self, name: str) -> int:
        """Return the level of a feature that was finalized when the connection opened; 0 if there was none."""
        return self._protocol.feature_level(name)

    def begin(
        self, request: Message, on_done: OnDone, version: int | None = None, timeout_ms: int | None = None
    ) -> None:
        """Write a request now; requests reach the broker in the order of the calls.

        Args:
            request: a request of one of the settings' APIs.
            on_done: called once: with the response, with `RequestTimedOut` if none arrived in time, which ends the
                connection, or with `ConnectionLost` if the connection ended first, for example because the broker
                violated the protocol.
            version: the version; None for the highest one that both sides support.
            timeout_ms: time limit for the response; None for the settings' `request_timeout_ms`.

        Raises:
            ConnectionLost: the connection has already ended.
            LocalProtocolError: the request cannot be written; nothing was sent.
        """
        if self._ended is not None:  # if the wire is about to end, the request fails along with the others
            self._check_open()
        now_ms = monotonic_ms()
        sent = self._protocol.request(request, version, now_ms=now_ms)
        if sent.parts:
            self._wire.write(sent.parts)
        if self._settings.traffic is not None:
            self._settings.traffic.sent(sent.parts, now_ms)
        if timeout_ms is None:
            timeout_ms = self._settings.request_timeout_ms
        deadline_ms = now_ms + timeout_ms
        self._waiting[sent.correlation_id] = _Waiting(on_done, sent.api.name, deadline_ms, timeout_ms)
        if self._timer is None or deadline_ms < self._timer_due_ms:
            self._set_timer(deadline_ms, timeout_ms)

    def post(self, request: Message, version: int | None = None) -> None:
        """Write a request that has no response (Produce with acks=0); `sent` waits until it has left this process."""
        self._check_open()
        now_ms = monotonic_ms()
        sent = self._protocol.request(request, version, expect_response=False, now_ms=now_ms)
        if sent.parts:
            self._wire.write(sent.parts)
        if self._settings.traffic is not None:
            self._settings.traffic.sent(sent.parts, now_ms)

    async def drain(self) -> None:
        """Wait until the write buffer has room."""
        await self._wire.drain()

    @property
    def has_unsent(self) -> bool:
        """Whether any bytes of a request are still unsent."""
        return self._wire.has_unsent

    async def sent(self) -> None:
        """Wait until nothing is unsent.

        Raises:
            ConnectionLost: the connection ended first.
        """
        await self._wire.sent()
        self._check_open()

    @property
    def is_congested(self) -> bool:
        """Whether there are so many unsent bytes that `drain` waits."""
        return self._wire.is_congested

    def close(self) -> None:
        """Close the connection; pending requests fail with `ConnectionLost`."""
        self.on_end = None
        self._end(ConnectionLost(f"connection to {self.address} was closed by this client"))

    # Called by the wire.

    def receive_frame(self, frame: Buffer) -> None:
        try:
            received = self._protocol.receive(frame)
        except KafkaWireError as error:
            self._refuse(error)
            return
        waiting = self._waiting.pop(received.correlation_id, None)
        if waiting is None:
            self._gate.step()
        else:
            if self._settings.traffic is not None:
                self._settings.traffic.received(len(frame), monotonic_ms())
            self._has_answered = True
            waiting.on_done(received.message, None)

    def check_length(self, length: int) -> None:
        try:
            self._protocol.check_length(length)
        except RemoteProtocolError as error:
            self._refuse(error)
            raise

    def connection_lost(self, error: Exception | None) -> None:
        if isinstance(error, RemoteProtocolError):
            self._end(error)
        else:
            reason, kind = error or "closed by the broker", ConnectionLost
            if self._waiting and not self._has_answered and self._settings.login is None:
                # A broker that expects SASL tells any client its versions, but closes the connection at any other
                # request.
                reason, kind = f"{reason} before it responded to a request; does this port use SASL?", NeverAnswered
            lost = kind(f"connection to {self.address} was lost: {reason}")
            lost.__cause__ = error
            self._end(lost)

    def _check_open(self) -> None:
        if not self.is_open:
            raise ConnectionLost(f"connection to {self.address} has ended") from self._ended

    def _set_timer(self, due_ms: int, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_ms = due_ms
        self._timer = self._loop.call_later(delay_ms / 1000, self._check_deadlines)

    def _check_deadlines(self) -> None:
        """End the connection if a request is overdue; otherwise check again when the next one might be."""
        self._timer = None
        now_ms = monotonic_ms()
        late = min(self._waiting.values(), key=lambda waiting: waiting.deadline_ms, default=None)
        if late is None:
            return
        if late.deadline_ms > now_ms:
            self._set_timer(late.deadline_ms, late.deadline_ms - now_ms)
            return
        self._end(RequestTimedOut(f"{self.address} did not respond to {late.api_name} within {late.timeout_ms} ms"))

    def _refuse(self, error: KafkaWireError) -> None:
        is_login = self._protocol.state is ConnectionState.REAUTHENTICATION
        self._end(login_lost(self.address, error) if is_login else error)

    def _end(self, error: KafkaWireError) -> None:
        if self._ended is not None:
            return
        self._ended = error
        self._gate.close(error)
        if self._timer is not None:
            self._timer.cancel()
        if self._wire.has_unsent:  # nothing waits for the rest to be sent, and the event loop may end at any time
            self._wire.abort()
        else:
            self._wire.close()
        if isinstance(error, RemoteProtocolError):
            # The requests in flight merely share the connection: as with any lost connection, the broker may have
            # processed them.
            reason = f"data from the broker is damaged: {error}"
            lost = ConnectionLost(f"connection to {self.address} was given up: {reason}")
            lost.__cause__ = error
            error = lost
        waiting, self._waiting = self._waiting, {}
        if self.on_end is not None:
            self.on_end(error)
        for entry in waiting.values():
            entry.on_done(None, error.again())
