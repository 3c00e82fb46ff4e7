"""Changes that the controller makes to existing partitions: to their replicas and leaders.

A response has an error for each partition, so partitions fail independently. The whole request is repeated only if
nothing was changed, because the broker was not the controller.

Source: KIP-455 (reassignments), KIP-183 and KIP-460 (elections), KIP-860 (the replication factor); Apache Kafka,
`KafkaAdminClient`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafkawire.sdk.admin.descriptions import ItemResults, PartitionReassignment
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import ElectionType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import CONTROLLER
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.requests import by_topic, check, error_text, lacking

__all__ = ["alter_partition_reassignments", "elect_leaders", "list_partition_reassignments"]

#: A partition, its error code and the broker's message about the error.
_PartitionResult = tuple[TopicPartition, int, str | None]

#: Retriable, but final for a change: the change may have been made, and repeating it would report a different result.
_MAY_BE_DONE = frozenset({ErrorCode.REQUEST_TIMED_OUT})


async def alter_partition_reassignments(
    operations: Operations,
    reassignments: Mapping[TopicPartition, tuple[int, ...] | None],
    *,
    allow_replication_factor_change: bool,
    timeout_ms: int,
) -> ItemResults[TopicPartition, None]:
    """Move partitions to other replicas; see `Admin.alter_partition_reassignments`."""
    kind = messages.AlterPartitionReassignmentsRequest
    topics = [
        kind.ReassignableTopic(
            topic,
            [kind.ReassignablePartition(number, reassignments[TopicPartition(topic, number)]) for number in numbers],
        )
        for topic, numbers in by_topic(reassignments).items()
    ]

    def read(response: messages.AlterPartitionReassignmentsResponse) -> None:
        check(response.error_code, error_text("reassignment of partitions", response.error_message))
        _check_partitions(response, _altered(response), reassignments)

    response = await operations.request(
        CONTROLLER,
        versioned(
            kind(timeout_ms, allow_replication_factor_change, topics),
            None if allow_replication_factor_change else "allow_replication_factor_change",
        ),
        messages.AlterPartitionReassignmentsResponse,
        read,
        final=_MAY_BE_DONE,
    )
    operations.router.metadata.invalidate()
    found = {partition: (code, message) for partition, code, message in _altered(response)}
    values: dict[TopicPartition, None] = {}
    errors: dict[TopicPartition, KafkaWireError] = {}
    for partition in reassignments:
        code, message = found[partition]
        if code == ErrorCode.NONE:
            values[partition] = None
        else:
            errors[partition] = BrokerError(code, error_text(f"reassignment of {partition}", message))
    return ItemResults(values, errors)


async def list_partition_reassignments(
    operations: Operations, partitions: Collection[TopicPartition] | None, *, timeout_ms: int
) -> dict[TopicPartition, PartitionReassignment]:
    """Return the reassignments in progress; see `Admin.list_partition_reassignments`."""
    kind = messages.ListPartitionReassignmentsRequest
    topics = None
    if partitions is not None:
        topics = [kind.ListPartitionReassignmentsTopics(topic, numbers) for topic, numbers in _by_topic(partitions)]
    response = await operations.request(
        CONTROLLER,
        versioned(kind(timeout_ms, topics)),
        messages.ListPartitionReassignmentsResponse,
        lambda response: check(response.error_code, error_text("reassignments in progress", response.error_message)),
    )
    return {
        TopicPartition(topic.name, each.partition_index): PartitionReassignment(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in response.topics
        for each in topic.partitions
    }


async def elect_leaders(
    operations: Operations,
    election_type: ElectionType,
    partitions: Collection[TopicPartition] | None,
    *,
    timeout_ms: int,
) -> ItemResults[TopicPartition, bool]:
    """Elect leaders for partitions; see `Admin.elect_leaders`."""
    kind = messages.ElectLeadersRequest
    topics = None
    if partitions is not None:
        topics = [kind.TopicPartitions(topic, numbers) for topic, numbers in _by_topic(partitions)]

    def read(response: messages.ElectLeadersResponse) -> None:
        check(response.error_code, f"{election_type.name.lower()} election of leaders")
        _check_partitions(response, _elected(response), partitions or ())

    response = await operations.request(
        CONTROLLER,
        versioned(
            kind(election_type, topics, timeout_ms),
            None if election_type is ElectionType.PREFERRED else "election_type",
        ),
        messages.ElectLeadersResponse,
        read,
        final=_MAY_BE_DONE,
    )
    operations.router.metadata.invalidate()
    found = {partition: (code, message) for partition, code, message in _elected(response)}
    values: dict[TopicPartition, bool] = {}
    errors: dict[TopicPartition, KafkaWireError] = {}
    for partition in found if partitions is None else partitions:
        code, message = found[partition]
        if code in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
            values[partition] = code == ErrorCode.NONE
        else:
            errors[partition] = BrokerError(code, error_text(f"election of a leader of {partition}", message))
    return ItemResults(values, errors)


def _by_topic(partitions: Iterable[TopicPartition]) -> Iterable[tuple[str, list[int]]]:
    """Return the partition numbers of each topic, without duplicates."""
    return by_topic(dict.fromkeys(partitions)).items()


def _altered(response: messages.AlterPartitionReassignmentsResponse) -> Iterable[_PartitionResult]:
    for topic in response.responses:
        for each in topic.partitions:
            yield TopicPartition(topic.name, each.partition_index), each.error_code, each.error_message


def _elected(response: messages.ElectLeadersResponse) -> Iterable[_PartitionResult]:
    for topic in response.replica_election_results:
        for each in topic.partition_result:
            yield TopicPartition(topic.topic, each.partition_id), each.error_code, each.error_message


def _check_partitions(response: Message, results: Iterable[_PartitionResult], asked: Iterable[TopicPartition]) -> None:
    """Have the request retried if the broker is not the controller; reject a response that lacks a partition."""
    named = set()
    for partition, code, message in results:
        named.add(partition)
        if code == ErrorCode.NOT_CONTROLLER:
            raise BrokerError(code, error_text(f"partition {partition}", message))
    for partition in asked:
        if partition not in named:
            raise lacking(response, f"partition {partition}")
