"""DescribeTopicPartitions: topics by name, page by page, with the replicas that may become leaders.

0: the only version (KIP-966).

A page ends after so many partitions; topics that do not exist do not count. The cursor of the next page may name a
topic that is gone by then, unless the client names topics itself.
"""

from __future__ import annotations

from heapq import heappop, heappush

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.internal_topics import INTERNAL_TOPICS
from kafkawire.reference_broker.metadata.new_topics import check_characters
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorized_operations import TOPIC_OPERATIONS
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory, Topic
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["PARTITIONS_MAX", "handle"]

#: Most partitions of a page, Kafka's `max.request.partition.size.limit`.
PARTITIONS_MAX = 2_000

Cursor = DescribeTopicPartitionsResponse.Cursor
Described = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


@serves(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def handle(
    call: Call, request: DescribeTopicPartitionsRequest, *, directory: LogDirectory, options: BrokerOptions
) -> Work[DescribeTopicPartitionsResponse]:
    """Handle DescribeTopicPartitions.

    Raises:
        BrokerError: INVALID_REQUEST, the cursor names no partition, or a topic that is not asked about.
    """
    cursor = request.cursor
    names = yield from _names(directory, request)
    left = max(min(request.response_partition_limit, PARTITIONS_MAX), 1)
    response = DescribeTopicPartitionsResponse()
    topics: list[Described] = []
    response.topics = topics
    while names:
        _, name = heappop(names)
        if not left:
            response.next_cursor = Cursor(name)
            break
        topic = directory.topics.get(name)
        if topic is None:
            if request.topics:  # otherwise it was deleted meanwhile
                topics.append(_absent(name))
            yield
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        logs = topic.logs[first : first + left]
        topics.append((yield from _describe(options, topic, first, logs)))
        left -= len(logs)
        if first + len(logs) < len(topic.logs):
            response.next_cursor = Cursor(name, first + len(logs))
            break
    return response


def _names(directory: LogDirectory, request: DescribeTopicPartitionsRequest) -> Work[list[tuple[bytes, str]]]:
    """Return the topics from the cursor on as a heap, in the order in which Java sorts them."""
    cursor = request.cursor
    names = dict.fromkeys(topic.name for topic in request.topics) if request.topics else tuple(directory.topics)
    if cursor is not None and cursor.partition_index < 0:
        reason = f"the cursor is at partition {cursor.partition_index} of {cursor.topic_name}"
        raise BrokerError(ErrorCode.INVALID_REQUEST, reason)
    if cursor is not None and request.topics and cursor.topic_name not in names:
        reason = f"the cursor is at {cursor.topic_name}, which is not among the topics"
        raise BrokerError(ErrorCode.INVALID_REQUEST, reason)
    start = b"" if cursor is None else _sort_key(cursor.topic_name)
    heap: list[tuple[bytes, str]] = []
    for name in names:
        if (key := _sort_key(name)) >= start:
            heappush(heap, (key, name))
        yield
    return heap


def _sort_key(name: str) -> bytes:
    """Return what Java compares of a text."""
    return name.encode("utf-16-be", "surrogatepass")


def _absent(name: str) -> Described:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_characters(name)
    except BrokerError as error:
        code = error.code
    is_internal = name in INTERNAL_TOPICS
    return Described(code, name, is_internal=is_internal, topic_authorized_operations=TOPIC_OPERATIONS)


def _describe(options: BrokerOptions, topic: Topic, first: int, logs: list[PartitionLog]) -> Work[Described]:
    partitions: list[Partition] = []
    for number, log in enumerate(logs, first):
        partitions.append(_partition(options, number, log))
        yield
    return Described(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(options: BrokerOptions, number: int, log: PartitionLog) -> Partition:
    """Describe a partition; the last replica in sync may lead again when its disk is back, as in Kafka."""
    node, offline = (options.node_id,), log.is_offline
    return Partition(
        partition_index=number,
        leader_id=NO_LEADER_ID if offline else options.node_id,
        leader_epoch=log.leader_epoch,
        replica_nodes=node,
        isr_nodes=() if offline else node,
        eligible_leader_replicas=node if offline else (),
        last_known_elr=node if offline else (),
        offline_replicas=node if offline else (),
    )
