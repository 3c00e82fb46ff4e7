"""Find the replicas that are eligible as leaders without being in sync, which Metadata does not list.

DescribeTopicPartitions answers in pages. A page with nothing new is rejected, since paging might otherwise never end.

Source: KIP-966.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.client.operations import NO_SUCH_TOPIC, Operations
from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.routing.call import ANY_BROKER
from kafkawire.sdk.routing.metadata import Partition, Topic
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.requests import check

__all__ = ["with_eligible_leaders"]

Described = messages.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


async def with_eligible_leaders(operations: Operations, topics: Mapping[str, Topic]) -> dict[str, Topic]:
    """Return topics with the eligible leaders of their partitions.

    Args:
        operations: sends the requests.
        topics: the topics, keyed by name.

    Raises:
        BrokerError: a topic no longer exists, or this user is not allowed to describe it.
        RemoteProtocolError: a page does not name any new partitions.
        UnsupportedVersion: the broker is older than Apache Kafka 3.8 or uses ZooKeeper.
    """
    kind = messages.DescribeTopicPartitionsRequest
    deadline_ms = operations.attempts().deadline_ms
    found: dict[TopicPartition, Described] = {}
    request = kind([kind.TopicRequest(name) for name in topics])
    is_done = not topics
    while not is_done:
        response = await operations.request(
            ANY_BROKER,
            versioned(request),
            messages.DescribeTopicPartitionsResponse,
            _check,
            deadline_ms=deadline_ms,
            final=NO_SUCH_TOPIC,
        )
        known = len(found)
        for topic in response.topics:
            for each in topic.partitions:
                found[TopicPartition(topic.name or "", each.partition_index)] = each
        after = response.next_cursor
        is_done = after is None
        if after is not None:
            if len(found) == known:
                where = TopicPartition(after.topic_name, after.partition_index)
                raise RemoteProtocolError(f"the DescribeTopicPartitions page before {where} lists no new partition")
            cursor = kind.Cursor(after.topic_name, after.partition_index)
            request = kind(request.topics, request.response_partition_limit, cursor)
    return {
        name: topic._replace(
            partitions={
                number: _with(partition, found.get(TopicPartition(name, number)))
                for number, partition in topic.partitions.items()
            }
        )
        for name, topic in topics.items()
    }


def _check(response: messages.DescribeTopicPartitionsResponse) -> None:
    for topic in response.topics:
        check(topic.error_code, f"topic {topic.name}")


def _with(partition: Partition, described: Described | None) -> Partition:
    if described is None:  # the topic was added in the meantime
        return partition
    return partition._replace(
        eligible_leaders=_nodes(described.eligible_leader_replicas),
        last_known_eligible_leaders=_nodes(described.last_known_elr),
    )


def _nodes(given: Iterable[int] | None) -> tuple[int, ...] | None:
    return None if given is None else tuple(given)
