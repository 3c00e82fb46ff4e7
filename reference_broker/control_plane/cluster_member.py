"""A broker in a cluster: the controller assigns its roles, and it copies the logs of other leaders.

    Membership ──ControlRequests──▶ roles ──▶ Replicas, Fetchers
                                                 │ ISR
    controller ◀──AlterPartition────────────────┘

Source: `KafkaServer`, `ReplicaManager.startup` in Apache Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kafkawire.reference_broker.cluster.controller.broker_requests import ControlRequest
from kafkawire.reference_broker.cluster.links import Done
from kafkawire.reference_broker.cluster.membership import Membership
from kafkawire.reference_broker.cluster.startup import ExpectedPartition
from kafkawire.reference_broker.config.features import Feature
from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.metadata.image import MetadataDelta
from kafkawire.reference_broker.metadata.sources import Sources
from kafkawire.reference_broker.replicas.cluster_replica import ClusterReplica, Surroundings
from kafkawire.reference_broker.replicas.control_requests import ControlRequests
from kafkawire.reference_broker.replicas.fetcher import FetcherOptions, FetcherVersions
from kafkawire.reference_broker.replicas.fetchers import Fetchers
from kafkawire.reference_broker.replicas.followed import FollowerReplica
from kafkawire.reference_broker.replicas.isr_requests import AlterPartition
from kafkawire.reference_broker.replicas.replica import Replica, RoleChanged
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.replicas.replication_quota import ReplicationQuotas
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.transactions.marker_channels import MarkerChannels
from kafkawire.reference_broker.transactions.markers import WriteMarker
from kafkawire.reference_broker.transactions.peers import Peers
from kafkawire.reference_broker.transactions.transaction_verification import Verifier
from kafkawire.reference_broker.transactions.transaction_verifier import TransactionVerifier
from kafkawire.reference_broker.work.timers import nothing
from kafkawire.sdk.errors import BrokerError, Closed
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["ClusterMember"]


class ClusterMember:
    """The control plane of a broker in a cluster; see `ControlPlane`.

    Args:
        membership: see `Membership`.
        directory: the logs of the broker.
        expected: the partitions that the log directory has opened.
    """

    def __init__(
        self, membership: Membership, directory: LogDirectory, expected: Collection[ExpectedPartition]
    ) -> None:
        self._membership = membership
        self._directory = directory
        self._topic_ids = {(each.topic, each.number): each.topic_id for each in expected}
        self._replicas: Replicas | None = None
        self._groups: GroupCoordinator | None = None
        self._requests: ControlRequests | None = None
        services, options = membership.services, membership.options
        self.features: Sequence[Feature] = ()  # a cluster with ZooKeeper does not finalize any
        self.static_configs: Mapping[str, str] = {**options.given, "node.id": str(membership.broker_id)}
        self._metadata = metadata = membership.image.metadata
        self.sources = Sources(
            metadata,
            membership.topics,
            membership.configs,
            membership.tokens,
            membership.entity_configs,
            membership.acls,
            membership.producer_ids,
            membership.services.new_uuid,
            lambda: membership.controller.is_active,
            membership.log_failures.lost,
            self._change_defaults,
        )
        self._isr_requests = AlterPartition(
            membership.broker_id,
            lambda: membership.epoch,
            membership.client,
            services.later,
            services.clock,
            options.peer_versions.alter_partition,
        )
        self._quotas = ReplicationQuotas(
            membership.broker_id,
            options.replication_quota_window_num,
            options.replication_quota_window_size_seconds * 1_000,
        )
        self._fetchers = self._new_fetchers()
        self._surroundings = Surroundings(
            membership.broker_id,
            options.replica_lag_time_max_ms,
            services.clock,
            lambda broker_id: broker_id in metadata.image.brokers,
            self._isr_requests,
            None if options.replica_selector_class is None else self._rack_of,
            self._fetchers.moved,
            self._quotas.leader,
        )
        self._peers = Peers(
            membership.broker_id,
            membership.roles.between_brokers,
            lambda: metadata.image,
            membership.links.peers[0],
            options.request_timeout_ms,
            services.post,
            services.later,
            services.clock,
        )

    def _new_fetchers(self) -> Fetchers:
        membership, options = self._membership, self._membership.options
        return Fetchers(
            lambda number: membership.links.peers[number],
            self._follower,
            FetcherOptions(
                membership.broker_id,
                options.replica_fetch_wait_max_ms,
                options.replica_fetch_min_bytes,
                options.replica_fetch_max_bytes,
                options.replica_fetch_response_max_bytes,
                options.replica_fetch_backoff_ms,
                options.replica_socket_timeout_ms,
            ),
            lambda: membership.epoch,
            membership.services.later,
            membership.services.clock,
            self._quotas.follower,
            options.num_replica_fetchers,
            FetcherVersions(options.peer_versions.fetch, list_offsets=options.peer_versions.list_offsets),
        )

    def _follower(self, partition: Partition) -> FollowerReplica | None:
        replica = None if self._replicas is None else self._replicas.get(*partition)
        return replica if isinstance(replica, ClusterReplica) else None

    def _rack_of(self, broker_id: int) -> str | None:
        broker = self._metadata.image.brokers.get(broker_id)
        return None if broker is None else broker.rack

    # For the core.

    def new_replica(self, partition: Partition, log: PartitionLog, on_role: RoleChanged) -> Replica:
        return ClusterReplica(partition, log, self._surroundings, on_role)

    def write_marker(self, own: WriteMarker) -> WriteMarker:
        return MarkerChannels(self._peers, own).write

    def verifier(self, own: Verifier, size_of: Callable[[], int]) -> Verifier:
        return TransactionVerifier(self._peers, size_of, own)

    def begin(self, replicas: Replicas, groups: GroupCoordinator) -> Mapping[str, object]:
        membership, services = self._membership, self._membership.services
        self._replicas, self._groups = replicas, groups
        requests = ControlRequests(
            membership.broker_id,
            lambda: membership.epoch,
            replicas,
            self._directory,
            membership,
            membership.image,
            self._fetchers,
            services.timers,
            services.clock,
            self._topic_ids,
        )
        self._requests = requests
        membership.registration.add_listener(lambda epoch: requests.registered())
        membership.take = self._take
        self._metadata.listen(self._changed)
        self._metadata.listen(membership.changed)
        others = membership.configs.on_change

        def configured(kind: ConfigResourceType, name: str) -> None:
            others(kind, name)
            if kind is ConfigResourceType.TOPIC:
                self._configured(name)
            else:
                self._take_rates()
            membership.configured(kind, name)

        membership.configs.on_change = configured
        for name, configs in membership.configs.resources(ConfigResourceType.TOPIC).items():
            self._quotas.configure_topic(name, configs)
        self._take_rates()
        self._check_in_sync(services.clock())
        services.later(membership.options.replica_high_watermark_checkpoint_interval_ms, self._checkpoint)
        return {
            "control_requests": requests,
            "controller": membership.controller,
            "image_waits": membership.topics.waits,
        }

    def end(self) -> None:
        if self._requests is not None:
            self._requests.close()
        self._fetchers.close()
        self._isr_requests.close()

    def abandon(self) -> None:
        self.end()

    # Roles and configurations.

    def _take(self, request: ControlRequest, done: Done) -> None:
        if self._requests is None:
            done(Closed("the broker is stopping"))
        else:
            self._requests.take(request, done)

    def _changed(self, delta: MetadataDelta) -> None:
        """Apply a change to the image: drop deleted topics' offsets, and adopt the configurations of new topics."""
        now_ms = self._membership.services.clock()
        for before, after in delta.topics:
            if after is None and before is not None and self._groups is not None:
                # The controller does not wait for a deleted topic's offsets to be dropped.
                self._groups.forget_topic(before.name, before.topic_id, nothing, now_ms)
                if before.name not in delta.after.topics:
                    self._quotas.configure_topic(before.name, {})
            elif (
                after is not None and self._replicas is not None and (before is None or before.configs != after.configs)
            ):
                self._replicas.configure(after.name, after.configs)

    def _configured(self, topic: str) -> None:
        configs = self._membership.of(topic)
        self._quotas.configure_topic(topic, configs)
        self._fetchers.heed_quota()
        if self._replicas is not None:
            self._replicas.configure(topic, configs)
        self._membership.image.configure(topic, configs)

    def _take_rates(self) -> None:
        """Set the rates of throttled replication from the configurations of this broker or of all brokers."""
        of, kind = self._membership.configs.of, ConfigResourceType.BROKER
        self._quotas.configure_broker(of(kind, str(self._membership.broker_id)), of(kind, ""))
        self._fetchers.heed_quota()

    def _change_defaults(self, defaults: Mapping[str, str]) -> None:
        self._directory.defaults = dict(defaults)
        for name in self._directory.topic_names():
            config = self._directory.config_of(self._membership.of(name))
            for log in self._directory.of(name).values():
                log.configure(config)

    # Time.

    def _check_in_sync(self, now_ms: int) -> None:
        """Remove lagging replicas from the ISRs; runs at intervals of half the maximum lag time."""
        if self._replicas is not None:
            for _, replica in list(self._replicas.all()):
                if isinstance(replica, ClusterReplica):
                    replica.check_in_sync(now_ms)
        interval_ms = self._membership.options.replica_lag_time_max_ms // 2
        self._membership.services.timers.at(now_ms + interval_ms, self._check_in_sync)

    def _checkpoint(self) -> None:
        """Write the high watermarks periodically."""
        services = self._membership.services
        interval_ms = self._membership.options.replica_high_watermark_checkpoint_interval_ms

        def written(error: BrokerError | None) -> None:
            services.later(interval_ms, self._checkpoint)

        self._directory.checkpoint(written)
