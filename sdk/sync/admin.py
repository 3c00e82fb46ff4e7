"""The blocking admin client: `kafkawire.Admin` on an I/O thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kafkawire.sdk.admin.admin import Admin as AsyncAdmin
from kafkawire.sdk.admin.descriptions import (
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    FeatureMetadata,
    GroupDescription,
    GroupListing,
    ItemResults,
    LogDir,
    NewPartitions,
    NewTopic,
    PartitionReassignment,
    TopicPartitionReplica,
)
from kafkawire.sdk.admin.streams_group_descriptions import StreamsGroupDescription
from kafkawire.sdk.client.method_hints import ADMIN, Hinting
from kafkawire.sdk.client.summary import blocking_summary
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.sync.options import on_io_thread
from kafkawire.sdk.transport.waiting import result_of
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Unpack

    from kafkawire.sdk.client.keywords import AdminKeywords
    from kafkawire.sdk.metrics.names import MetricName
    from kafkawire.sdk.routing.metadata import Topic

__all__ = ["Admin"]


class Admin(Hinting, hints=ADMIN):
    """Manage a cluster, blocking the caller where `kafkawire.Admin` awaits.

    The constructor does no I/O; use `with Admin(…) as admin`, or call `start` and `close`. Any thread may call any
    method. `kafkawire.Admin` describes the errors that methods raise.

    Args:
        servers: brokers to connect to first: `host:port,host:port`, or a sequence of `host:port`; the option
            `bootstrap_servers` can be used instead.
        network: how to connect to the brokers; None for TCP.
        options: see `AdminKeywords` and docs/options.md; the dotted names of Kafka's documentation are accepted too.

    Raises:
        ConfigurationError: an option is unknown or out of range, or two options contradict each other.
    """

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        /,
        *,
        network: Network | None = None,
        **options: Unpack[AdminKeywords],
    ) -> None:
        self._inner = AsyncAdmin(servers, network=network, **on_io_thread(options))

    def __repr__(self) -> str:
        return blocking_summary(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Connect to the cluster; see `kafkawire.Admin.start`."""
        result_of(self._inner.start)

    def close(self) -> None:
        """Disconnect; calls still running raise `Closed`."""
        result_of(self._inner.close)

    def create_topics(self, *topics: NewTopic | str | Iterable[NewTopic | str]) -> dict[str, bytes]:
        """Create topics; see `kafkawire.Admin.create_topics`."""
        return result_of(self._inner.create_topics, *topics)

    def delete_topics(self, *names: str | Iterable[str]) -> None:
        """Delete topics and all their records; see `kafkawire.Admin.delete_topics`."""
        result_of(self._inner.delete_topics, *names)

    def create_partitions(
        self, partitions: Mapping[str, int | NewPartitions], *, validate_only: bool = False
    ) -> ItemResults[str, None]:
        """Add partitions to topics; see `kafkawire.Admin.create_partitions`."""
        return result_of(self._inner.create_partitions, partitions, validate_only=validate_only)

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Iterable[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> ItemResults[TopicPartition, None]:
        """Move partitions to other replicas, or cancel moves; see `kafkawire.Admin.alter_partition_reassignments`."""
        return result_of(
            self._inner.alter_partition_reassignments,
            reassignments,
            allow_replication_factor_change=allow_replication_factor_change,
        )

    def list_partition_reassignments(
        self, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments in progress, by partition; see `kafkawire.Admin.list_partition_reassignments`."""
        return result_of(self._inner.list_partition_reassignments, *partitions)

    def elect_leaders(
        self, election_type: enums.ElectionType, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> ItemResults[TopicPartition, bool]:
        """Elect leaders for partitions; see `kafkawire.Admin.elect_leaders`."""
        return result_of(self._inner.elect_leaders, election_type, *partitions)

    def describe_log_dirs(self, *node_ids: int | Iterable[int]) -> ItemResults[int, dict[str, LogDir]]:
        """Return the log directories of brokers and the replicas in them; see `kafkawire.Admin.describe_log_dirs`."""
        return result_of(self._inner.describe_log_dirs, *node_ids)

    def alter_replica_log_dirs(
        self, log_dirs: Mapping[TopicPartitionReplica, str]
    ) -> ItemResults[TopicPartitionReplica, None]:
        """Move replicas to other log directories of their brokers; see `kafkawire.Admin.alter_replica_log_dirs`."""
        return result_of(self._inner.alter_replica_log_dirs, log_dirs)

    def list_topics(self, *, include_internal: bool = False) -> dict[str, Topic]:
        """Return all topics by name; see `kafkawire.Admin.list_topics`."""
        return result_of(self._inner.list_topics, include_internal=include_internal)

    def describe_topics(self, *names: str | Iterable[str], include_eligible_leaders: bool = False) -> dict[str, Topic]:
        """Return topics by name; see `kafkawire.Admin.describe_topics`."""
        return result_of(self._inner.describe_topics, *names, include_eligible_leaders=include_eligible_leaders)

    def describe_cluster(self) -> ClusterDescription:
        """Return the cluster id, the controller and the brokers with their racks."""
        return result_of(self._inner.describe_cluster)

    def describe_features(self, node_id: int | None = None) -> FeatureMetadata:
        """Return the features of the cluster (KIP-584); see `kafkawire.Admin.describe_features`."""
        return result_of(self._inner.describe_features, node_id)

    def list_groups(self) -> list[GroupListing]:
        """Return the groups of all brokers, sorted by group id; see `kafkawire.Admin.list_groups`."""
        return result_of(self._inner.list_groups)

    def describe_groups(self, *group_ids: str | Iterable[str]) -> dict[str, GroupDescription]:
        """Return consumer groups, classic or KIP-848, by group id; see `kafkawire.Admin.describe_groups`."""
        return result_of(self._inner.describe_groups, *group_ids)

    def describe_streams_groups(self, *group_ids: str | Iterable[str]) -> ItemResults[str, StreamsGroupDescription]:
        """Return streams groups by group id (KIP-1071); see `kafkawire.Admin.describe_streams_groups`."""
        return result_of(self._inner.describe_streams_groups, *group_ids)

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int | datetime]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first record at or after a time, for each partition; see `kafkawire.Admin.list_offsets`."""
        return result_of(self._inner.list_offsets, timestamps)

    def list_group_offsets(
        self, group_id: str, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that a group has committed; see `kafkawire.Admin.list_group_offsets`."""
        return result_of(self._inner.list_group_offsets, group_id, *partitions)

    def describe_configs(
        self, resource_type: enums.ConfigResourceType, name: str, *keys: str | Iterable[str]
    ) -> dict[str, ConfigEntry]:
        """Return the configuration of a topic, broker or group; see `kafkawire.Admin.describe_configs`."""
        return result_of(self._inner.describe_configs, resource_type, name, *keys)

    def incremental_alter_configs(
        self,
        resource_type: enums.ConfigResourceType,
        name: str,
        changes: Mapping[str, str | None] | Iterable[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change entries of the configuration of a topic, broker or group; other entries stay unchanged.

        See `kafkawire.Admin.incremental_alter_configs`.
        """
        result_of(self._inner.incremental_alter_configs, resource_type, name, changes, validate_only=validate_only)

    def alter_configs(
        self,
        resource_type: enums.ConfigResourceType,
        name: str,
        configs: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> None:
        """Replace the whole configuration of a topic or broker; see `kafkawire.Admin.alter_configs`."""
        result_of(self._inner.alter_configs, resource_type, name, configs, validate_only=validate_only)

    # Status.

    @property
    def client_id(self) -> str:
        """The `client_id` option."""
        return self._inner.client_id

    def metrics(self) -> Mapping[MetricName, float]:
        """Return the current value of every metric; see `kafkawire.Admin.metrics`."""
        return self._inner.metrics()
