"""How a broker joins and leaves its cluster: the steps of startup, shutdown and a kill, on an event loop.

    options, listeners ─▶ lock, folders ─▶ session ─▶ prepare ─▶ meta.properties ─▶ logs ─▶ core ─▶ links
        ─▶ configurations ─▶ acceptors ─▶ registration ─▶ controller ─▶ announced by the controller

Source: `KafkaServer.startup`, `KafkaServer.shutdown` in Apache Kafka 3.9.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeVar

from kafkawire.reference_broker.cluster.controller.live_brokers import Endpoint
from kafkawire.reference_broker.cluster.membership import LEAVE_TIMEOUT_MS, ClusterLinks, Membership, MembershipServices
from kafkawire.reference_broker.cluster.registration import registration_patience_ms
from kafkawire.reference_broker.cluster.registry_configs import usable_configs
from kafkawire.reference_broker.cluster.startup import Prepared, StartupSettings, prepare
from kafkawire.reference_broker.config.cluster_options import ClusterOptions
from kafkawire.reference_broker.config.endpoints import SECURITY_PROTOCOLS, Listener
from kafkawire.reference_broker.config.listeners import ListenerRoles, read_listener_roles
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.config.security_settings import SecuritySettings
from kafkawire.reference_broker.control_plane.cluster_member import ClusterMember
from kafkawire.reference_broker.core import Core
from kafkawire.reference_broker.network.broker_links import BrokerLinks
from kafkawire.reference_broker.network.link_security import LinkSecurity, link_security
from kafkawire.reference_broker.requests.api_handlers import ServedApis
from kafkawire.reference_broker.storage.checkpoints import DamagedFile
from kafkawire.reference_broker.storage.directory.identity import begin_in_cluster, read_identity
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory, LogPlace, lock_directory
from kafkawire.reference_broker.storage.directory.partition_folders import PartitionFolders
from kafkawire.reference_broker.storage.disk.disk import Lock
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.clock import monotonic_ns
from kafkawire.sdk.errors import ConfigurationError, KafkaWireError, RequestTimedOut
from kafkawire.sdk.protocol.uuids import format_uuid
from kafkawire.sdk.registry.acls import default_acl
from kafkawire.sdk.registry.registry import Post, Registry, RegistryError, SessionListener
from kafkawire.sdk.registry.steps import Steps, across_sessions, run
from kafkawire.sdk.registry.zookeeper import ZooKeeperRegistry
from kafkawire.sdk.storage.meta_properties import MetaProperties
from kafkawire.sdk.storage.partitions import Partition
from kafkawire.sdk.transport.connection import ConnectionSettings
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.timing import random_fraction

__all__ = [
    "ANNOUNCEMENT_TIMEOUT_MS",
    "ClusterNode",
    "OpenRegistry",
    "core_of_member",
    "open_directory",
    "startup_settings",
    "zookeeper_of",
]

_log = logging.getLogger("kafkawire.broker")

R = TypeVar("R")

#: Opens a session with the cluster's registry, given the broker's `Post`.
OpenRegistry = Callable[[Post], Registry]

#: How long a starting broker waits for the controller to announce it. This is longer than it takes to elect a
#: controller after a killed controller's session has expired (18 s by default).
ANNOUNCEMENT_TIMEOUT_MS: Final = 60_000

#: How long a connection to another broker may take to open.
_CONNECT_TIMEOUT_MS: Final = 10_000


def zookeeper_of(options: ClusterOptions) -> OpenRegistry:
    """Return a function that opens a session with the ZooKeeper in `zookeeper.connect`.

    Raises:
        ConfigurationError: a file for TLS or for the login cannot be used, or `zookeeper.set.acl` is true but the
            session has no identity to which exclusive rights could be given.
    """
    security = options.zookeeper_security()
    if options.zookeeper_set_acl and not security.has_identity:
        reason = (
            "the broker has no identity in ZooKeeper; give it one with java.security.auth.login.config, a file with a "
            "section Client, or with zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location"
        )
        raise ConfigurationError("zookeeper.set.acl", True, reason)
    chroot_acl = default_acl(is_secure=options.zookeeper_set_acl)

    def open_registry(post: Post) -> Registry:
        timeout_ms = options.zookeeper_session_timeout_ms
        return ZooKeeperRegistry(
            options.zookeeper_connect, post, session_timeout_ms=timeout_ms, security=security, chroot_acl=chroot_acl
        )

    return open_registry


def startup_settings(options: ClusterOptions, endpoints: tuple[Endpoint, ...]) -> StartupSettings:
    """Return the settings for `prepare`."""
    return StartupSettings(
        options.configured_broker_id,
        endpoints,
        options.broker_id_generation_enable,
        options.reserved_broker_max_id,
        options.zookeeper_set_acl,
    )


def open_directory(
    services: LogServices, lock: Lock, known: MetaProperties | None, prepared: Prepared, options: BrokerOptions
) -> LogDirectory:
    """Open the logs of a broker for which `prepare` has run, and set the broker id in its options.

    Args:
        services: services for the logs.
        lock: the lock of the data directory.
        known: the identity stored in the data directory; None if the directory is new.
        prepared: see `prepare`.
        options: broker options.

    Raises:
        DamagedFile: a file cannot be read.
        OSError: the disk failed.
    """
    begin_in_cluster(services.disk, known, prepared.identity)
    options.change(node_id=int(prepared.identity.node_id))
    directory = LogDirectory(services, lock, options.topic_defaults, is_replicated=True)
    directory.open(_places(directory, prepared))
    return directory


def core_of_member(
    membership: Membership,
    directory: LogDirectory,
    prepared: Prepared,
    options: BrokerOptions,
    new_id: Callable[[], str],
    served: ServedApis,
    clock_ns: Callable[[], int] | None = None,
) -> Core:
    """Return the core of a cluster member, which accepts requests from then on.

    Args:
        membership: see `Membership`.
        directory: the result of `open_directory`.
        prepared: see `prepare`.
        options: broker options.
        new_id: creates the ids of members and of fetch sessions.
        served: the APIs of the broker.
        clock_ns: see `Core`.
    """
    member = ClusterMember(membership, directory, prepared.expected)
    return Core(member, directory, options, new_id, membership.services.clock(), served, clock_ns)


def _places(directory: LogDirectory, prepared: Prepared) -> list[LogPlace]:
    """Return the partitions to open, without any configurations that cannot be used."""
    configs: Mapping[str, Mapping[str, str]] = {each.topic: each.configs for each in prepared.expected}
    usable = {topic: directory.config_of(usable_configs(topic, each)) for topic, each in configs.items()}
    return [LogPlace(each.topic, each.number, each.topic_id, usable[each.topic]) for each in prepared.expected]


class _Opened(NamedTuple):
    """A node that has opened its logs.

    Attributes:
        registry: its session with the registry.
        membership: see `Membership`.
        links: all of its links, which have to be closed.
    """

    registry: Registry
    membership: Membership
    links: tuple[BrokerLinks, ...]


class ClusterNode:
    """A broker that is joining its cluster, belongs to it, or is leaving it.

    Args:
        options: membership options.
        open_registry: see `OpenRegistry`.
        listeners: the broker's listeners.
        security: their security.

    Raises:
        ConfigurationError: the options for inter-broker listeners do not match the listeners, or this broker cannot
            connect to other brokers' listeners of these names.
    """

    def __init__(
        self,
        options: ClusterOptions,
        open_registry: OpenRegistry,
        listeners: tuple[Listener, ...],
        security: SecuritySettings,
    ) -> None:
        self._options = options
        self._open_registry = open_registry
        self._names = tuple(listener.name for listener in listeners)
        self._roles: ListenerRoles = read_listener_roles(
            self._names,
            inter_broker_listener_name=options.inter_broker_listener_name,
            security_inter_broker_protocol=options.security_inter_broker_protocol,
            control_plane_listener_name=options.control_plane_listener_name,
        )
        of_roles = {listener.name: link_security(listener, security) for listener in self._used(listeners)}
        self._control_security: LinkSecurity = of_roles[self._roles.controller]
        self._security: LinkSecurity = of_roles[self._roles.between_brokers]
        self._opened: _Opened | None = None

    def change_security(self, settings: SecuritySettings) -> None:
        """Use other certificates for later connections to other brokers.

        Args:
            settings: the changed security of the listeners.

        Raises:
            ConfigurationError: they cannot be used, and the former ones stay.
        """
        for tls in {self._control_security.tls, self._security.tls}:
            if tls is not None:
                tls.change(settings)

    def _used(self, listeners: tuple[Listener, ...]) -> list[Listener]:
        """Return the listeners that brokers use."""
        return [each for each in listeners if each.name in (self._roles.between_brokers, self._roles.controller)]

    @property
    def listeners_between_brokers(self) -> frozenset[str]:
        """The names of the listeners that only brokers use; empty if clients and brokers share a single listener."""
        if len(self._names) == 1:
            return frozenset()
        return frozenset({self._roles.between_brokers, self._roles.controller})

    @property
    def is_registered(self) -> bool:
        """Whether the cluster knows that the broker is alive."""
        return self._opened is not None and self._opened.membership.is_registered

    @property
    def membership(self) -> Membership | None:
        """The membership; None while there is none."""
        return None if self._opened is None else self._opened.membership

    @property
    def patience_ms(self) -> int:
        """How long the cluster may delay startup or shutdown, whichever takes longer."""
        options = self._options
        registration_ms = registration_patience_ms(options.zookeeper_session_timeout_ms)
        start_ms = options.connection_timeout_ms + registration_ms + ANNOUNCEMENT_TIMEOUT_MS
        attempt_ms = options.controller_socket_timeout_ms + options.controlled_shutdown_retry_backoff_ms
        return max(start_ms, attempt_ms * options.controlled_shutdown_max_retries) + LEAVE_TIMEOUT_MS

    # Startup.

    async def open(
        self, services: LogServices, listeners: tuple[Listener, ...], options: BrokerOptions, served: ServedApis
    ) -> Core:
        """Run the startup steps up to the creation of the core.

        Args:
            services: services for the logs, whose timers are already running.
            listeners: the listeners, with actual ports.
            options: broker options.
            served: the APIs of the broker.

        Raises:
            ConfigurationError: the data directory is in use or belongs to another broker; see also `prepare`.
            RequestTimedOut: the registry cannot be reached.
            RegistryError: the registry refuses an operation.
            OSError: the disk failed.
        """
        disk = services.disk
        async with contextlib.AsyncExitStack() as undo:
            lock = lock_directory(disk)
            undo.callback(lock.release)
            registry = self._open_registry(_post())
            undo.push_async_callback(_told, partial(registry.begin_to_close, LEAVE_TIMEOUT_MS))
            try:
                known = read_identity(disk)
                await self._begin_session(registry)
                endpoints = tuple(_endpoint(listener) for listener in listeners)
                prepared = await self._prepare(registry, PartitionFolders(disk).found(), known, endpoints)
                directory = open_directory(services, lock, known, prepared, options)
            except DamagedFile as error:
                raise ConfigurationError("data_dir", disk.describe(""), str(error)) from error
            links = self._links(options)
            membership = self._membership_of(registry, prepared, options, endpoints, links, services)
            self._opened = _Opened(registry, membership, links)
            core = core_of_member(
                membership, directory, prepared, options, lambda: str(uuid.uuid4()), served, monotonic_ns
            )
            undo.pop_all()
        for each in links:
            each.start()
        return core

    async def _begin_session(self, registry: Registry) -> None:
        opened = asyncio.Event()
        listener = _Opening(opened.set)
        registry.add_listener(listener)
        registry.start()
        timeout_ms = self._options.connection_timeout_ms
        try:
            await asyncio.wait_for(opened.wait(), timeout_ms / 1_000)
        except TimeoutError:
            reason = f"{registry.describe()}: no session within {timeout_ms} ms (zookeeper.connection.timeout.ms)"
            raise RequestTimedOut(reason if listener.error is None else f"{reason}: {listener.error}") from None
        finally:
            registry.remove_listener(listener)

    async def _prepare(
        self,
        registry: Registry,
        folders: Mapping[Partition, bytes | None],
        known: MetaProperties | None,
        endpoints: tuple[Endpoint, ...],
    ) -> Prepared:
        settings = startup_settings(self._options, endpoints)
        prepared = await _carried_out(
            registry, across_sessions(lambda: prepare(known, settings, folders, lambda: uuid.uuid4().bytes))
        )
        identity = prepared.identity
        directory_id = identity.directory_id or format_uuid(uuid.uuid4().bytes)
        return prepared._replace(identity=identity._replace(directory_id=directory_id))

    def _links(self, options: BrokerOptions) -> tuple[BrokerLinks, ...]:
        """Return the control links, and the links for each fetcher number."""
        each = (self._control_security, *[self._security] * self._options.num_replica_fetchers)
        return tuple(self._link(options, security) for security in each)

    def _link(self, options: BrokerOptions, security: LinkSecurity) -> BrokerLinks:
        settings = ConnectionSettings(
            f"broker-{options.node_id}", _CONNECT_TIMEOUT_MS, self._options.request_timeout_ms, login=security.login
        )
        return BrokerLinks(TcpNetwork(tls=security.tls), settings, _post(), _tell_defect)

    def _membership_of(
        self,
        registry: Registry,
        prepared: Prepared,
        options: BrokerOptions,
        endpoints: tuple[Endpoint, ...],
        links: tuple[BrokerLinks, ...],
        services: LogServices,
    ) -> Membership:
        return Membership(
            registry,
            prepared,
            options.node_id,
            options,
            self._options,
            endpoints,
            self._roles,
            ClusterLinks(links[0].links, tuple(each.links for each in links[1:])),
            MembershipServices(services.timers, services.clock, _post(), lambda: uuid.uuid4().bytes, random_fraction),
        )

    async def follow_configs(self) -> None:
        """Read all configurations, before clients are accepted."""
        membership = self._member()
        ready: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        membership.follow_configs(lambda error: _settle(ready, error))
        error = await ready
        if error is not None:
            _log.warning("the broker is starting without some configurations, which will be re-read later: %s", error)

    async def follow_acls(self) -> None:
        """Read all ACLs, before clients are accepted.

        Raises:
            RegistryError: some of them cannot be read; without them, the broker might allow what they deny.
        """
        ready: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._member().follow_acls(lambda error: _settle(ready, error))
        error = await ready
        if error is not None:
            raise error

    async def join(self) -> None:
        """Register, stand for election, and wait until the controller has announced this broker.

        Raises:
            ConfigurationError: another broker has registered the id.
            RegistryError: the registry refuses the registration.
            RequestTimedOut: the controller has not announced this broker.
        """
        membership = self._member()
        loop = asyncio.get_running_loop()
        registered: asyncio.Future[Exception | None] = loop.create_future()
        membership.register(lambda epoch: _settle(registered, None), lambda error: _settle(registered, error))
        error = await registered
        if error is not None:
            raise error
        announced = asyncio.Event()
        membership.stand(announced.set)
        try:
            await asyncio.wait_for(announced.wait(), ANNOUNCEMENT_TIMEOUT_MS / 1_000)
        except TimeoutError:
            controller_id = membership.controller.controller_id
            who = "there is no controller" if controller_id < 0 else f"the controller is broker {controller_id}"
            reason = f"no UpdateMetadata with broker {membership.broker_id} arrived within {ANNOUNCEMENT_TIMEOUT_MS} ms"
            raise RequestTimedOut(f"{reason}: {who}") from None

    # Shutdown.

    async def shut_down(self) -> None:
        """Have the controller move leadership to other brokers while this one still serves requests."""
        if self._opened is not None:
            over = asyncio.Event()
            self._opened.membership.shut_down(over.set)
            await over.wait()

    def end_control(self) -> None:
        """Resign as controller, and stop sending requests to the controller."""
        if self._opened is not None:
            self._opened.membership.end_control()

    async def leave(self) -> None:
        """Close the links and the session, after the logs are closed."""
        opened, self._opened = self._opened, None
        if opened is not None:
            for each in opened.links:
                await each.close()
            await _told(opened.membership.leave)

    def abandon(self) -> None:
        """Drop everything, as a crash would."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.membership.abandon()
            for each in opened.links:
                each.close()

    def _member(self) -> Membership:
        if self._opened is None:
            raise RuntimeError("the broker has not opened its logs")
        return self._opened.membership


class _Opening(SessionListener):
    """Waits for the first session."""

    def __init__(self, when_opened: Callable[[], None]) -> None:
        self._when_opened = when_opened
        self.error: RegistryError | None = None

    def opened(self) -> None:
        self._when_opened()

    def refused(self, error: RegistryError) -> None:
        self.error = error


def _post() -> Post:
    """Return the `Post` for the running loop; calls posted after the loop has ended are dropped."""
    loop = asyncio.get_running_loop()

    def post(call: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(call)

    return post


async def _told(begin: Callable[[Callable[[], None]], None]) -> None:
    """Begin an operation that may report its completion from any thread, and wait for it to complete."""
    ended, post = asyncio.Event(), _post()
    begin(lambda: post(ended.set))
    await ended.wait()


def _tell_defect(error: KafkaWireError) -> None:
    _log.error("the links to other brokers have ended: %s", error)


def _endpoint(listener: Listener) -> Endpoint:
    protocol = SECURITY_PROTOCOLS.index(listener.protocol)
    return Endpoint(listener.name, listener.advertised.host, listener.advertised.port, protocol)


async def _carried_out(registry: Registry, steps: Steps[R]) -> R:
    """Carry out a sequence of operations, and return its result."""
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

    def failed(error: Exception) -> None:
        if not future.done():
            future.set_exception(error)

    run(registry, steps, lambda result: _settle(future, result), failed)
    return await future


def _settle(future: asyncio.Future[R], result: R) -> None:
    if not future.done():  # it is cancelled if startup is
        future.set_result(result)
