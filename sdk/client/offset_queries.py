"""Look up offsets by time at the leaders of partitions, and a group's committed offsets at its coordinator.

Source: Kafka protocol guide, "ListOffsets", "OffsetFetch"; KIP-709 (several groups in one request).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from kafkawire.sdk.client.call import Coordinator, Node
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.client.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.client.requests import by_topic, committed_offsets, offset_fetch
from kafkawire.sdk.client.retry import outdates_metadata
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import BrokerError, KafkaWireError, RequestTimedOut
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import CONSUMER_REPLICA_ID, CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.driven import Versions
from kafkawire.sdk.transport.timing import sleep_ms, together

__all__ = ["fetch_committed", "list_offsets"]


async def list_offsets(
    operations: Operations, timestamps: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return the first record at or after a time, for each partition.

    Args:
        operations: carry the requests.
        timestamps: milliseconds since the epoch, or an `OffsetTimestamp`, by partition.

    Returns:
        Offset and timestamp by partition. The offset is -1 if no record is that recent; the timestamp is -1 when the
        offset is not a record's.

    Raises:
        BrokerError: a partition does not exist, or may not be read; a retriable error is raised when it is too late.
    """
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    attempts = operations.attempts()
    while missing := [partition for partition in timestamps if partition not in found]:
        try:
            await _ask_leaders(operations, {each: timestamps[each] for each in missing}, found, attempts.deadline_ms)
        except KafkaWireError as error:
            if not attempts.failed(error, monotonic_ms()):
                raise
            await sleep_ms(attempts.not_before_ms - monotonic_ms())
            if outdates_metadata(error):
                topics = sorted({each.topic for each in missing})
                try:
                    await operations.describe(topics, deadline_ms=attempts.deadline_ms)
                except RequestTimedOut as late:
                    raise error.again() from late  # it says more than that the time is over
    return {partition: found[partition] for partition in timestamps}


async def fetch_committed(
    operations: Operations, group_id: str, partitions: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets that a group has committed; partitions without one are left out.

    Args:
        operations: carry the requests.
        group_id: the group.
        partitions: None for all that the group has committed.

    Raises:
        BrokerError: the group or a partition may not be read; a retriable error is raised when it is too late.
    """

    def request(versions: Versions) -> tuple[Message, int]:
        # Names, not ids: a group may have committed for topics that are not in this client's metadata.
        named = (messages.OffsetFetchRequest.OffsetFetchRequestTopics, "name")
        version = versions.version_for(messages.OffsetFetchRequest, named)
        return offset_fetch(group_id, partitions, version), version

    read = partial(committed_offsets, group_id=group_id)
    coordinator = Coordinator(CoordinatorType.GROUP, group_id)
    return dict(read(await operations.request(coordinator, request, messages.OffsetFetchResponse, read)))


async def _ask_leaders(
    operations: Operations,
    timestamps: Mapping[TopicPartition, int],
    found: dict[TopicPartition, OffsetAndTimestamp],
    deadline_ms: int | None,
) -> None:
    """Ask every leader at the same time; add what they know to `found`, and raise the first error after that."""
    failures: list[BrokerError] = []

    async def ask(node_id: int, partitions: list[TopicPartition]) -> None:
        request = _list_request(operations, {each: timestamps[each] for each in partitions})
        kind = messages.ListOffsetsResponse
        response = await operations.request(Node(node_id), request, kind, deadline_ms=deadline_ms, retries=False)
        failures.extend(_take_listed(response, found))

    await together(ask(node_id, partitions) for node_id, partitions in operations.leaders(timestamps).items())
    if failures:
        raise failures[0]


def _list_request(operations: Operations, timestamps: Mapping[TopicPartition, int]) -> messages.ListOffsetsRequest:
    topics = []
    for topic, numbers in by_topic(timestamps).items():
        partitions = []
        for number in numbers:
            key = TopicPartition(topic, number)
            known = operations.router.metadata.partition(key)
            epoch = -1 if known is None else known.leader_epoch
            partitions.append(messages.ListOffsetsRequest.ListOffsetsPartition(number, epoch, timestamps[key]))
        topics.append(messages.ListOffsetsRequest.ListOffsetsTopic(topic, partitions))
    return messages.ListOffsetsRequest(CONSUMER_REPLICA_ID, topics=topics)


def _take_listed(
    response: messages.ListOffsetsResponse, found: dict[TopicPartition, OffsetAndTimestamp]
) -> list[BrokerError]:
    """Add the offsets of a response to `found`; return the errors."""
    failures = []
    for topic in response.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code == ErrorCode.NONE:
                found[key] = OffsetAndTimestamp(partition.offset, partition.timestamp)
            else:
                failures.append(BrokerError(partition.error_code, f"offsets of {key}"))
    return failures
