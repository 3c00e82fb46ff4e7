"""The broker without sockets, clocks or threads: a mapping from requests to responses.

The core assembles the parts of the broker, and gives handlers the parts that they name. `requests` returns a response
or a `DelayedOperation`; `timers` knows the next deadline. The server, or a test, provides bytes, time and threads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from kafkawire.reference_broker.config.broker_configs import BrokerConfigs
from kafkawire.reference_broker.config.config_values import trimmed
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.control_plane.control_plane import ControlPlane
from kafkawire.reference_broker.coordinators.elections import Elections
from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.requests import GroupLimits
from kafkawire.reference_broker.groups.share.share_groups import ShareGroups
from kafkawire.reference_broker.groups.streams.internal_topics import InternalTopics
from kafkawire.reference_broker.groups.streams.limits import StreamsLimits
from kafkawire.reference_broker.groups.topics import ClusterTopics
from kafkawire.reference_broker.metadata.config_controller import ConfigController
from kafkawire.reference_broker.metadata.config_rules import ConfigRules
from kafkawire.reference_broker.metadata.internal_topics import warn_of_removal
from kafkawire.reference_broker.metadata.sources import Sources
from kafkawire.reference_broker.replicas.fetch_sessions import FetchSessions
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.api_handlers import ServedApis
from kafkawire.reference_broker.requests.call import RequestServices
from kafkawire.reference_broker.requests.dispatcher import Dispatcher
from kafkawire.reference_broker.requests.throttling import Throttling
from kafkawire.reference_broker.security.authorizer import authorizer_of
from kafkawire.reference_broker.security.delegation_tokens import DelegationTokens
from kafkawire.reference_broker.security.quotas.quotas import Quotas
from kafkawire.reference_broker.security.quotas.rates import Window
from kafkawire.reference_broker.security.scram_credentials import StoredScramCredentials
from kafkawire.reference_broker.shares.limits import ShareLimits
from kafkawire.reference_broker.shares.shares import Shares
from kafkawire.reference_broker.storage.cleaning.upkeep import Upkeep, UpkeepLimits
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.reference_broker.telemetry.client_metrics import ClientMetrics
from kafkawire.reference_broker.transactions.coordinator import TransactionCoordinator
from kafkawire.reference_broker.transactions.limits import TransactionLimits
from kafkawire.reference_broker.transactions.participants import verify_commit, write_marker
from kafkawire.reference_broker.transactions.producer_ids import ProducerIds
from kafkawire.reference_broker.work.background import Each, one_by_one
from kafkawire.reference_broker.work.computations import Computations
from kafkawire.reference_broker.work.round_robin import RoundRobin
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import (
    CONSUMER_OFFSETS_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    ConfigResourceType,
)

__all__ = ["Core"]

_log = logging.getLogger("kafkawire.broker")

#: How often logs drop idle producers: the default of Kafka's `producer.id.expiration.check.interval.ms`.
_PRODUCER_EXPIRATION_CHECK_MS = 600_000

#: Served in any case, but advertised only if `client_metrics_enable` is set: clients use what is advertised.
_CLIENT_METRICS_APIS = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})


class Core:
    """A broker.

    Args:
        control: see `ControlPlane`.
        directory: the logs; the whole broker shares their timers and background threads.
        options: see `BrokerOptions`; dynamic configurations change them.
        new_id: returns a unique text for the ids of members and fetch sessions.
        now_ms: the current time.
        served: the APIs to serve, from `load`.
        clock_ns: a clock that is never set back, for the quotas; None for that of the timers.

    Attributes:
        options: the current options; handlers and parts re-read them at each use.
        authorizer: decides what clients may do.
        broker_configs: the broker's configurations.
        configs: changes configurations.
        dynamic_configs: dynamic configurations.
        on_options: called with the options when any of them have changed.
        check_listeners: see `ConfigRules`; the broker's listeners are not known here.
        groups: see `GroupCoordinator`.
        shares: see `Shares`.
        share_groups: see `ShareGroups`.
        transactions: see `TransactionCoordinator`.
        fetch_sessions: the fetch sessions of all clients.
        metadata: the state of the cluster.
        replicas: the replicas on this broker.
        producer_ids: assigns ids to producers.
        tokens: see `DelegationTokens`.
        client_metrics: see `ClientMetrics`.
        parts: the parts that handlers may name, see `PARTS`.
        requests: handles requests.
        timers: pending deadlines.
        quotas: the quotas of clients.
        topics: creates, changes and deletes topics.
        upkeep: see `Upkeep`.
    """

    def __init__(
        self,
        control: ControlPlane,
        directory: LogDirectory,
        options: BrokerOptions,
        new_id: Callable[[], str],
        now_ms: int,
        served: ServedApis,
        clock_ns: Callable[[], int] | None = None,
    ) -> None:
        self._control = control
        self._sources = sources = control.sources
        self.directory = directory
        self.timers, clock = directory.services.timers, directory.services.clock
        computations = Computations(self.timers)
        self.metadata, self.topics, self.dynamic_configs = sources.metadata, sources.topics, sources.configs

        # Configurations.
        self._static_options = options.with_values()
        self.options = options
        self.broker_configs = BrokerConfigs(
            self._static_options,
            {**control.static_configs, "log.dirs": directory.services.disk.describe("")},
            has_zookeeper=sources.configs.is_registry,
        )
        self.on_options: Callable[[BrokerOptions], None] = lambda options: None
        self.check_listeners: Callable[[Mapping[str, str]], None] = lambda configs: None
        self._take_broker_configs()
        self.configs = self._config_controller()
        warn_of_removal({name: topic.configs for name, topic in self.metadata.image.topics.items()}, options, _log)

        # Replicas.
        self.replicas = Replicas(directory, self.metadata, sources.lost, control.new_replica)
        self.fetch_sessions = FetchSessions(options.max_incremental_fetch_session_cache_slots, new_id, computations)

        # Coordinators.
        of_groups = self.dynamic_configs.resources(ConfigResourceType.GROUP)
        self._group_limits = GroupLimits.of(options, of_groups)
        self._share_limits, self._streams_limits = ShareLimits(options, of_groups), StreamsLimits(options, of_groups)
        known_topics = ClusterTopics(self.metadata)
        self.shares = self._shares()
        self.groups = self._group_coordinator(new_id, known_topics, computations)
        self.share_groups = ShareGroups(self.groups, self.shares.persister, self.timers)
        self.producer_ids = ProducerIds(sources.producer_ids)
        self.transactions = self._transaction_coordinator()
        self._verifier = control.verifier(self.transactions, self._size_of(TRANSACTION_STATE_TOPIC))
        self.metadata.listen(known_topics.changed)
        self.metadata.listen(self.share_groups.changed)
        coordinators = (self.groups, self.transactions, self.shares.coordinator)
        self.replicas.listen(Elections(coordinators, clock).changed)

        # Clients: what they may do, and how much.
        self.authorizer = authorizer_of(options, sources.acls, is_registry=sources.configs.is_registry)
        self.quotas = _quotas(options, sources)
        self._throttling = Throttling(self.quotas, clock_ns or (lambda: clock() * 1_000_000))
        self.tokens, self.client_metrics = self._tokens(now_ms), self._client_metrics()

        # Work without requests.
        self.dynamic_configs.on_change = self._configs_changed
        more_parts = control.begin(self.replicas, self.groups)
        self._expire_producers(now_ms)
        self.upkeep = Upkeep(directory, _upkeep_limits(options), now_ms)

        # Requests.
        self.parts = {**self._parts(served), **more_parts}
        self.requests = self._dispatcher(served, computations)

    @property
    def scram_credentials(self) -> StoredScramCredentials:
        """The SCRAM credentials of users."""
        return StoredScramCredentials(self._sources.entity_configs)

    def _dispatcher(self, served: ServedApis, computations: Computations) -> Dispatcher:
        options = self.options
        # Repeated parts of responses may take up half of the memory shared by all connections.
        repeated_bytes_max = options.queued_max_request_bytes // 2
        services = RequestServices(self.timers, computations, RoundRobin(), LogLimit(_log), repeated_bytes_max)
        return Dispatcher(
            served, self.parts, services, options.max_frame_bytes, self._sources.is_controller, self._throttling
        )

    def _shares(self) -> Shares:
        size_of = self._size_of(SHARE_GROUP_STATE_TOPIC)
        clock = self.directory.services.clock
        return Shares(self._share_limits, self.timers, self.replicas, self.metadata, self.topics, size_of, clock)

    def _group_coordinator(
        self, new_id: Callable[[], str], known_topics: ClusterTopics, computations: Computations
    ) -> GroupCoordinator:
        return GroupCoordinator(
            self.timers,
            new_id,
            self._group_limits,
            self._size_of(CONSUMER_OFFSETS_TOPIC),
            known_topics,
            partial(verify_commit, self.replicas, lambda: self._verifier),
            computations,
            self._share_limits,
            self._streams_limits,
        )

    def _transaction_coordinator(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            self.timers,
            TransactionLimits.of(self.options),
            self._size_of(TRANSACTION_STATE_TOPIC),
            self.producer_ids,
            self._control.write_marker(partial(write_marker, self.replicas, self.groups)),
        )

    def _tokens(self, now_ms: int) -> DelegationTokens:
        sources = self._sources
        return DelegationTokens(
            sources.tokens, self.options, self.timers, sources.new_uuid, sources.is_controller, now_ms
        )

    def _client_metrics(self) -> ClientMetrics:
        subscriptions = self.dynamic_configs.resources(ConfigResourceType.CLIENT_METRICS)
        return ClientMetrics(subscriptions, self.options, self.timers, self._sources.new_uuid)

    def _config_controller(self) -> ConfigController:
        return ConfigController(
            self.options,
            ConfigRules(
                self._static_options,
                self.broker_configs,
                lambda configs: self.check_listeners(configs),
                is_in_registry=self.dynamic_configs.is_registry,
            ),
            self.broker_configs,
            self.dynamic_configs,
            self.metadata,
            self.topics,
        )

    def _parts(self, served: ServedApis) -> dict[str, object]:
        """Return the parts that handlers may name."""
        return {
            "advertised": {
                key: each.advertised
                for key, each in served.handlers.items()
                if self.options.client_metrics_enable or key not in _CLIENT_METRICS_APIS
            },
            "authorizer": self.authorizer,
            "broker_configs": self.broker_configs,
            "client_metrics": self.client_metrics,
            "configs": self.configs,
            "directory": self.directory,
            "dynamic_configs": self.dynamic_configs,
            "entity_configs": self._sources.entity_configs,
            "features": self._control.features,
            "fetch_sessions": self.fetch_sessions,
            "groups": self.groups,
            "metadata": self.metadata,
            "options": self.options,
            "producer_ids": self.producer_ids,
            "replicas": self.replicas,
            "tokens": self.tokens,
            "throttling": self._throttling,
            "share_groups": self.share_groups,
            "shares": self.shares,
            "streams_topics": InternalTopics(self.topics),
            "topics": self.topics,
            "transactions": self.transactions,
            "verifier": self._verifier,
        }

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller of its cluster."""
        return self._sources.is_controller()

    def advance(self, now_ms: int) -> None:
        """Fire the timers that are due at `now_ms`."""
        self.timers.fire(now_ms)

    def begin_end(self) -> None:
        """Stop starting background work, and end any work that can be left to the next startup."""
        self.upkeep.stop()
        self.directory.begin_end()

    def unload(self) -> None:
        """Answer all operations that are waiting for a coordinator, because this broker stops coordinating."""
        self.groups.unload()
        self.transactions.unload()
        self.shares.coordinator.unload()

    def close(self, each: Each = one_by_one) -> None:
        """Sync everything to disk.

        Args:
            each: see `LogDirectory.close`.
        """
        self.begin_end()
        self._control.end()
        self.metadata.close()
        self.directory.close(each)
        self._control.abandon()
        self.replicas.abandon()

    def abandon(self) -> None:
        """Release everything as a crash would, without further writes."""
        self._control.end()
        self.metadata.close()
        self.directory.abandon()
        self._control.abandon()
        self.replicas.abandon()

    # Topics.

    def _size_of(self, name: str) -> Callable[[], int]:
        """Return a function that returns the number of partitions of a topic; 0 if it does not exist."""

        def size_of() -> int:
            topic = self.metadata.newest.topics.get(name)
            return 0 if topic is None else self.topics.size_of(topic)

        return size_of

    # Configurations.

    def _configs_changed(self, kind: ConfigResourceType, name: str) -> None:
        if kind == ConfigResourceType.CLIENT_METRICS:
            self.client_metrics.changed(name)
        if kind == ConfigResourceType.BROKER:
            self._take_broker_configs()
            self._group_limits.group_consumer_assignment_interval_ms = (
                self.options.group_consumer_assignment_interval_ms
            )
            self.upkeep.change_limits(_upkeep_limits(self.options))
            self.on_options(self.options)

    def _take_broker_configs(self) -> None:
        """Apply the broker's current configurations."""
        configs, static = self.broker_configs, self._static_options
        before = self.options.topic_defaults
        configs.of_broker = self.dynamic_configs.of(ConfigResourceType.BROKER, str(static.node_id))
        configs.of_cluster = self.dynamic_configs.of(ConfigResourceType.BROKER, "")
        values = dict(vars(static))
        for name, value in {**configs.of_cluster, **configs.of_broker}.items():
            own = static.KAFKA_NAMES.get(name)
            if own is not None:
                try:
                    values[own] = static.read_value(name, trimmed(value))
                except ConfigurationError as error:
                    _log.error("a configuration of the broker has no effect: %s", error)
        self.options.change(**values)
        if self.options.topic_defaults != before:
            self._sources.change_defaults(self.options.topic_defaults)

    # Producers.

    def _expire_producers(self, now_ms: int) -> None:
        for _, _, log in self.directory.logs():
            log.producers.expire(now_ms, self.options.producer_id_expiration_ms)
        self.timers.at(now_ms + _PRODUCER_EXPIRATION_CHECK_MS, self._expire_producers)


def _upkeep_limits(options: BrokerOptions) -> UpkeepLimits:
    return UpkeepLimits(
        retention_check_delay_ms=options.log_initial_task_delay_ms,
        retention_check_interval_ms=options.log_retention_check_interval_ms,
        # Kafka's cleaner may run without a pause; here, that would be an endless loop.
        cleaner_backoff_ms=max(options.log_cleaner_backoff_ms, 1),
        cleaner_keys_bytes=options.log_cleaner_dedupe_buffer_size,
        is_cleaner_enabled=options.log_cleaner_enable,
    )


def _quotas(options: BrokerOptions, sources: Sources) -> Quotas:
    return Quotas(
        sources.entity_configs,
        Window(options.quota_window_num, options.quota_window_size_seconds * 1_000),
        Window(options.controller_quota_window_num, options.controller_quota_window_size_seconds * 1_000),
    )
