"""The admin client, which manages a cluster's topics, replicas, log directories, configurations, groups and offsets.

Its operations are in `actions.py`; `kafkawire.sync.Admin` is the blocking client.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kafkawire.sdk.admin.arguments import (
    checked_config_changes,
    checked_configs,
    checked_election_type,
    checked_log_dirs,
    checked_new_partitions,
    checked_new_topics,
    checked_node_ids,
    checked_reassignments,
    checked_resource,
)
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
from kafkawire.sdk.client.arguments import checked_names, checked_partitions, checked_text, checked_times
from kafkawire.sdk.client.method_hints import ADMIN, Hinting
from kafkawire.sdk.client.options import AdminOptions, read_options
from kafkawire.sdk.client.summary import State, summary
from kafkawire.sdk.client.unclosed_clients import caller, reduce_unstarted, warn_unclosed
from kafkawire.sdk.errors import Closed, LocalProtocolError
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.routing.topics import checked_topic
from kafkawire.sdk.transport.promise import Result
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Unpack

    from kafkawire.sdk.admin.actions import Actions
    from kafkawire.sdk.client.core import ClientCore
    from kafkawire.sdk.client.keywords import AdminKeywords
    from kafkawire.sdk.metrics.names import MetricName
    from kafkawire.sdk.routing.metadata import Topic

__all__ = ["Admin"]


class Admin(Hinting, hints=ADMIN):
    """Manage a cluster.

    The constructor does no I/O; use `async with Admin(…) as admin`, or call `start` and `close`. Every method raises
    `Closed` if the admin is not started, and `ConnectFailed`, `ConnectionLost` or `RequestTimedOut` if the brokers
    cannot be reached within `api_timeout_ms`.

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
        self._options = read_options(AdminOptions, servers, options)
        self._network = network
        self._started: tuple[ClientCore, Actions] | None = None
        self._is_closed = False
        self._made_at = caller()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        started: tuple[ClientCore, Actions] | None = getattr(self, "_started", None)  # None if the constructor raised
        if started is not None and not is_finalizing() and started[0].let_go():
            warn_unclosed(self, f"admin {self._options.client_id!r}", self._made_at, "it disconnects")

    __reduce_ex__ = reduce_unstarted("admin", "_started")

    def __repr__(self) -> str:
        return summary(self, *self._state())

    def _state(self) -> tuple[AdminOptions | None, State]:
        """Return the options and the state; the options are None if the constructor raised before setting them."""
        started = getattr(self, "_started", None) is not None
        state: State = "started" if started else "closed" if getattr(self, "_is_closed", False) else "new"
        return getattr(self, "_options", None), state

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Connect to the cluster.

        Raises:
            ConnectFailed: none of the bootstrap servers can be reached.
            LocalProtocolError: the admin has already been started.
            Closed: the admin was closed; a closed admin cannot be started again.
        """
        if self._is_closed:
            raise Closed("the admin was closed; create a new one")
        if self._started is not None:
            raise LocalProtocolError("the admin was already started")
        from kafkawire.sdk.admin.actions import Actions  # loaded late to keep the import fast
        from kafkawire.sdk.client.core import ClientCore
        from kafkawire.sdk.client.offset_queries import OffsetQueries
        from kafkawire.sdk.client.operations import NO_SUCH_TOPIC

        core = ClientCore("admin", self._options, self._network)
        queries = OffsetQueries(core.router, self._options, core.backoff, final=NO_SUCH_TOPIC)
        core.machines.append(queries)
        self._started = core, Actions(core.operations, queries, self._options.request_timeout_ms)
        try:
            await core.start()
        except BaseException:
            self._started = None
            await core.finish(Closed("the admin could not be started"))
            raise

    async def close(self) -> None:
        """Disconnect; calls still running raise `Closed`."""
        started, self._started = self._started, None
        if started is not None:
            self._is_closed = True
            core, _ = started
            await core.finish()

    async def create_topics(self, *topics: NewTopic | str | Iterable[NewTopic | str]) -> dict[str, bytes]:
        """Create topics.

        Args:
            topics: as separate arguments or in one list; for a bare name, the broker's defaults are used.

        Returns:
            The 16-byte id of each topic, keyed by name.

        Raises:
            BrokerError: the error of the first topic that was not created, for example TOPIC_ALREADY_EXISTS; others may
                have been created.
        """
        return await self._do(self._actions.create_topics(checked_new_topics(topics)))

    async def delete_topics(self, *names: str | Iterable[str]) -> None:
        """Delete topics and all their records.

        Args:
            names: as separate arguments or in one list.

        Raises:
            BrokerError: the error of the first topic that was not deleted; others may have been deleted.
        """
        await self._do(self._actions.delete_topics(_topics(names)))

    async def create_partitions(
        self, partitions: Mapping[str, int | NewPartitions], *, validate_only: bool = False
    ) -> ItemResults[str, None]:
        """Add partitions to topics.

        Existing records with a key keep their partition; later records with the same key may go to another partition.

        Args:
            partitions: for each topic, its new number of partitions, or `NewPartitions` with the replicas of the new
                partitions.
            validate_only: whether the controller should check the request without carrying it out.

        Returns:
            The topics that now have more partitions, and the error of each other topic: INVALID_PARTITIONS if it
                already has that many partitions or more, INVALID_REPLICA_ASSIGNMENT, REASSIGNMENT_IN_PROGRESS,
                UNKNOWN_TOPIC_OR_PARTITION and so on.

        Raises:
            UnsupportedVersion: the brokers are older than Apache Kafka 1.0 (KIP-195).
        """
        return await self._do(
            self._actions.create_partitions(checked_new_partitions(partitions), validate_only=bool(validate_only))
        )

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Iterable[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> ItemResults[TopicPartition, None]:
        """Move partitions to other replicas, or cancel moves; the brokers copy the records afterwards.

        Args:
            reassignments: for each partition, the node ids of the new replicas, with the preferred leader first; None
                cancels the partition's reassignment.
            allow_replication_factor_change: whether a partition's number of replicas may change.

        Returns:
            The partitions whose reassignment was started or cancelled, and the error of each other partition:
                INVALID_REPLICA_ASSIGNMENT, UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS if there is nothing
                to cancel, and so on. `list_partition_reassignments` shows the progress.

        Raises:
            BrokerError: the controller rejected the whole request; after REQUEST_TIMED_OUT, it may still take effect.
            UnsupportedVersion: the brokers are older than Apache Kafka 2.4 (KIP-455), or 4.1 (KIP-860) if
                `allow_replication_factor_change` is False.
        """
        return await self._do(
            self._actions.alter_partition_reassignments(
                checked_reassignments(reassignments),
                allow_replication_factor_change=bool(allow_replication_factor_change),
            )
        )

    async def list_partition_reassignments(
        self, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments in progress, by partition.

        Args:
            partitions: as separate arguments or in one list; all partitions of the cluster if none is given.

        Returns:
            The reassignments; partitions that have none or do not exist are left out.

        Raises:
            BrokerError: the controller rejected the request.
            UnsupportedVersion: the brokers are older than Apache Kafka 2.4 (KIP-455).
        """
        chosen = checked_partitions(partitions) if partitions else None
        return await self._do(self._actions.list_partition_reassignments(chosen))

    async def elect_leaders(
        self, election_type: enums.ElectionType, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> ItemResults[TopicPartition, bool]:
        """Elect leaders for partitions.

        Args:
            election_type: PREFERRED makes the first replica the leader if it is in sync; UNCLEAN makes any live replica
                the leader if none is in sync, and loses the records missing from that replica.
            partitions: as separate arguments or in one list; all partitions of the cluster if none is given.

        Returns:
            True for each partition that has a new leader, False for each one that needed no election (left out if no
                partition was given), and the error of each other partition: PREFERRED_LEADER_NOT_AVAILABLE,
                ELIGIBLE_LEADERS_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION and so on.

        Raises:
            BrokerError: the controller rejected the whole request; after REQUEST_TIMED_OUT, it may still take effect.
            UnsupportedVersion: the brokers are older than Apache Kafka 2.2 (KIP-183), or 2.4 (KIP-460) for UNCLEAN.
        """
        chosen = checked_partitions(partitions) if partitions else None
        return await self._do(self._actions.elect_leaders(checked_election_type(election_type), chosen))

    async def describe_log_dirs(self, *node_ids: int | Iterable[int]) -> ItemResults[int, dict[str, LogDir]]:
        """Return the log directories of brokers and the replicas in them.

        Args:
            node_ids: as separate arguments or in one list; all brokers of the cluster if none is given.

        Returns:
            For each broker that answered, its log directories, keyed by absolute path; and the error of each other
                broker: CLUSTER_AUTHORIZATION_FAILED, or an error saying that the broker is unreachable or older than
                Apache Kafka 2.0 (KIP-113). An offline directory is included, with its error.
        """
        chosen = checked_node_ids(node_ids) if node_ids else None
        return await self._do(self._actions.describe_log_dirs(chosen))

    async def alter_replica_log_dirs(
        self, log_dirs: Mapping[TopicPartitionReplica, str]
    ) -> ItemResults[TopicPartitionReplica, None]:
        """Move replicas to other log directories of their brokers, which copy the records afterwards.

        Args:
            log_dirs: for each replica, the absolute path of the log directory to which it is moved.

        Returns:
            The replicas whose move has begun, and the error of each other replica: LOG_DIR_NOT_FOUND;
                KAFKA_STORAGE_ERROR if the directory is offline; REPLICA_NOT_AVAILABLE if the broker does not have the
                replica yet, in which case it will create the replica in that directory; or the error of its broker, as
                for `describe_log_dirs`, which also shows the progress.
        """
        return await self._do(self._actions.alter_replica_log_dirs(checked_log_dirs(log_dirs)))

    async def list_topics(self, *, include_internal: bool = False) -> dict[str, Topic]:
        """Return all topics by name.

        Args:
            include_internal: whether to include Kafka's internal topics.
        """
        return await self._do(self._actions.list_topics(include_internal))

    async def describe_topics(
        self, *names: str | Iterable[str], include_eligible_leaders: bool = False
    ) -> dict[str, Topic]:
        """Return topics by name, with the leader and replicas of each partition.

        Args:
            names: as separate arguments or in one list.
            include_eligible_leaders: whether to make a second request, for the replicas that are eligible as leaders
                without being in sync (KIP-966).

        Raises:
            BrokerError: the error of the first topic that does not exist or may not be described.
            UnsupportedVersion: the eligible leaders were requested, but the broker is older than Apache Kafka 3.8 or
                uses ZooKeeper.
        """
        return await self._do(
            self._actions.describe_topics(_topics(names), include_eligible_leaders=bool(include_eligible_leaders))
        )

    async def describe_cluster(self) -> ClusterDescription:
        """Return the cluster id, the controller and the brokers with their racks."""
        return await self._do(self._actions.describe_cluster())

    async def describe_features(self, node_id: int | None = None) -> FeatureMetadata:
        """Return the features of the cluster (KIP-584).

        Args:
            node_id: the broker to ask, since brokers of different releases support different levels; None for any
                broker.

        Returns:
            The features; a broker older than Apache Kafka 2.7 reports none.
        """
        chosen = None if node_id is None else checked_node_ids((node_id,))[0]
        return await self._do(self._actions.describe_features(chosen))

    async def list_groups(self) -> list[GroupListing]:
        """Return the groups of all brokers, sorted by group id.

        Raises:
            BrokerError: a broker rejected the request.
        """
        return await self._do(self._actions.list_groups())

    async def describe_groups(self, *group_ids: str | Iterable[str]) -> dict[str, GroupDescription]:
        """Return consumer groups, classic or KIP-848, by group id.

        Args:
            group_ids: as separate arguments or in one list.

        Raises:
            BrokerError: the error of the first group that cannot be described: GROUP_ID_NOT_FOUND if it does not exist,
                or if it is a share group or a Kafka Streams group (KIP-1071), as the message then says.
        """
        return await self._do(self._actions.describe_groups(checked_names("group_id", group_ids)))

    async def describe_streams_groups(
        self, *group_ids: str | Iterable[str]
    ) -> ItemResults[str, StreamsGroupDescription]:
        """Return streams groups by group id (KIP-1071).

        Args:
            group_ids: as separate arguments or in one list.

        Returns:
            The groups, or the errors: GROUP_ID_NOT_FOUND if no such group exists or the group is of another kind,
            GROUP_AUTHORIZATION_FAILED and others.

        Raises:
            LocalProtocolError: a group id is not a string.
        """
        return await self._do(self._actions.describe_streams_groups(checked_names("group_id", group_ids)))

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int | datetime]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first record at or after a time, for each partition.

        Args:
            timestamps: for each partition, milliseconds since the epoch, a datetime with a time zone, or an
                `OffsetTimestamp` (EARLIEST, LATEST, …).

        Returns:
            The offset and timestamp for each partition. The offset is -1 if no record is that recent; the timestamp is
            -1 if the offset does not belong to a record.

        Raises:
            BrokerError: a topic does not exist or may not be read, or a partition of an existing topic is still missing
                after `api_timeout_ms`.
        """
        return await self._do(self._actions.list_offsets(checked_times(timestamps, special=True)))

    async def list_group_offsets(
        self, group_id: str, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that a group has committed.

        Args:
            group_id: the group.
            partitions: as separate arguments or in one list; if none is given, all partitions for which the group has
                committed offsets.

        Returns:
            The offsets, keyed by partition; partitions without a commit are left out.

        Raises:
            BrokerError: the group or a partition may not be read.
        """
        chosen = checked_partitions(partitions) if partitions else None
        return await self._do(self._actions.list_group_offsets(checked_text("group_id", group_id), chosen))

    async def describe_configs(
        self, resource_type: enums.ConfigResourceType, name: str, *keys: str | Iterable[str]
    ) -> dict[str, ConfigEntry]:
        """Return the configuration of a topic, broker or group.

        Args:
            resource_type: the kind of resource.
            name: the topic or group; the node id of a broker, as a string, or an empty string for the defaults of all
                brokers.
            keys: names of the entries to return, as separate arguments or in one list; all if none is given.

        Returns:
            The entries, keyed by name.

        Raises:
            BrokerError: the resource does not exist, or may not be described.
            LocalProtocolError: there is no such kind of resource, or a broker's name is not a node id.
        """
        resource = checked_resource(resource_type, name)
        chosen = checked_names("key", keys) if keys else None
        return await self._do(self._actions.describe_configs(resource, chosen))

    async def incremental_alter_configs(
        self,
        resource_type: enums.ConfigResourceType,
        name: str,
        changes: Mapping[str, str | None] | Iterable[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change entries of the configuration of a topic, broker or group; other entries stay unchanged.

        Args:
            resource_type: the kind of resource; a single broker's configuration and logger levels are changed at that
                broker.
            name: the topic or group; the node id of a broker, as a string, or an empty string for the defaults of all
                brokers.
            changes: the new value of each entry, keyed by name, with None to return to the default; or `ConfigChange`s,
                to append to lists or subtract from them.
            validate_only: whether the broker should check the changes without making them.

        Raises:
            BrokerError: nothing was changed: INVALID_CONFIG, INVALID_REQUEST if an entry cannot be changed,
                UNKNOWN_TOPIC_OR_PARTITION, CLUSTER_AUTHORIZATION_FAILED and others.
            LocalProtocolError: there is no such kind of resource, or a broker's name is not a node id.
            UnsupportedVersion: the broker is older than Apache Kafka 2.3 (KIP-339).
        """
        resource, checked = checked_resource(resource_type, name), checked_config_changes(changes)
        await self._do(self._actions.incremental_alter_configs(resource, checked, validate_only=bool(validate_only)))

    async def alter_configs(
        self,
        resource_type: enums.ConfigResourceType,
        name: str,
        configs: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> None:
        """Replace the whole configuration of a topic or broker; entries that are not given return to their defaults.

        Changes that other clients make at the same time are lost; prefer `incremental_alter_configs`.

        Args:
            resource_type: the kind of resource; a single broker's configuration is changed at that broker.
            name: the topic; the node id of a broker, as a string, or an empty string for the defaults of all brokers.
            configs: every entry whose value differs from the default.
            validate_only: whether the broker should check the entries without storing them.

        Raises:
            BrokerError: nothing was changed: INVALID_CONFIG, INVALID_REQUEST if an entry cannot be changed,
                UNKNOWN_TOPIC_OR_PARTITION, CLUSTER_AUTHORIZATION_FAILED and others.
            LocalProtocolError: there is no such kind of resource, or a broker's name is not a node id.
            UnsupportedVersion: the broker is older than Apache Kafka 0.11 (KIP-133).
        """
        resource, checked = checked_resource(resource_type, name), checked_configs(configs)
        await self._do(self._actions.alter_configs(resource, checked, validate_only=bool(validate_only)))

    @property
    def client_id(self) -> str:
        """The `client_id` option."""
        return self._options.client_id

    def metrics(self) -> Mapping[MetricName, float]:
        """Return the current value of every metric; any thread may call this. docs/observability.md lists them.

        Raises:
            Closed: the admin is not started or is closed.
        """
        return self._running()[0].metrics()

    @property
    def _actions(self) -> Actions:
        return self._running()[1]

    def _running(self) -> tuple[ClientCore, Actions]:
        started = self._started  # read only once, because a signal handler may close the admin at any moment
        if started is None:
            raise Closed("the admin is not started, or is closed")
        return started

    async def _do(self, action: Coroutine[Any, Any, Result]) -> Result:
        try:
            core, _ = self._running()
        except Closed:
            action.close()
            raise
        return await core.perform(action)


def _topics(names: tuple[Any, ...]) -> list[str]:
    return [checked_topic(name) for name in checked_names("topic", names)]
