"""The broker on an event loop: listeners, connections, the clock and background work around the `Core`.

`Broker` runs on the caller's event loop; `BackgroundBroker` runs one in its own thread, for tests and synchronous
programs; `process.py` runs one in a separate process. Requests are handled inline; only blocking work runs on other
threads. Networking is in `network/`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kafkawire.reference_broker.apis import load
from kafkawire.reference_broker.config.cluster_options import ClusterOptions, split_options
from kafkawire.reference_broker.config.idle_options import idle_options
from kafkawire.reference_broker.config.listeners import read_listeners
from kafkawire.reference_broker.config.options import NO_LIMIT, BrokerOptions, read_options
from kafkawire.reference_broker.config.security_settings import SecuritySettings, split_listener_options
from kafkawire.reference_broker.control_plane.single_broker import SingleBroker
from kafkawire.reference_broker.core import Core
from kafkawire.reference_broker.metadata.topic_store import open_alone
from kafkawire.reference_broker.network.acceptor import Acceptor
from kafkawire.reference_broker.network.background import BackgroundWork
from kafkawire.reference_broker.network.client_wire import ClientWire, Shared
from kafkawire.reference_broker.network.clock import BrokerClock
from kafkawire.reference_broker.network.connection_limits import (
    ConnectionLimits,
    ListenerLimits,
    read_overrides,
)
from kafkawire.reference_broker.network.descriptors import Descriptors
from kafkawire.reference_broker.network.doors import Doors, NewOutlet
from kafkawire.reference_broker.network.event_loop import loop_factory
from kafkawire.reference_broker.network.memory_budget import MemoryBudget
from kafkawire.reference_broker.network.outlets import PlainOutlet
from kafkawire.reference_broker.network.request_frames import shared_buffer
from kafkawire.reference_broker.requests.api_handlers import ApiHandler, Scope
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.requests.request_times import RequestObserver, RequestWatch
from kafkawire.reference_broker.requests.session import Session
from kafkawire.reference_broker.requests.slow_requests import SlowRequests
from kafkawire.reference_broker.security.quotas.connection_rates import check_listener_limits, listener_limits
from kafkawire.reference_broker.storage.disk.disk import Disk
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.clock import monotonic_ms, monotonic_ns, now_ms
from kafkawire.sdk.errors import Closed, ConfigurationError, LocalProtocolError
from kafkawire.sdk.options import INT32_MAX, INT64_MAX
from kafkawire.sdk.transport import fork
from kafkawire.sdk.transport.io_thread import check_threads
from kafkawire.sdk.transport.log_lines import begin_io_thread, end_io_thread, guard_loggers
from kafkawire.sdk.transport.own_loop import own_loop
from kafkawire.sdk.transport.wire import Address, Wire

if TYPE_CHECKING:
    from kafkawire.reference_broker.cluster_node import ClusterNode, OpenRegistry
    from kafkawire.reference_broker.network.http_server import HttpServer

__all__ = ["BackgroundBroker", "Broker", "Data", "address_of"]

#: Where a broker keeps its files; see `Broker`.
Data = Disk | str | Path | None

_log = logging.getLogger("kafkawire.broker")

#: The maximum time between checks for idle connections, and the minimum number of checks within the idle time.
_IDLE_CHECK_MS = 60_000
_IDLE_CHECKS = 2

#: How often to check whether clients whose connections are not being read have disconnected.
_ENDS_SECONDS = 1.0

#: The resolution of timers; it leaves time for requests even if a timer keeps rescheduling itself immediately.
_TICK_MS = 1

#: How long `BackgroundBroker` waits for its thread, on top of the time that a cluster may need.
_THREAD_TIMEOUT_SECONDS = 60

#: How long a stopping broker waits for syncs to disk, so that producers waiting for them get responses.
_LAST_WORK_SECONDS = 10

#: How long the disk may take for those syncs and for syncing the rest; unsynced data is checked at the next startup.
_LAST_SYNC_SECONDS = 30

#: How long clients may take to read their last responses when the broker stops, and how often that is checked.
_LAST_RESPONSES_MS = 1_000
_LAST_RESPONSES_PAUSE_SECONDS = 0.002


class Broker:
    """A broker on the running event loop.

    Args:
        data: the folder for its files, created if it does not exist; a disk; or None for an in-memory disk of
            `memory_disk_bytes` that lives as long as this object.
        host: the address to listen on, unless the option `listeners` is set.
        port: the port to listen on; 0 for any free port.
        handlers: handlers for APIs that are not Kafka's, or that have no built-in handler.
        wall_ms: returns the time in ms since the epoch; it may jump without affecting timeouts.
        registry: opens the registry of the cluster; None for the ZooKeeper of `zookeeper_connect`.
        options: the fields of `BrokerOptions`, and also those of `ClusterOptions` for a broker in a cluster; Kafka's
            dotted names are accepted too, and also those for one listener, such as
            `listener.name.external.ssl.client.auth`. With `zookeeper_connect`, the broker joins a cluster.

    Raises:
        ConfigurationError: an option is unknown or out of range, a listener's certificate or login cannot be used, or
            kazoo is not installed.
        TypeError: `handlers` contains an object of another type.
        LocalProtocolError: handlers clash with each other, or with the broker's own handlers.

    Attributes:
        options: the broker options.
        node: the broker as a node in its cluster; None for a standalone broker.
        is_stuck: whether the disk hung when the broker stopped, in which case threads are still waiting for it.
    """

    def __init__(
        self,
        data: Data,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        handlers: Iterable[ApiHandler] = (),
        wall_ms: Callable[[], int] = now_ms,
        registry: OpenRegistry | None = None,
        **options: object,
    ) -> None:
        if not callable(wall_ms):
            raise ConfigurationError("wall_ms", wall_ms, "expected a function that returns ms since the epoch")
        if data == "":
            raise ConfigurationError("data", data, "expected a folder")
        of_broker, of_listeners = split_listener_options(options)
        own, of_cluster = split_options(of_broker)
        self.options = read_options(own).with_listener_options(of_listeners)
        self._served = load(handlers, Scope.ALONE if of_cluster is None else Scope.CLUSTER)
        self._data: Disk | str | Path = MemoryDisk(self.options.memory_disk_bytes) if data is None else data
        self._listeners = read_listeners(self.options, host, port, socket.gethostname())
        self._security = SecuritySettings(self.options, of_listeners, self._listeners)
        self._doors = Doors(self._listeners, self._security)
        self.node: ClusterNode | None = None
        if of_cluster is not None:
            from kafkawire.reference_broker.cluster_node import ClusterNode, zookeeper_of  # slow to import

            cluster_options = ClusterOptions.read(of_cluster.items())
            opener = registry or zookeeper_of(cluster_options)
            self.node = ClusterNode(cluster_options, opener, tuple(self._listeners), self._security)
            self._doors.on_change = self.node.change_security
        self._core: Core | None = None
        self._timers: Timers | None = None
        self._acceptors: list[Acceptor] = []
        self._wires: dict[ClientWire, tuple[tuple[int, int], int]] = {}
        self._background = BackgroundWork()
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._ends_timer: asyncio.TimerHandle | None = None
        self._clock = BrokerClock(wall_ms)
        observers: list[RequestObserver] = []
        self._http: HttpServer | None = None
        if self.options.metrics_listen:
            # Few brokers in tests need these.
            from kafkawire.reference_broker.metrics.pages import Pages
            from kafkawire.reference_broker.metrics.request_metrics import RequestMetrics
            from kafkawire.reference_broker.network.http_server import HttpServer
            from kafkawire.reference_broker.network.loop_delay import LoopDelay

            requests = RequestMetrics(lambda: self.core.metadata.image.topics_by_id)
            listen = Address.parse("metrics_listen", self.options.metrics_listen, lowest_port=0)
            pages = Pages(self, requests)
            self._http = HttpServer(listen, pages.answer)
            self._loop_delay = LoopDelay(pages.loop_delay.add)
            observers.append(requests)
        if self.options.slow_request_ms:
            observers.append(SlowRequests(self.options.slow_request_ms))
        self._watch = RequestWatch(observers, monotonic_ns) if observers else None
        self._stopping = asyncio.Lock()
        self.is_stuck = False
        self._unready = "it has not been started"

    @property
    def address(self) -> Address:
        """The address to which clients of the first listener connect.

        Raises:
            Closed: the broker is not running.
        """
        return self.addresses[self._listeners[0].name]

    @property
    def addresses(self) -> dict[str, Address]:
        """The addresses to which clients connect, keyed by listener name.

        Raises:
            Closed: the broker is not running.
        """
        if not self._acceptors:
            raise Closed("the broker is not running")
        return {acceptor.listener.name: acceptor.listener.advertised for acceptor in self._acceptors}

    @property
    def bootstrap(self) -> str:
        """The address to which clients connect, as `host:port`."""
        return str(self.address)

    @property
    def core(self) -> Core:
        """The core of the broker, which has no sockets.

        Raises:
            Closed: the broker is not running.
        """
        if self._core is None:
            raise Closed("the broker is not running")
        return self._core

    @property
    def metrics_address(self) -> Address | None:
        """The address of the option `metrics_listen`, with the actual port; None if metrics are not served."""
        return None if self._http is None else self._http.address

    # Observed: read by the metrics.

    @property
    def running_core(self) -> Core | None:
        """The core; None if the broker is not running."""
        return self._core

    @property
    def unready_reason(self) -> str:
        """Why clients cannot use the broker now; empty if they can."""
        if not self._unready and self.node is not None and not self.node.is_registered:
            return "it is not registered in its cluster"
        return self._unready

    @property
    def sessions(self) -> Iterable[Session]:
        """The sessions of all connections."""
        return [wire.session for wire in self._wires]

    @property
    def held_bytes(self) -> int:
        """The memory of all connections."""
        budgets = () if self._core is None else (self._shared.budget, self._shared_between.budget)
        return sum(budget.received_bytes + budget.unsent_bytes for budget in budgets)

    def requires_certificates(self, listener: str) -> bool:
        """Return whether the clients of a listener need certificates.

        Args:
            listener: the name of the listener.
        """
        return self._security.of(listener).ssl_client_auth == "required"

    def idle_options(self) -> Iterable[tuple[str, str]]:
        """Return the names of given options that have no effect on the listeners or on ACLs, and why."""
        return idle_options(self.options, self._security, self._listeners, is_alone=self.node is None)

    @property
    def _between_brokers(self) -> frozenset[str]:
        """The names of the listeners that only brokers use, which have no connection limits."""
        return frozenset() if self.node is None else self.node.listeners_between_brokers

    async def start(self) -> None:
        """Open the logs, recovering from a crash if needed, and listen; wait for any shutdown in progress first.

        A broker in a cluster also waits until the controller has announced it.

        Raises:
            LocalProtocolError: the broker is already running, and keeps running.
            ConfigurationError: the data directory belongs to another broker, or another broker is using the id.
            RequestTimedOut: the registry cannot be reached, or the controller does not announce the broker.
            RegistryError: the registry refuses an operation.
            OSError: the address is in use, or the directory cannot be written.
        """
        if not self._stopping.locked():
            self._stopping = asyncio.Lock()  # the event loop may have changed
        async with self._stopping:
            if self._core is not None:
                raise LocalProtocolError("the broker is already running")
            guard_loggers()
            self._unready = "it is starting"
            for name, reason in self.idle_options():
                _log.warning("%s has no effect: %s", name, reason)
            if self._http is not None:
                await self._http.start()
                self._loop_delay.start()
            try:
                await self._start()
            except BaseException:
                await self._stop_http("it could not be started")
                raise
            self._unready = ""

    async def _start(self) -> None:
        options = self.options
        self._background = BackgroundWork()
        overrides = read_overrides(options.max_connections_per_ip_overrides, address_of)
        shortage = Descriptors(self._clock).refusal
        limits = ConnectionLimits(options.max_connections, options.max_connections_per_ip, overrides, shortage)
        acceptors: list[Acceptor] = []
        of_listeners: dict[str, ListenerLimits] = {}
        with contextlib.ExitStack() as undo:
            # Brokers must be able to reach each other, whatever clients do.
            between = self._between_brokers
            no_limits = ConnectionLimits(INT32_MAX, INT32_MAX, {}, shortage)
            for listener in self._listeners:
                of_all = no_limits if listener.name in between else limits
                of_listener = of_listeners[listener.name] = ListenerLimits(listener.name, INT32_MAX, of_all)
                acceptors.append(Acceptor(listener, of_listener, self._connect, self._clock, options.socket_buffers))
                undo.callback(acceptors[-1].abandon)
            # The --listen argument counts as given.
            options = options.with_values(listeners=",".join(str(acceptor.listener) for acceptor in acceptors))
            disk = MachineDisk(self._data) if isinstance(self._data, str | Path) else self._data
            services = LogServices(disk, self._background, clock=self._clock)
            self._drive(services.timers)
            undo.callback(self._stop_timers)
            core = await self._open(services, options, acceptors)
            undo.pop_all()
        self._core = core
        try:
            await self._serve(core, options, acceptors, limits, of_listeners, overrides)
        except BaseException:
            if self.node is not None:  # so that the next startup need not wait for this session to end
                self.node.end_control()
                await self.node.leave()
            await self.kill()
            raise

    async def _serve(
        self,
        core: Core,
        options: BrokerOptions,
        acceptors: list[Acceptor],
        limits: ConnectionLimits,
        of_listeners: Mapping[str, ListenerLimits],
        overrides: Mapping[str, int],
    ) -> None:
        """Accept clients, and join the cluster if there is one."""
        # Keep the actual ports, so that a restarted broker listens where its clients expect it to.
        self._listeners = [acceptor.listener for acceptor in acceptors]
        self._acceptors = acceptors
        static_text = self.options.max_connections_per_ip_overrides

        def change_limits(options: BrokerOptions) -> None:
            text = options.max_connections_per_ip_overrides
            # Host names are resolved only here; values set later must be addresses.
            others = overrides if text == static_text else read_overrides(text, lambda address: address)
            limits.change(options.max_connections, options.max_connections_per_ip, others)
            configs, rate = core.broker_configs, options.max_connection_creation_rate
            for name, most in listener_limits(of_listeners, "max.connections", INT32_MAX, configs).items():
                of_listeners[name].change(most)
            rates = listener_limits(of_listeners, "max.connection.creation.rate", rate, configs)
            core.quotas.connections.change(rate, rates)
            self._doors.change({**core.broker_configs.of_cluster, **core.broker_configs.of_broker})

        def check_listeners(configs: Mapping[str, str]) -> None:
            check_listener_limits(of_listeners, configs)
            self._doors.check(configs)

        core.on_options = change_limits
        change_limits(core.options)
        core.check_listeners = check_listeners
        budget = MemoryBudget(options.memory_of_connections_bytes, core.timers, self._clock)
        self._shared = Shared(shared_buffer(), budget, options.max_frame_bytes)
        self._shared_between = self._shared._replace(budget=MemoryBudget(INT64_MAX, core.timers, self._clock))
        self._doors.credentials.scram, self._doors.credentials.tokens = core.scram_credentials, core.tokens
        self._doors.open(core.requests.services, self._background, self._clock())
        self._check_idle()
        self._look_for_ends()
        if self.node is not None:
            await self.node.follow_configs()
            await self.node.follow_acls()
        for acceptor in acceptors:
            acceptor.rates = core.quotas.connections
            # With a single listener, brokers and clients use the same one.
            acceptor.is_protected = acceptor.listener.name in self._between_brokers and len(acceptors) > 1
            acceptor.start()
        if self.node is not None:
            await self.node.join()

    async def _open(self, services: LogServices, options: BrokerOptions, acceptors: list[Acceptor]) -> Core:
        """Open the logs and return the core."""
        listeners = tuple(acceptor.listener for acceptor in acceptors)
        if self.node is not None:
            return await self.node.open(services, listeners, options, self._served)
        store = open_alone(services, options.node_id, lambda: uuid.uuid4().bytes, options.topic_defaults)
        with contextlib.ExitStack() as undo:
            undo.callback(store.directory.abandon)
            addresses = {listener.name: listener.advertised for listener in listeners}
            control = SingleBroker(store, options, addresses, self._served)
            core = Core(control, store.directory, options, _new_id, self._clock(), self._served, monotonic_ns)
            undo.pop_all()
        return core

    def _drive(self, timers: Timers) -> None:
        """Fire timers on the event loop."""
        self._timers = timers
        self._clock.on_jump = timers.shift
        timers.on_earlier = self._wake_at
        self._wake_next()

    def _stop_timers(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._timers is not None:
            self._timers.on_earlier = None
            self._timers = None

    async def stop(self) -> None:
        """Answer the requests whose data is stored, sync everything to disk, and close.

        May be called more than once; a concurrent call waits for the first one.
        """
        async with self._stopping:
            if self._core is not None:
                await self._stop(self._core)

    async def _stop(self, core: Core) -> None:
        self._unready = "it is stopping"
        if self.node is not None:
            await self.node.shut_down()
            if self._core is None:  # killed
                return
        await self._stop_listening()
        core.begin_end()
        for wire in self._wires:
            wire.session.begin_end()
        try:
            await asyncio.wait_for(self._background.idle(), _LAST_WORK_SECONDS)
        except TimeoutError:
            _log.warning("stopping although work has not finished within %d s", _LAST_WORK_SECONDS)
        if self._core is None:  # killed
            return
        self._stop_timers()
        core.unload()
        if self.node is not None:
            self.node.end_control()
        await asyncio.sleep(0)  # a response is sent one iteration of the loop after its cause
        for wire in list(self._wires):
            wire.finish()
        deadline_ms = monotonic_ms() + _LAST_RESPONSES_MS
        while self._wires and monotonic_ms() < deadline_ms:
            await asyncio.sleep(_LAST_RESPONSES_PAUSE_SECONDS)
        for wire in list(self._wires):
            wire.abort()
        if self._core is not None:
            self._core = None
            await self._close(core)
            if self.node is not None:
                await self.node.leave()
            await self._stop_http()

    async def _close(self, core: Core) -> None:
        """Sync everything on other threads, so that a hung disk can be reported."""
        loop, closed = asyncio.get_running_loop(), asyncio.Event()

        def close() -> None:
            core.close(self._background.each)
            self._background.close()
            with contextlib.suppress(RuntimeError):  # closing took too long, and the loop has already ended
                loop.call_soon_threadsafe(closed.set)

        threading.Thread(target=close, name="kafkawire-broker-close", daemon=True).start()
        try:
            await asyncio.wait_for(closed.wait(), _LAST_SYNC_SECONDS)
        except TimeoutError:
            self.is_stuck = True
            _log.error("the disk did not sync everything within %d s, so the shutdown is not clean", _LAST_SYNC_SECONDS)

    async def kill(self) -> None:
        """Stop as in a crash, without sending, syncing or writing the clean-shutdown file."""
        await self._stop_listening()
        await self._stop_http()
        core, self._core = self._core, None
        if core is not None:
            for wire in list(self._wires):
                wire.abort()
            self._background.kill()
            self._stop_timers()
            if self.node is not None:
                self.node.abandon()
            core.abandon()

    async def _stop_http(self, reason: str = "it has been stopped") -> None:
        self._unready = reason
        if self._http is not None:
            self._loop_delay.stop()
            await self._http.stop()

    async def _stop_listening(self) -> None:
        acceptors, self._acceptors = self._acceptors, []
        for acceptor in acceptors:
            await acceptor.stop()
        self._doors.close()
        for timer in (self._idle_timer, self._ends_timer):
            if timer is not None:
                timer.cancel()

    # Connections.

    def _connect(self, client: socket.socket, peer: Peer, gone: Callable[[], None]) -> asyncio.BufferedProtocol:
        """Return the protocol of a new client."""
        core = self.core
        loop = asyncio.get_running_loop()
        login = self._doors.login(peer.listener.name)

        def session(wire: Wire) -> Session:
            return Session(
                core.requests,
                wire,
                peer,
                self._clock,
                loop.call_soon,
                sends_files=True,
                login=login,
                watch=self._watch,
            )

        def closed(wire: ClientWire) -> None:
            del self._wires[wire]
            gone()

        def connect(outlet: NewOutlet | None) -> ClientWire:
            shared = self._shared_between if peer.listener.name in self._between_brokers else self._shared
            wire = ClientWire(client, session, shared, closed, outlet or PlainOutlet)
            self._wires[wire] = wire.progress, monotonic_ms()
            return wire

        return self._doors.protocol(client, peer, connect, gone)

    def _check_idle(self) -> None:
        """Close connections on which no request or response has made progress for too long."""
        limit_ms = self.options.connections_max_idle_ms
        if limit_ms == NO_LIMIT:
            return
        now_ms = monotonic_ms()
        for wire, (progress, since_ms) in list(self._wires.items()):
            if wire.progress != progress or not wire.may_be_idle:
                self._wires[wire] = wire.progress, now_ms
            elif now_ms - since_ms >= limit_ms:
                wire.expire()
        delay_ms = min(limit_ms / _IDLE_CHECKS, _IDLE_CHECK_MS)
        self._idle_timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._check_idle)

    def _look_for_ends(self) -> None:
        for wire in list(self._wires):
            wire.look_for_end()
        self._ends_timer = asyncio.get_running_loop().call_later(_ENDS_SECONDS, self._look_for_ends)

    # Time.

    def _wake_at(self, deadline_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_ms = max(deadline_ms - self._clock.known_ms, _TICK_MS)
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self._timers is not None:
            self._timers.fire(self._clock())
            self._wake_next()

    def _wake_next(self) -> None:
        if self._timers is not None and (deadline_ms := self._timers.next_deadline_ms) is not None:
            self._wake_at(deadline_ms)


class BackgroundBroker:
    """A broker in its own thread, for tests and synchronous programs.

    Args:
        data: see `Broker`.
        host: see `Broker`.
        port: see `Broker`.
        handlers: see `Broker`; they are called in the broker's thread.
        wall_ms: see `Broker`; it is called in the broker's thread.
        registry: see `Broker`; it is called in the broker's thread.
        options: see `Broker`.

    Raises:
        ConfigurationError: an option is unknown or out of range.
        TypeError: see `Broker`.
        LocalProtocolError: see `Broker`.
    """

    def __init__(
        self,
        data: Data,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        handlers: Iterable[ApiHandler] = (),
        wall_ms: Callable[[], int] = now_ms,
        registry: OpenRegistry | None = None,
        **options: object,
    ) -> None:
        self._broker = Broker(data, host, port, handlers=handlers, wall_ms=wall_ms, registry=registry, **options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._changing = threading.Lock()  # held while the thread is being started or ended
        fork.watch(self)

    @property
    def bootstrap(self) -> str:
        """The address to which clients connect, as `host:port`."""
        return self._broker.bootstrap

    @property
    def addresses(self) -> dict[str, Address]:
        """The addresses to which clients connect, keyed by listener name."""
        return self._broker.addresses

    @property
    def metrics_address(self) -> Address | None:
        """See `Broker.metrics_address`."""
        return self._broker.metrics_address

    def start(self) -> None:
        """Start the thread and wait until the broker listens.

        Raises:
            LocalProtocolError: the broker is already running, and keeps running; or threads are greenlets (see
                `check_threads`).
            ConfigurationError: the data directory belongs to another broker.
            OSError: the address is in use, or the directory cannot be written.
        """
        with self._changing:
            if self._loop is not None:
                raise LocalProtocolError("the broker is already running")
            check_threads()
            self._loop = own_loop(loop_factory(self._broker.options.event_loop))
            self._thread = threading.Thread(target=_run, args=(self._loop,), name="kafkawire-broker", daemon=True)
            self._thread.start()
            try:
                asyncio.run_coroutine_threadsafe(self._broker.start(), self._loop).result(self._patience_seconds)
            except BaseException:
                self._end_thread()
                raise

    def stop(self) -> None:
        """Shut down cleanly (see `Broker.stop`); may be called more than once, from any thread."""
        self._end(self._broker.stop)

    def kill(self) -> None:
        """Stop as in a crash (see `Broker.kill`), from any thread; a stop in progress is completed instead."""
        self._end(self._broker.kill)

    def _end(self, end: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with self._changing:
            if self._loop is not None:
                asyncio.run_coroutine_threadsafe(end(), self._loop).result(self._patience_seconds)
                self._end_thread()

    @property
    def _patience_seconds(self) -> float:
        """How long startup or shutdown may take before the thread is considered hung."""
        node = self._broker.node
        return _THREAD_TIMEOUT_SECONDS + (0 if node is None else node.patience_ms / 1_000)

    def forked(self, error: fork.Forked) -> None:
        """Drop the loop, thread and files in a child process, since they belong to the parent."""
        self._loop = self._thread = None
        self._changing = threading.Lock()  # the thread that held it does not exist in this process

    def _end_thread(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._loop = self._thread = None

        async def settle() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # The loop needs one iteration to remove closed connections.
            await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(settle(), loop).result(_THREAD_TIMEOUT_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_THREAD_TIMEOUT_SECONDS)
        loop.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    begin_io_thread()
    try:
        loop.run_forever()
    finally:
        end_io_thread()


def _new_id() -> str:
    return str(uuid.uuid4())


def address_of(host: str) -> str:
    """Return the address of a host.

    Raises:
        OSError: the host is unknown.
    """
    return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
