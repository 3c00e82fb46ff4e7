"""A broker's membership in its cluster: everything that concerns the registry, the controller and the image.

    registry ──▶ Registration, ChangeNotifications, RegistryTopics
       └───────▶ Controller ──BrokerChannels──▶ brokers
    brokers ──UpdateMetadata──▶ ClusterMetadata ──brokers, controller──▶ links, ControllerClient

The server takes the steps of startup and shutdown in order. Losing the session stops only the controller, which
resigns; the broker continues, and registers again in the next session.

Source: `KafkaServer.startup`, `KafkaServer.shutdown` in Apache Kafka 3.9.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, NamedTuple

from kafkawire.reference_broker.cluster.allocated_producer_ids import AllocatedProducerIds
from kafkawire.reference_broker.cluster.broker_channels import BrokerChannels
from kafkawire.reference_broker.cluster.config_changes import config_changes
from kafkawire.reference_broker.cluster.controller.broker_requests import ControlRequest
from kafkawire.reference_broker.cluster.controller.controller import Controller, ControllerSettings
from kafkawire.reference_broker.cluster.controller.live_brokers import Endpoint
from kafkawire.reference_broker.cluster.controller.partition_states import UNCLEAN_ELECTION_CONFIG, is_true
from kafkawire.reference_broker.cluster.controller.replica_assignment import Start
from kafkawire.reference_broker.cluster.controller_client import ControllerClient
from kafkawire.reference_broker.cluster.links import Done, Links
from kafkawire.reference_broker.cluster.log_failures import LogFailures
from kafkawire.reference_broker.cluster.registration import (
    BrokerDetails,
    Registration,
    RegistrationState,
    registration_patience_ms,
)
from kafkawire.reference_broker.cluster.registry_acls import RegistryAcls
from kafkawire.reference_broker.cluster.registry_configs import RegistryConfigs
from kafkawire.reference_broker.cluster.registry_entity_configs import RegistryEntityConfigs
from kafkawire.reference_broker.cluster.registry_tokens import RegistryTokens
from kafkawire.reference_broker.cluster.registry_topics import RandomChoices, RegistryTopics, ReplicationFactors
from kafkawire.reference_broker.cluster.startup import Prepared, node_acl
from kafkawire.reference_broker.config.cluster_options import ClusterOptions
from kafkawire.reference_broker.config.listeners import ListenerRoles
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.cluster_metadata import ClusterMetadata
from kafkawire.reference_broker.metadata.image import MetadataDelta, MetadataImage
from kafkawire.reference_broker.work.timers import Later, Timers
from kafkawire.sdk.errors import BrokerError, Closed, KafkaWireError, RemoteProtocolError
from kafkawire.sdk.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionRequest
from kafkawire.sdk.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import NO_CONTROLLER_ID, ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import BROKER, CONFIG_CHANGES, TOPIC
from kafkawire.sdk.registry.registry import Post, Registry
from kafkawire.sdk.registry.steps import across_sessions, run
from kafkawire.sdk.routing.retry import Backoff
from kafkawire.sdk.transport.wire import Address

__all__ = ["LEAVE_TIMEOUT_MS", "ClusterLinks", "Membership", "MembershipServices"]

_log = logging.getLogger("kafkawire.broker")

#: The initial and the maximum pause before a request to the controller is retried.
_BACKOFF_MS: Final = (100, 1_000)

#: How long to wait for the session to end; if this is too short, ZooKeeper ends the session after its timeout.
LEAVE_TIMEOUT_MS: Final = 2_000

#: The first version of ControlledShutdown that has a broker epoch.
_SHUTDOWN_VERSION: Final = 3


class ClusterLinks(NamedTuple):
    """The links to the other brokers.

    Attributes:
        control: for the requests of the controller on this broker.
        peers: for all other requests: one item for each fetcher number, the first of which also carries everything
            other than fetches.
    """

    control: Links
    peers: tuple[Links, ...]


class MembershipServices(NamedTuple):
    """The services that a membership needs from its broker.

    Attributes:
        timers: the broker's timers.
        clock: returns the broker's time.
        post: schedules a function for a later turn of the loop.
        new_uuid: returns 16 random bytes.
        fraction: returns a random number in [0, 1).
    """

    timers: Timers
    clock: Callable[[], int]
    post: Post
    new_uuid: Callable[[], bytes]
    fraction: Callable[[], float]

    def later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        """Call an action after some milliseconds; see `Later`."""
        return self.timers.at(self.clock() + delay_ms, lambda now_ms: action()).cancel


class Membership:
    """A broker as a member of its cluster. All calls must be made on the broker's loop.

    Args:
        registry: the broker's session, which is open.
        prepared: the result of `prepare`.
        broker_id: the id of the broker.
        options: broker options.
        cluster_options: the options for cluster membership.
        endpoints: the endpoints that the broker advertises, with actual ports.
        roles: the broker's inter-broker listeners.
        links: see `ClusterLinks`.
        services: see `MembershipServices`.

    Attributes:
        broker_id, roles, links, services: see above.
        options: the cluster options.
        image: the metadata image, from the controller.
        configs: the dynamic configurations.
        tokens: the delegation tokens.
        entity_configs: quotas and SCRAM credentials.
        acls: the ACLs; None if the broker has no authorizer.
        topics: creates, changes and deletes topics.
        producer_ids: reserves producer ids.
        controller: stands for election.
        client: sends requests to the cluster's controller.
        registration: this broker's registration.
        log_failures: tells the controller about failed logs.
        take: handles requests from the controller on this broker; the broker sets this attribute before registering.
    """

    def __init__(
        self,
        registry: Registry,
        prepared: Prepared,
        broker_id: int,
        options: BrokerOptions,
        cluster_options: ClusterOptions,
        endpoints: tuple[Endpoint, ...],
        roles: ListenerRoles,
        links: ClusterLinks,
        services: MembershipServices,
    ) -> None:
        self.broker_id = broker_id
        self.options = cluster_options
        self.roles = roles
        self.links = links
        self.services = services
        self.take: Callable[[ControlRequest, Done], None] = _refuse
        self._registry = registry
        self._is_secure = cluster_options.zookeeper_set_acl
        self._announced: Callable[[], None] | None = None
        self._known: tuple[Mapping[int, Address], int] | None = None
        timers, clock = services.timers, services.clock
        self.configs = RegistryConfigs(registry, broker_id, is_secure=self._is_secure)
        expected = {each.topic: each.configs for each in prepared.expected}
        self.configs.expect(expected, prepared.broker_configs)
        self.entity_configs = RegistryEntityConfigs(registry, is_secure=self._is_secure)
        self._is_unclean_allowed = self._allows_unclean()
        of_topic = partial(self.configs.of, ConfigResourceType.TOPIC)
        self.image = ClusterMetadata(prepared.identity.cluster_id, broker_id, of_topic)
        self.image.metadata.publish(features=prepared.features)
        self.registration = self._registration(endpoints)
        self.controller = self._controller()
        self.client = ControllerClient(
            broker_id,
            links.peers[0],
            self._ask_own,
            services.later,
            clock,
            Backoff(*_BACKOFF_MS, services.fraction),
            cluster_options.request_timeout_ms,
        )
        self.producer_ids = AllocatedProducerIds(self.client, broker_id, lambda: self.epoch, clock)
        self.topics = self._topics(options)
        acl = node_acl(CONFIG_CHANGES, is_secure=self._is_secure)
        self.tokens = RegistryTokens(registry, timers, clock, is_secure=self._is_secure)
        self._has_tokens = options.delegation_token_secret_key is not None
        self._config_changes = config_changes(registry, self.configs, self.entity_configs, timers, clock, acl)
        self.acls = (
            RegistryAcls(registry, timers, clock, is_secure=self._is_secure) if options.authorizer_class_name else None
        )
        self.log_failures = LogFailures(registry, broker_id, services.later, is_secure=self._is_secure)

    def _registration(self, endpoints: tuple[Endpoint, ...]) -> Registration:
        details = BrokerDetails(self.broker_id, endpoints, self.options.broker_rack)
        services, acl = self.services, node_acl(BROKER, is_secure=self._is_secure)
        return Registration(self._registry, details, services.later, services.clock, acl)

    def _controller(self) -> Controller:
        cluster, services = self.options, self.services
        settings = ControllerSettings(
            self.broker_id,
            self.roles.between_brokers,
            cluster.delete_topic_enable,
            cluster.auto_leader_rebalance_enable,
            cluster.leader_imbalance_per_broker_percentage,
            cluster.leader_imbalance_check_interval_seconds * 1_000,
            node_acl(TOPIC, is_secure=self._is_secure),
        )
        channels = BrokerChannels(
            self.broker_id,
            self.roles.controller,
            self.links.control,
            lambda request, done: self.take(request, done),
            services.post,
            cluster.controller_socket_timeout_ms,
        )
        return Controller(
            settings,
            self._registry,
            channels,
            later=services.later,
            now_ms=services.clock,
            register=self.registration.register,
            new_topic_id=services.new_uuid,
            is_unclean_allowed=self._allows_unclean,
        )

    def _topics(self, options: BrokerOptions) -> RegistryTopics:
        cluster, services = self.options, self.services
        factors = ReplicationFactors(
            cluster.default_replication_factor,
            cluster.offsets_topic_replication_factor,
            cluster.transaction_state_log_replication_factor,
            cluster.transaction_state_log_min_isr,
        )

        def start(count: int) -> Start:
            return Start(int(services.fraction() * count), int(services.fraction() * count))

        return RegistryTopics(
            self._registry,
            self.image.metadata,
            self.configs,
            options,
            factors,
            RandomChoices(services.new_uuid, start),
            services.timers,
            services.clock,
            is_secure=self._is_secure,
            deletes_topics=cluster.delete_topic_enable,
        )

    @property
    def is_registered(self) -> bool:
        """Whether the broker is registered in the current session."""
        return self.registration.state is RegistrationState.REGISTERED

    @property
    def epoch(self) -> int:
        """The epoch of the last registration; -1 before the first."""
        return self.registration.epoch

    # Startup, in this order.

    def follow_configs(self, ready: Callable[[Exception | None], None]) -> None:
        """Read all configurations, then all delegation tokens, and follow them; see `ChangeNotifications.start`."""

        def configured(error: Exception | None) -> None:
            self.tokens.start(lambda other: ready(error or other))

        self._config_changes.start(configured if self._has_tokens else ready)

    def follow_acls(self, ready: Callable[[Exception | None], None]) -> None:
        """Read all ACLs and follow their changes; see `RegistryAcls.start`."""
        if self.acls is None:
            ready(None)
        else:
            self.acls.start(ready)

    def register(self, done: Callable[[int], None], failed: Callable[[Exception], None]) -> None:
        """Register; see `Registration.register_first`."""
        patience_ms = registration_patience_ms(self.options.zookeeper_session_timeout_ms)
        self.registration.register_first(patience_ms, done, failed)

    def stand(self, announced: Callable[[], None]) -> None:
        """Stand for election.

        Args:
            announced: called once the cluster's controller has announced this broker.
        """
        self._announced = announced
        self.controller.begin()
        self._tell_announced(self.image.metadata.image)  # the controller may have been faster

    # The image.

    def changed(self, delta: MetadataDelta) -> None:
        """Handle a change to the image after other parts of the broker have handled it."""
        self.configs.changed(delta)
        image = delta.after
        listener = self.roles.between_brokers
        addresses = {
            broker_id: broker.listeners[listener]
            for broker_id, broker in image.brokers.items()
            if broker_id != self.broker_id and listener in broker.listeners
        }
        if self._known != (addresses, image.controller_id):
            self._known = addresses, image.controller_id
            controller_id = None if image.controller_id == NO_CONTROLLER_ID else image.controller_id
            for links in self.links.peers:
                links.know(addresses, controller_id)
            self.client.moved(controller_id)
        self.topics.changed(delta)
        self._tell_announced(image)

    def _tell_announced(self, image: MetadataImage) -> None:
        if self._announced is not None and self.broker_id in image.brokers:
            announced, self._announced = self._announced, None
            announced()

    def read(self, topics: Collection[str], done: Callable[[], None]) -> None:
        """Read the configurations of topics; see `TopicConfigs`."""

        def failed(error: Exception) -> None:
            _log.error("the configurations of %d topics were not updated: %s", len(topics), error)
            done()

        steps = across_sessions(lambda: self.configs.read_topics(topics))
        run(self._registry, steps, lambda _: done(), failed)

    def of(self, topic: str) -> Mapping[str, str]:
        """Return those configurations of a topic that have been read; see `TopicConfigs`."""
        return self.configs.of(ConfigResourceType.TOPIC, topic)

    def configured(self, kind: ConfigResourceType, name: str) -> None:
        """Handle changed configurations, which may permit an unclean election.

        Args:
            kind: TOPIC or BROKER.
            name: the topic's name, or the broker's id (empty for all brokers).
        """
        if kind is ConfigResourceType.TOPIC:
            if is_true(self.of(name).get(UNCLEAN_ELECTION_CONFIG, "")):
                self.controller.allow_unclean_elections(name)
            return
        was_allowed, self._is_unclean_allowed = self._is_unclean_allowed, self._allows_unclean()
        if self._is_unclean_allowed and not was_allowed:
            self.controller.allow_unclean_elections()

    def _allows_unclean(self) -> bool:
        """Return whether topics without a setting of their own allow unclean leaders."""
        for name in (str(self.broker_id), ""):
            text = self.configs.of(ConfigResourceType.BROKER, name).get(UNCLEAN_ELECTION_CONFIG)
            if text is not None:
                return is_true(text)
        return self.options.unclean_leader_election_enable

    # Requests.

    def _ask_own(self, message: Message, version: int | None, done: Done) -> None:
        """Have the controller on this broker carry out a request."""
        if isinstance(message, AlterPartitionRequest):
            newest = self.options.peer_versions.alter_partition
            self.controller.alter_partitions(message, newest if version is None else version, done)
        elif isinstance(message, AllocateProducerIdsRequest):
            self.controller.allocate_producer_ids(message, done)
        elif isinstance(message, ControlledShutdownRequest):
            self.controller.shut_down_broker(message, done)
        else:
            raise TypeError(f"{type(message).__name__} is not a request that brokers send to the controller")

    # Shutdown.

    def shut_down(self, done: Callable[[], None]) -> None:
        """Have the controller move leadership to other brokers while this one still serves requests.

        Args:
            done: called when this broker no longer leads any partitions, or when no attempts are left.
        """
        options = self.options
        if not options.controlled_shutdown_enable or not options.controlled_shutdown_max_retries or self.epoch < 0:
            done()
            return
        _Shutdown(self.client, self.options, self.services.later, self.broker_id, lambda: self.epoch, done).ask()

    def end_control(self) -> None:
        """Resign as controller, stop following configurations, and stop sending requests to the controller."""
        self.controller.close()
        self.client.close(Closed("the broker is stopping"))
        self._config_changes.close()
        self.tokens.close()
        if self.acls is not None:
            self.acls.close()
        self.registration.close()
        self.log_failures.close()

    def leave(self, left: Callable[[], None]) -> None:
        """End the session, so that the cluster knows that the broker is gone.

        Args:
            left: called on any thread once the session has ended, or after `LEAVE_TIMEOUT_MS`.
        """
        self._registry.begin_to_close(LEAVE_TIMEOUT_MS, left)

    def abandon(self) -> None:
        """Drop everything as a crash would, so the session ends only after its timeout."""
        self.end_control()
        self._registry.abandon()


class _Shutdown:
    """The attempts at a controlled shutdown; see `ClusterOptions` for their number and pauses.

    As in Kafka, an attempt fails immediately if there is no controller or the connection is refused. The last broker in
    a cluster, or one that has lost ZooKeeper, therefore stops after the pauses alone.
    """

    def __init__(
        self,
        client: ControllerClient,
        options: ClusterOptions,
        later: Later,
        broker_id: int,
        epoch: Callable[[], int],
        done: Callable[[], None],
    ) -> None:
        self._client = client
        self._options = options
        self._later = later
        self._broker_id = broker_id
        self._epoch = epoch
        self._done = done
        self._attempts = 0

    def ask(self) -> None:
        """Ask the controller."""
        request = ControlledShutdownRequest(self._broker_id, self._epoch())
        timeout_ms = self._options.controller_socket_timeout_ms
        self._attempts += 1
        self._client.ask(request, self._answered, timeout_ms, _SHUTDOWN_VERSION, repeats=False)

    def _answered(self, outcome: Message | Exception) -> None:
        problem: object = outcome
        if isinstance(outcome, ControlledShutdownResponse):
            led = len(outcome.remaining_partitions)
            if outcome.error_code == ErrorCode.NONE and not led:
                self._done()
                return
            problem = (
                BrokerError(outcome.error_code) if outcome.error_code else f"the broker still leads {led} partitions"
            )
        if self._attempts >= self._options.controlled_shutdown_max_retries:
            _log.warning("the broker is stopping although leadership of its partitions was not moved: %s", problem)
            self._done()
            return
        _log.info("retrying, since leadership of the broker's partitions has not been moved yet: %s", problem)
        self._later(self._options.controlled_shutdown_retry_backoff_ms, self.ask)


def _refuse(request: ControlRequest, done: Done) -> None:
    """Refuse a request from the controller, since the broker does not accept requests yet."""
    error: KafkaWireError = RemoteProtocolError("the broker does not accept requests from the controller yet")
    done(error)
