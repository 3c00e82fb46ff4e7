"""The admin client: topics, groups, offsets and configurations of a cluster.

Each method sends a request to the broker in charge and retries retriable errors until `api_timeout_ms`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from kafkawire.sdk.admin.descriptions import (
    ClusterDescription,
    ConfigEntry,
    GroupDescription,
    GroupListing,
    GroupMemberDescription,
    NewTopic,
)
from kafkawire.sdk.client.offsets import fetch_committed, list_offsets
from kafkawire.sdk.client.options import AdminOptions, read_options
from kafkawire.sdk.client.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.client.requests import carries, check
from kafkawire.sdk.errors import Closed, LocalProtocolError
from kafkawire.sdk.protocol import messages, tables
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from typing import Unpack

    from kafkawire.sdk.client.cluster import Cluster
    from kafkawire.sdk.client.keywords import AdminKeywords
    from kafkawire.sdk.client.metadata import Topic

__all__ = ["Admin"]

#: The version that an encoded assignment begins with.
_VERSION_BYTES = 2


class Admin:
    """Manage a cluster.

    The constructor does no I/O; use `async with Admin(…) as admin`, or call `start` and `close`. Every method raises
    `Closed` if the admin is not started, and `ConnectFailed`, `ConnectionLost` or `RequestTimedOut` if the brokers
    cannot be reached within `api_timeout_ms`.

    Args:
        servers: brokers to connect to first: `host:port,host:port`, or a sequence of `host:port`; the option
            `bootstrap_servers` may take its place.
        network: reaches the brokers; None for TCP.
        options: see `AdminKeywords` and docs/options.md; the dotted names of Kafka's documentation are accepted too.

    Raises:
        ConfigurationError: an option is unknown or out of range, or two contradict each other.
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
        self._started: Cluster | None = None

    async def __aenter__(self) -> Admin:
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
            LocalProtocolError: the admin was started already.
        """
        if self._started is not None:
            raise LocalProtocolError("the admin was started already")
        from kafkawire.sdk.client.cluster import Cluster  # what connects is loaded here, not by the import

        cluster = Cluster(self._options, self._network)
        try:
            await cluster.refresh()
        except BaseException:
            await cluster.close()
            raise
        self._started = cluster

    async def close(self) -> None:
        """Disconnect."""
        if self._started is not None:
            await self._started.close()
            self._started = None

    async def create_topics(self, topics: Iterable[NewTopic | str] | NewTopic | str) -> dict[str, bytes]:
        """Create topics.

        Args:
            topics: one or more; a bare name takes the broker's defaults.

        Returns:
            The id of each topic, 16 bytes, by name.

        Raises:
            BrokerError: the error of the first topic that was not created, TOPIC_ALREADY_EXISTS for example; others may
                have been created.
        """
        cluster = self._cluster
        given = [topics] if isinstance(topics, NewTopic | str) else topics
        wanted = [_creatable(NewTopic(topic) if isinstance(topic, str) else topic) for topic in given]
        request = messages.CreateTopicsRequest(wanted, self._options.request_timeout_ms)

        async def attempt() -> messages.CreateTopicsResponse:
            connection = await cluster.controller()
            response = await connection.request(request, messages.CreateTopicsResponse)
            for topic in response.topics:
                check(topic.error_code, _said(f"create topic {topic.name}", topic.error_message))
            return response

        response = await cluster.retrying(attempt)
        cluster.metadata.invalidate()
        return {topic.name: topic.topic_id for topic in response.topics}

    async def delete_topics(self, names: Iterable[str] | str) -> None:
        """Delete topics and all their records.

        Args:
            names: one or more.

        Raises:
            BrokerError: the error of the first topic that was not deleted; others may have been deleted.
        """
        cluster = self._cluster
        names = _listed(names)

        async def attempt() -> None:
            connection = await cluster.controller()
            version = connection.version_for(messages.DeleteTopicsRequest)
            if carries(messages.DeleteTopicsRequest, "topics", version):
                states = [messages.DeleteTopicsRequest.DeleteTopicState(name) for name in names]
                request = messages.DeleteTopicsRequest(topics=states, timeout_ms=self._options.request_timeout_ms)
            else:
                request = messages.DeleteTopicsRequest(topic_names=names, timeout_ms=self._options.request_timeout_ms)
            response = await connection.request(request, messages.DeleteTopicsResponse, version)
            for topic in response.responses:
                check(topic.error_code, _said(f"delete topic {topic.name}", topic.error_message))

        await cluster.retrying(attempt, final=_no_such_topic())
        cluster.metadata.invalidate()

    async def list_topics(self, *, include_internal: bool = False) -> dict[str, Topic]:
        """Return all topics by name.

        Args:
            include_internal: whether to include Kafka's internal topics.
        """
        cluster = self._cluster
        cluster.topics = None
        await cluster.retrying(cluster.refresh)
        return {
            name: topic for name, topic in cluster.metadata.topics.items() if include_internal or not topic.is_internal
        }

    async def describe_topics(self, names: Iterable[str] | str) -> dict[str, Topic]:
        """Return topics by name.

        Args:
            names: one or more.

        Raises:
            BrokerError: the error of the first topic that does not exist, or may not be described.
        """
        cluster = self._cluster
        names = _listed(names)

        async def attempt() -> None:
            await cluster.refresh(names)
            for name in names:
                check(cluster.metadata.errors.get(name, 0), f"topic {name}")

        await cluster.retrying(attempt, final=_no_such_topic())
        return {name: cluster.metadata.topics[name] for name in names}

    async def describe_cluster(self) -> ClusterDescription:
        """Return the cluster id, the controller and the brokers."""
        cluster = self._cluster
        await cluster.retrying(lambda: cluster.refresh(()))
        metadata = cluster.metadata
        return ClusterDescription(metadata.cluster_id, metadata.controller_id, dict(metadata.brokers))

    async def list_groups(self) -> list[GroupListing]:
        """Return the groups of all brokers, sorted by group id.

        Raises:
            BrokerError: a broker refused.
        """
        cluster = self._cluster

        async def attempt() -> dict[str, GroupListing]:
            await cluster.refresh(())
            found: dict[str, GroupListing] = {}
            for node_id in cluster.metadata.brokers:
                connection = await cluster.connection(node_id)
                response = await connection.request(messages.ListGroupsRequest(), messages.ListGroupsResponse)
                check(response.error_code, f"groups of node {node_id}")
                for group in response.groups:
                    found[group.group_id] = GroupListing(
                        group.group_id, group.protocol_type, group.group_state, group.group_type
                    )
            return found

        found = await cluster.retrying(attempt)
        return [found[group_id] for group_id in sorted(found)]

    async def describe_groups(self, group_ids: Iterable[str] | str) -> dict[str, GroupDescription]:
        """Return classic groups by group id.

        Args:
            group_ids: one or more.

        Raises:
            BrokerError: the error of the first group that cannot be described.
        """
        return {group_id: await self._describe_group(group_id) for group_id in _listed(group_ids)}

    async def list_offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first record at or after a time, for each partition.

        Args:
            timestamps: milliseconds since the epoch, or an `OffsetTimestamp` (EARLIEST, LATEST, …), by partition.

        Returns:
            Offset and timestamp by partition. The offset is -1 if no record is that recent; the timestamp is -1 when
            the offset is not a record's.

        Raises:
            BrokerError: a partition does not exist, or may not be read.
        """
        return await list_offsets(self._cluster, timestamps)

    async def list_group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that a group has committed.

        Args:
            group_id: the group.
            partitions: None for all that the group has committed.

        Returns:
            Offsets by partition; partitions without a commit are left out.

        Raises:
            BrokerError: the group or a partition may not be read.
        """
        return await fetch_committed(self._cluster, group_id, partitions)

    async def describe_configs(
        self, resource_type: enums.ConfigResourceType, name: str, keys: Collection[str] | None = None
    ) -> dict[str, ConfigEntry]:
        """Return the configuration of a topic, broker or group.

        Args:
            resource_type: the kind of resource.
            name: the topic or group; the node id of a broker, as text.
            keys: names of the entries to return; None for all.

        Returns:
            The entries by name.

        Raises:
            BrokerError: the resource does not exist, or may not be described.
        """
        cluster = self._cluster
        resource = messages.DescribeConfigsRequest.DescribeConfigsResource(
            resource_type, name, None if keys is None else list(keys)
        )

        async def attempt() -> dict[str, ConfigEntry]:
            of_broker = resource_type == enums.ConfigResourceType.BROKER
            connection = await (cluster.connection(int(name)) if of_broker else cluster.any_connection())
            response = await connection.request(
                messages.DescribeConfigsRequest([resource]), messages.DescribeConfigsResponse
            )
            for result in response.results:
                detail = f"configuration of {resource_type.name.lower()} {name}"
                check(result.error_code, _said(detail, result.error_message))
            return {
                entry.name: ConfigEntry(
                    entry.name, entry.value, entry.config_source, entry.read_only, entry.is_sensitive
                )
                for result in response.results
                for entry in result.configs
            }

        return await cluster.retrying(attempt, final=_no_such_topic())

    @property
    def _cluster(self) -> Cluster:
        if self._started is None:
            raise Closed("the admin is not started, or is closed")
        return self._started

    async def _describe_group(self, group_id: str) -> GroupDescription:
        cluster = self._cluster

        async def attempt() -> messages.DescribeGroupsResponse.DescribedGroup:
            connection = await cluster.coordinator(group_id)
            response = await connection.request(
                messages.DescribeGroupsRequest([group_id]), messages.DescribeGroupsResponse
            )
            group = response.groups[0]
            check(group.error_code, _said(f"group {group_id}", group.error_message))
            return group

        group = await cluster.retrying(attempt, group_id)
        members = tuple(
            GroupMemberDescription(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                _assignment(member.member_assignment),
            )
            for member in group.members
        )
        return GroupDescription(group.group_id, group.group_state, group.protocol_data, members)


def _no_such_topic() -> frozenset[tables.ErrorCode]:
    """Return what is retriable when writing to a topic that is just being created, and final when asking about it."""
    return frozenset({tables.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


def _creatable(topic: NewTopic) -> messages.CreateTopicsRequest.CreatableTopic:
    return messages.CreateTopicsRequest.CreatableTopic(
        topic.name,
        topic.partitions,
        topic.replication_factor,
        [
            messages.CreateTopicsRequest.CreatableReplicaAssignment(number, brokers)
            for number, brokers in topic.assignments.items()
        ],
        [messages.CreateTopicsRequest.CreatableTopicConfig(name, value) for name, value in topic.configs.items()],
    )


def _listed(names: Iterable[str] | str) -> list[str]:
    """Return one name, or several, as a list."""
    return [names] if isinstance(names, str) else list(names)


def _said(detail: str, message: str | None) -> str:
    return f"{detail}: {message}" if message else detail


def _assignment(data: Buffer) -> tuple[TopicPartition, ...]:
    """Decode a member's assignment, which is empty during a rebalance."""
    if len(data) <= _VERSION_BYTES:
        return ()
    version = int.from_bytes(bytes(data[:_VERSION_BYTES]), "big", signed=True)
    from kafkawire.sdk.protocol.programs import program

    highest = messages.ConsumerProtocolAssignment.SCHEMA.versions.last
    message, _ = program(messages.ConsumerProtocolAssignment, min(version, highest)).decode(data, _VERSION_BYTES)
    return tuple(
        TopicPartition(topic.topic, partition)
        for topic in message.assigned_partitions
        for partition in topic.partitions
    )
