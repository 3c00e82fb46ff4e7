"""DescribeTopicPartitions: list topics in pages, ordered by name, with the replicas that are eligible as leaders.

0: the only version (KIP-966).

The number of partitions on a page is limited; missing topics do not count. The cursor for the next page may name a
topic that has since been deleted, unless the client has requested specific topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION, MetadataImage, PartitionImage, TopicImage
from kafkawire.reference_broker.metadata.internal_topics import INTERNAL_TOPICS
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.metadata.new_topics import check_characters
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorized_operations import authorized_operations
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["PARTITIONS_MAX", "handle"]

#: Maximum number of partitions on a page, Kafka's `max.request.partition.size.limit`.
PARTITIONS_MAX = 2_000

Cursor = DescribeTopicPartitionsResponse.Cursor
Described = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


@serves(ApiKey.DESCRIBE_TOPIC_PARTITIONS, scope=Scope.ALONE)
def handle(
    call: Call, request: DescribeTopicPartitionsRequest, *, authorizer: Authorizer, metadata: MetadataCache
) -> Work[DescribeTopicPartitionsResponse]:
    """Handle DescribeTopicPartitions.

    Raises:
        BrokerError: INVALID_REQUEST if the cursor names an invalid partition, or a topic that was not requested.
    """
    cursor = request.cursor
    image = metadata.image
    names, refused = yield from _names(image, request, authorizer, call)
    left = max(min(request.response_partition_limit, PARTITIONS_MAX), 1)
    response = DescribeTopicPartitionsResponse()
    topics: list[Described] = []
    response.topics = topics
    while names:
        _, name = heappop(names)
        if not left:
            response.next_cursor = Cursor(name)
            break
        topic = image.topics.get(name)
        operations = authorized_operations(authorizer, call, ResourceType.TOPIC, name)
        if topic is None:
            topics.append(_absent(name, operations))
            yield
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        partitions = topic.partitions[first : first + left]
        topics.append((yield from _describe(topic, first, partitions, operations)))
        left -= len(partitions)
        if first + len(partitions) < len(topic.partitions):
            response.next_cursor = Cursor(name, first + len(partitions))
            break
    # As in Kafka, they come last on every page.
    topics += refused
    return response


def _names(
    image: MetadataImage, request: DescribeTopicPartitionsRequest, authorizer: Authorizer, call: Call
) -> Work[tuple[list[tuple[bytes, str]], list[Described]]]:
    """Return the topics from the cursor onwards as a heap, in Java's string order, and those that are refused.

    A topic that the client may not describe is refused if the client asks for it, and otherwise left out.
    """
    cursor = request.cursor
    names = dict.fromkeys(topic.name for topic in request.topics) if request.topics else image.topics
    if cursor is not None and cursor.partition_index < 0:
        reason = f"partition {cursor.partition_index} of topic {cursor.topic_name} in the cursor is not valid"
        raise BrokerError(ErrorCode.INVALID_REQUEST, reason)
    if cursor is not None and request.topics and cursor.topic_name not in names:
        reason = f"topic {cursor.topic_name} in the cursor is not among the requested topics"
        raise BrokerError(ErrorCode.INVALID_REQUEST, reason)
    start = b"" if cursor is None else _sort_key(cursor.topic_name)
    heap: list[tuple[bytes, str]] = []
    refused = []
    for name in names:
        if (key := _sort_key(name)) >= start:
            if authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
                heappush(heap, (key, name))
            elif request.topics:
                refused.append(Described(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name))
        yield
    return heap, refused


def _sort_key(name: str) -> bytes:
    """Return a key that sorts strings as Java does."""
    return name.encode("utf-16-be", "surrogatepass")


def _absent(name: str, operations: int) -> Described:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_characters(name)
    except BrokerError as error:
        code = error.code
    is_internal = name in INTERNAL_TOPICS
    return Described(code, name, is_internal=is_internal, topic_authorized_operations=operations)


def _describe(topic: TopicImage, first: int, partitions: Sequence[PartitionImage], operations: int) -> Work[Described]:
    described: list[Partition] = []
    for number, partition in enumerate(partitions, first):
        if partition is UNKNOWN_PARTITION:
            yield
            continue
        described.append(
            Partition(
                partition_index=number,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                eligible_leader_replicas=partition.eligible_leader_replicas,
                last_known_elr=partition.last_known_elr,
                offline_replicas=partition.offline_replicas,
            )
        )
        yield
    return Described(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=described,
        topic_authorized_operations=operations,
    )
