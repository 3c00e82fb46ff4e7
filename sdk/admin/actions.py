"""The operations of an admin, as coroutines on the driver's loop; `Admin` passes them to the driver.

Each operation sends requests to the responsible broker, and retries retriable errors until `api_timeout_ms` has passed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafkawire.sdk.admin.arguments import ConfigResource
from kafkawire.sdk.admin.config_changes import alter_configs, incremental_alter_configs
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
from kafkawire.sdk.admin.eligible_leaders import with_eligible_leaders
from kafkawire.sdk.admin.features import describe_features
from kafkawire.sdk.admin.groups import describe_group
from kafkawire.sdk.admin.log_dirs import alter_replica_log_dirs, describe_log_dirs
from kafkawire.sdk.admin.partition_changes import (
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
)
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.admin.streams_group_descriptions import StreamsGroupDescription
from kafkawire.sdk.admin.streams_groups import describe_streams_groups
from kafkawire.sdk.client.operations import NO_SUCH_TOPIC, Operations
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.groups.offset_requests import TopicNames, fetch_request, fetch_results
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import ANY_BROKER, CONTROLLER, Coordinator, Node
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.routing.requests import carries, check, error_text, lacking
from kafkawire.sdk.transport.driver_interface import Versions
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.timing import sleep_ms, together

if TYPE_CHECKING:
    from kafkawire.sdk.client.offset_queries import OffsetQueries
    from kafkawire.sdk.routing.metadata import Topic

__all__ = ["Actions"]

#: A topic's name, its error code and the broker's message about the error.
_TopicResult = tuple[str, int, str | None]


class Actions:
    """The operations of an admin.

    Args:
        operations: sends the requests.
        queries: looks up offsets at the leaders.
        timeout_ms: how long a broker may take for a change, such as creating topics.
    """

    def __init__(self, operations: Operations, queries: OffsetQueries, timeout_ms: int) -> None:
        self._operations = operations
        self._queries = queries
        self._timeout_ms = timeout_ms

    async def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, bytes]:
        """Create topics and return their ids; see `Admin.create_topics`."""
        wanted = {topic.name: _creatable(topic) for topic in topics}
        ids: dict[str, bytes] = {}

        async def create(names: Collection[str], deadline_ms: int) -> Iterator[_TopicResult]:
            request = messages.CreateTopicsRequest([wanted[name] for name in names], self._timeout_ms)
            kind = messages.CreateTopicsResponse
            response = await self._operations.request(
                CONTROLLER,
                request,
                kind,
                lambda response: _check_topics(response, response.topics, names),
                deadline_ms=deadline_ms,
            )
            ids.update((topic.name, topic.topic_id) for topic in response.topics)
            return ((topic.name, topic.error_code, topic.error_message) for topic in response.topics)

        _raise_first(await self._for_each_topic("create topic", list(wanted), create))
        return {name: ids[name] for name in wanted if name in ids}

    async def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics; see `Admin.delete_topics`."""

        async def delete(names: Collection[str], deadline_ms: int) -> Iterator[_TopicResult]:
            def request(versions: Versions) -> tuple[Message, int]:
                version = versions.version_for(messages.DeleteTopicsRequest)
                if carries(messages.DeleteTopicsRequest, "topics", version):
                    states = [messages.DeleteTopicsRequest.DeleteTopicState(name) for name in names]
                    return messages.DeleteTopicsRequest(topics=states, timeout_ms=self._timeout_ms), version
                return messages.DeleteTopicsRequest(topic_names=list(names), timeout_ms=self._timeout_ms), version

            kind = messages.DeleteTopicsResponse
            response = await self._operations.request(
                CONTROLLER,
                request,
                kind,
                lambda response: _check_topics(response, response.responses, names),
                deadline_ms=deadline_ms,
            )
            return ((topic.name or "", topic.error_code, topic.error_message) for topic in response.responses)

        _raise_first(await self._for_each_topic("delete topic", names, delete))

    async def create_partitions(
        self, wanted: Mapping[str, NewPartitions], *, validate_only: bool
    ) -> ItemResults[str, None]:
        """Add partitions to topics; see `Admin.create_partitions`."""

        async def create(names: Collection[str], deadline_ms: int) -> Iterator[_TopicResult]:
            topics = [_grown(name, wanted[name]) for name in names]
            response = await self._operations.request(
                CONTROLLER,
                versioned(messages.CreatePartitionsRequest(topics, self._timeout_ms, validate_only)),
                messages.CreatePartitionsResponse,
                lambda response: _check_topics(response, response.results, names),
                deadline_ms=deadline_ms,
            )
            return ((topic.name, topic.error_code, topic.error_message) for topic in response.results)

        errors = await self._for_each_topic("create partitions of", list(wanted), create)
        return ItemResults({name: None for name in wanted if name not in errors}, dict(errors))

    async def _for_each_topic(
        self,
        what: str,
        names: Collection[str],
        attempt: Callable[[Collection[str], int], Awaitable[Iterable[_TopicResult]]],
    ) -> dict[str, BrokerError]:
        """Process topics, retrying those that the controller throttles (KIP-599), as Java's admin does.

        Topics that are already done are not sent again, because that would cause an error.

        Returns:
            The errors, keyed by topic, including those of topics that were still throttled at the end.
        """
        attempts = self._operations.attempts()
        assert attempts.deadline_ms is not None
        errors: dict[str, BrokerError] = {}
        while names:
            throttled: dict[str, BrokerError] = {}
            for name, code, message in await attempt(names, attempts.deadline_ms):
                if code != ErrorCode.NONE:
                    error = BrokerError(code, error_text(f"{what} {name}", message))
                    (throttled if code == ErrorCode.THROTTLING_QUOTA_EXCEEDED else errors)[name] = error
            self._operations.router.metadata.invalidate()
            names = list(throttled)
            if throttled:
                now_ms = monotonic_ms()
                if not attempts.failed(throttled[names[0]], now_ms):
                    return errors | throttled
                await sleep_ms(attempts.not_before_ms - now_ms)
        return errors

    async def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, tuple[int, ...] | None], *, allow_replication_factor_change: bool
    ) -> ItemResults[TopicPartition, None]:
        """Move partitions to other replicas; see `Admin.alter_partition_reassignments`."""
        return await alter_partition_reassignments(
            self._operations,
            reassignments,
            allow_replication_factor_change=allow_replication_factor_change,
            timeout_ms=self._timeout_ms,
        )

    async def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments in progress; see `Admin.list_partition_reassignments`."""
        return await list_partition_reassignments(self._operations, partitions, timeout_ms=self._timeout_ms)

    async def elect_leaders(
        self, election_type: enums.ElectionType, partitions: Collection[TopicPartition] | None
    ) -> ItemResults[TopicPartition, bool]:
        """Elect leaders for partitions; see `Admin.elect_leaders`."""
        return await elect_leaders(self._operations, election_type, partitions, timeout_ms=self._timeout_ms)

    async def describe_log_dirs(self, node_ids: Collection[int] | None) -> ItemResults[int, dict[str, LogDir]]:
        """Return the log directories of brokers; see `Admin.describe_log_dirs`."""
        return await describe_log_dirs(self._operations, node_ids)

    async def alter_replica_log_dirs(
        self, moves: Mapping[TopicPartitionReplica, str]
    ) -> ItemResults[TopicPartitionReplica, None]:
        """Move replicas to other log directories; see `Admin.alter_replica_log_dirs`."""
        return await alter_replica_log_dirs(self._operations, moves)

    async def list_topics(self, include_internal: bool) -> dict[str, Topic]:
        """Return all topics by name."""
        topics = await self._operations.describe(None)
        return {name: topic for name, topic in topics.items() if include_internal or not topic.is_internal}

    async def describe_topics(self, names: Sequence[str], *, include_eligible_leaders: bool) -> dict[str, Topic]:
        """Return topics by name; see `Admin.describe_topics`."""
        topics = await self._operations.describe(names, final=NO_SUCH_TOPIC)
        return await with_eligible_leaders(self._operations, topics) if include_eligible_leaders else topics

    async def describe_cluster(self) -> ClusterDescription:
        """Return the cluster id, the controller and the brokers."""
        await self._operations.describe(())
        metadata = self._operations.router.metadata
        return ClusterDescription(metadata.cluster_id, metadata.controller_id, dict(metadata.brokers))

    async def describe_features(self, node_id: int | None) -> FeatureMetadata:
        """Return the features of the cluster; see `Admin.describe_features`."""
        return await describe_features(self._operations, node_id)

    async def list_groups(self) -> list[GroupListing]:
        """Return the groups of all brokers, sorted by group id."""
        await self._operations.describe(())

        async def of_node(node_id: int) -> messages.ListGroupsResponse:
            return await self._operations.request(
                Node(node_id),
                messages.ListGroupsRequest(),
                messages.ListGroupsResponse,
                lambda response: check(response.error_code, f"groups of node {node_id}"),
            )

        responses = await together(map(of_node, self._operations.router.metadata.brokers))
        found = {
            group.group_id: GroupListing(group.group_id, group.protocol_type, group.group_state, group.group_type)
            for response in responses
            for group in response.groups
        }
        return [found[group_id] for group_id in sorted(found)]

    async def describe_groups(self, group_ids: Sequence[str]) -> dict[str, GroupDescription]:
        """Return groups by group id; see `Admin.describe_groups`."""
        groups = await together(describe_group(self._operations, group_id) for group_id in group_ids)
        return {group.group_id: group for group in groups}

    async def describe_streams_groups(self, group_ids: Collection[str]) -> ItemResults[str, StreamsGroupDescription]:
        """Return streams groups; see `Admin.describe_streams_groups`."""
        return await describe_streams_groups(self._operations, group_ids)

    async def describe_configs(self, resource: ConfigResource, keys: list[str] | None) -> dict[str, ConfigEntry]:
        """Return a configuration; see `Admin.describe_configs`."""
        asked = messages.DescribeConfigsRequest.DescribeConfigsResource(resource.kind, resource.name, keys)
        detail = f"configuration of {resource.kind.name.lower()} {resource.name}"

        def read(response: messages.DescribeConfigsResponse) -> None:
            if not response.results:
                raise lacking(response, f"the {detail}")
            for result in response.results:
                check(result.error_code, error_text(detail, result.error_message))

        response = await self._operations.request(
            ANY_BROKER if resource.node_id is None else Node(resource.node_id),
            messages.DescribeConfigsRequest([asked]),
            messages.DescribeConfigsResponse,
            read,
            final=NO_SUCH_TOPIC,
        )
        return {
            entry.name: ConfigEntry(entry.name, entry.value, entry.config_source, entry.read_only, entry.is_sensitive)
            for result in response.results
            for entry in result.configs
        }

    async def incremental_alter_configs(
        self, resource: ConfigResource, changes: Sequence[ConfigChange], *, validate_only: bool
    ) -> None:
        """Change entries of a configuration; see `Admin.incremental_alter_configs`."""
        await incremental_alter_configs(self._operations, resource, changes, validate_only=validate_only)

    async def alter_configs(self, resource: ConfigResource, configs: Mapping[str, str], *, validate_only: bool) -> None:
        """Replace a configuration; see `Admin.alter_configs`."""
        await alter_configs(self._operations, resource, configs, validate_only=validate_only)

    async def list_offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first record at or after a time, for each partition; see `Admin.list_offsets`."""
        answer: Promise[dict[TopicPartition, OffsetAndTimestamp]] = Promise()
        self._queries.ask(times, answer, monotonic_ms())
        self._operations.wake()
        found = await answer
        return {partition: found[partition] for partition in times}

    async def list_group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that a group has committed; see `Admin.list_group_offsets`."""
        asked = messages.OffsetFetchRequest()
        names: TopicNames = {}
        found: dict[TopicPartition, OffsetAndMetadata] = {}

        def request(versions: Versions) -> tuple[Message, int]:
            nonlocal asked, names
            metadata = self._operations.router.metadata
            asked, version, names = fetch_request(group_id, partitions, metadata, versions, stable=False)
            return asked, version

        def read(response: messages.OffsetFetchResponse) -> None:
            code, results = fetch_results(response, asked, names)
            check(code, f"committed offsets of group {group_id}")
            left = dict.fromkeys(partitions or ())
            for partition, code, offset in results:
                left.pop(partition, None)
                check(code, f"committed offset of group {group_id} in {partition}")
                if offset is not None:
                    found[partition] = offset
            for partition in left:
                raise lacking(response, f"partition {partition}")

        coordinator = Coordinator(enums.CoordinatorType.GROUP, group_id)
        await self._operations.request(coordinator, request, messages.OffsetFetchResponse, read)
        return found


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


def _grown(name: str, wanted: NewPartitions) -> messages.CreatePartitionsRequest.CreatePartitionsTopic:
    assignment = messages.CreatePartitionsRequest.CreatePartitionsAssignment
    assignments = [assignment(nodes) for nodes in wanted.assignments] or None
    return messages.CreatePartitionsRequest.CreatePartitionsTopic(name, wanted.total_count, assignments)


def _raise_first(errors: Mapping[str, BrokerError]) -> None:
    for error in errors.values():
        raise error


def _check_topics(response: Message, results: Collection[Any], names: Iterable[str]) -> None:
    """Have the whole request retried if the broker is not the controller; reject a response that lacks a topic."""
    for result in results:
        if result.error_code == ErrorCode.NOT_CONTROLLER:
            raise BrokerError(result.error_code, error_text(f"topic {result.name}", result.error_message))
    named = {result.name for result in results}
    for name in names:
        if name not in named:
            raise lacking(response, f"topic {name}")
