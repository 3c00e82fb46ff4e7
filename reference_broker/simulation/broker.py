"""A broker in virtual time: the production node, core and sessions, from startup to the end.

    read the disk ─▶ session ─▶ prepare ─▶ logs ─▶ core ─▶ configurations ─▶ listen ─▶ registration ─▶ announced

It takes the same steps as `ClusterNode` and `Broker`, but as events instead of coroutines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Final, Protocol

from kafkawire.reference_broker.apis import load
from kafkawire.reference_broker.cluster.controller.live_brokers import Endpoint
from kafkawire.reference_broker.cluster.embedded_registry import EmbeddedRegistry, EmbeddedSession
from kafkawire.reference_broker.cluster.links import LinkOptions, RouterLinks
from kafkawire.reference_broker.cluster.membership import ClusterLinks, Membership, MembershipServices
from kafkawire.reference_broker.cluster.startup import Prepared, prepare
from kafkawire.reference_broker.cluster_node import core_of_member, open_directory, startup_settings
from kafkawire.reference_broker.config.cluster_options import ClusterOptions, split_options
from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.config.listeners import ListenerRoles
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.core import Core
from kafkawire.reference_broker.network.clock import BrokerClock
from kafkawire.reference_broker.requests.api_handlers import Scope
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.requests.session import Session
from kafkawire.reference_broker.simulation.driver import RouterDriver
from kafkawire.reference_broker.simulation.network import Network, SimulatedWire
from kafkawire.reference_broker.simulation.scheduler import Clock, Event, Host, Scheduler, WallClock
from kafkawire.reference_broker.storage.directory.identity import read_identity
from kafkawire.reference_broker.storage.directory.log_directory import lock_directory
from kafkawire.reference_broker.storage.directory.partition_folders import PartitionFolders
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import Closed, KafkaWireError
from kafkawire.sdk.registry.registry import RegistryError, SessionListener
from kafkawire.sdk.registry.steps import across_sessions, run
from kafkawire.sdk.routing.given_metadata import GivenMetadata
from kafkawire.sdk.routing.retry import Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.wire import Address, FrameReceiver

__all__ = ["SimulatedBroker", "Surroundings"]

#: The pauses before reconnecting to a broker.
_BACKOFF_MS: Final = (50, 1_000)

#: The usual range of durations of blocking work on its thread, the share of slow work, and the range for that.
_WORK_US: Final = (50, 2_000)
_SLOW_WORK_SHARE: Final = 0.02
_SLOW_WORK_US: Final = (5_000, 100_000)

#: The maximum delay of a request to the registry, or of its response.
_REGISTRY_US: Final = 800

_SERVED = load(scope=Scope.CLUSTER)


class Surroundings(Protocol):
    """What a broker needs from its cluster."""

    scheduler: Scheduler
    network: Network
    registry: EmbeddedRegistry

    def failed(self, broker: SimulatedBroker, error: BaseException) -> None:
        """Record that the broker is dead, because its startup failed or its power was cut."""
        ...


class SimulatedBroker:
    """One life of a broker.

    Args:
        surroundings: see `Surroundings`.
        broker_id: the id of the broker.
        disk: the broker's disk.
        clocks: the broker's clocks: one for durations, and one that can be set.
        options: the options of all brokers.
        life: the number of this life, since the broker may be started several times.

    Attributes:
        broker_id, disk, life: see above.
        host: the broker's process.
        since_us: when this life began.
        core: the broker's core; None until the logs are open.
        membership: its membership in the cluster; None until the logs are open.
        session: the broker's session with the registry.
        is_announced: whether startup has completed.
        is_stopping: whether the broker is handing over leadership of its partitions.
    """

    def __init__(
        self,
        surroundings: Surroundings,
        broker_id: int,
        disk: MemoryDisk,
        clocks: tuple[Clock, WallClock],
        options: Mapping[str, object],
        life: int,
    ) -> None:
        scheduler = surroundings.scheduler
        self.broker_id = broker_id
        self.disk = disk
        self.life = life
        name = f"{broker_id}.{life}"
        self._chance: Random = scheduler.chance(f"broker {name}")
        self.host = Host(scheduler, f"b{broker_id}", clocks[0], self._chance)
        self.since_us = scheduler.now_us
        self._clock = BrokerClock(clocks[1], clocks[0])
        self._surroundings = surroundings
        own, cluster = split_options({"zookeeper_connect": "embedded", "broker_id": broker_id, **options})
        self._options = read_options(own)
        self._cluster_options = ClusterOptions.read((cluster or {}).items())
        self.address = Address(f"b{broker_id}", 9092)
        self._listener = Listener("PLAINTEXT", self.address, self.address)
        self._endpoint = Endpoint(self._listener.name, *self.address, 0)
        self._services = LogServices(disk, self._background, clock=self._clock)
        self._clock.on_jump = self._services.timers.shift
        self._services.timers.on_earlier = self._wake_at
        self._timer: Event | None = None
        self._drivers: list[RouterDriver] = []
        self._posted_us = 0
        self._ids = 0
        self.core: Core | None = None
        self.membership: Membership | None = None
        self.session: EmbeddedSession = surroundings.registry.session(
            self._post_of_registry, name=f"broker {name}", timeout_ms=self._cluster_options.zookeeper_session_timeout_ms
        )
        self.is_announced = False
        self.is_stopping = False

    # Startup.

    def start(self) -> None:
        """Begin the startup."""
        self.host.post(self._guarded(self._open_session))

    def _guarded(self, step: Callable[[], None]) -> Callable[[], None]:
        """Wrap a startup step, so that its failure ends the broker."""

        def guarded() -> None:
            try:
                step()
            except (KafkaWireError, RegistryError, OSError) as error:
                self._surroundings.failed(self, error)

        return guarded

    def _open_session(self) -> None:
        self._lock = lock_directory(self.disk)
        self._known = read_identity(self.disk)
        self.session.add_listener(_Opening(self._guarded(self._prepare), self.session))
        self.session.start()

    def _prepare(self) -> None:
        settings = startup_settings(self._cluster_options, (self._endpoint,))
        folders = PartitionFolders(self.disk).found()
        steps = across_sessions(lambda: prepare(self._known, settings, folders, self._new_uuid))
        run(self.session, steps, self._prepared, partial(self._surroundings.failed, self))

    def _prepared(self, prepared: Prepared) -> None:
        self._guarded(partial(self._open, prepared))()

    def _open(self, prepared: Prepared) -> None:
        options = self._options
        directory = open_directory(self._services, self._lock, self._known, prepared, options)
        links = [self._links() for _ in range(1 + self._cluster_options.num_replica_fetchers)]
        membership = self.membership = Membership(
            self.session,
            prepared,
            options.node_id,
            options,
            self._cluster_options,
            (self._endpoint,),
            ListenerRoles(self._listener.name),
            ClusterLinks(links[0], tuple(links[1:])),
            MembershipServices(self._services.timers, self._clock, self.host.post, self._new_uuid, self._chance.random),
        )
        self.core = core_of_member(membership, directory, prepared, options, self._new_id, _SERVED)
        membership.follow_configs(self._configured)

    def _links(self) -> RouterLinks:
        given = GivenMetadata()
        router = Router(LinkOptions(), Backoff(*_BACKOFF_MS, self._chance.random), refresh=given)
        driver = RouterDriver(
            self.host,
            self._surroundings.network,
            router,
            f"broker-{self.broker_id}",
            self._cluster_options.request_timeout_ms,
        )
        self._drivers.append(driver)
        return RouterLinks(router, given, driver.wake, self.host.clock, self.host.post)

    def _configured(self, error: Exception | None) -> None:
        self._surroundings.network.listen(self.address, self.host, self._accept)
        if self.membership is not None:
            self.membership.register(self._registered, partial(self._surroundings.failed, self))

    def _registered(self, epoch: int) -> None:
        if self.membership is not None:
            self.membership.stand(self._announced)

    def _announced(self) -> None:
        self.is_announced = True
        self.host.scheduler.note(f"broker {self.broker_id} is up")

    @property
    def has_failed_logs(self) -> bool:
        """Whether any log has gone offline because of its disk, or could not be created."""
        if self.core is None:
            return False
        core, topics = self.core, self.core.metadata.image.topics.values()
        assigned = ((topic.name, number, each) for topic in topics for number, each in enumerate(topic.partitions))
        are_missing = any(
            self.broker_id in partition.replicas and core.replicas.get(name, number) is None
            for name, number, partition in assigned
        )
        return are_missing or any(log.is_offline for _, _, log in core.directory.logs())

    # Clients.

    def _accept(self, wire: SimulatedWire) -> FrameReceiver:
        core = self.core
        if core is None:
            raise RuntimeError("the broker is not listening yet")
        return Session(core.requests, wire, Peer(self._listener, wire.peer.host.name), self._clock, self.host.post)

    # Shutdown.

    def stop(self, done: Callable[[], None]) -> None:
        """Hand over leadership of all partitions, sync everything, and end the session.

        Args:
            done: called when the broker has stopped.
        """
        if self.membership is None or not self.is_announced or self.is_stopping:
            return
        self.is_stopping = True
        # The controller's answer may come in an event of its own.
        self.membership.shut_down(lambda: self.host.post(partial(self._shut_down, done)))

    def _shut_down(self, done: Callable[[], None]) -> None:
        core, membership = self.core, self.membership
        if core is None or membership is None:
            return
        core.begin_end()
        core.unload()
        membership.end_control()
        core.close()
        self._end_links()
        membership.leave(lambda: None)
        self.host.end()
        self._surroundings.network.vanish(self.host, is_silent=False)
        done()

    def kill(self, *, is_silent: bool = False) -> None:
        """End immediately.

        Args:
            is_silent: whether other computers notice only after a while, as after a power cut.
        """
        self.host.end()
        self._surroundings.network.vanish(self.host, is_silent=is_silent)
        if self.membership is not None:
            self.membership.abandon()
        else:
            self.session.abandon()
        if self.core is not None:
            self.core.abandon()

    def _end_links(self) -> None:
        for driver in self._drivers:
            driver.end(Closed("the broker is stopping"))

    # Services.

    def _new_uuid(self) -> bytes:
        return self._chance.randbytes(16)

    def _new_id(self) -> str:
        self._ids += 1
        return f"id-{self.broker_id}-{self.life}-{self._ids}"

    def _post_of_registry(self, action: Callable[[], None]) -> None:
        """Post a request to the registry or a response from it, which takes longer than one turn."""
        scheduler = self.host.scheduler
        time_us = scheduler.now_us + int(self._chance.random() * _REGISTRY_US)
        self._posted_us = time_us = max(time_us, self._posted_us)
        scheduler.put(time_us, Event(self.host, action))

    def _background(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        chance = self._chance
        low, high = _SLOW_WORK_US if chance.random() < _SLOW_WORK_SHARE else _WORK_US

        def run_work() -> None:
            error: Exception | None = None
            try:
                work()
            except OSError as failure:
                error = failure
            self.host.post(lambda: done(error))

        self.host.later_us(low + int(chance.random() * (high - low)), run_work)

    def _wake_at(self, deadline_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.host.later_us(max(deadline_ms - self._clock.known_ms, 1) * 1_000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        timers = self._services.timers
        timers.fire(self._clock())
        if (deadline_ms := timers.next_deadline_ms) is not None:
            self._wake_at(deadline_ms)


class _Opening(SessionListener):
    """Waits for the first session."""

    def __init__(self, opened: Callable[[], None], session: EmbeddedSession) -> None:
        self._opened = opened
        self._session = session

    def opened(self) -> None:
        self._session.remove_listener(self)
        self._opened()
