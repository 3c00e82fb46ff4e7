"""The eligible leaders of all partitions are read page by page, and only on request.

Method: call a scripted in-memory broker with hand-built responses. test_releases.py covers brokers that are too old.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.metadata import Partition
from tests.sdk.admin.administering import administering
from tests.sdk.scripted_broker import StoringBroker

KEY = ApiKey.DESCRIBE_TOPIC_PARTITIONS
Cursor = DescribeTopicPartitionsResponse.Cursor


def page(number: int, eligible: list[int] | None, after: Cursor | None) -> DescribeTopicPartitionsResponse:
    """Return a page with one partition of the topic t."""
    described = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition(
        partition_index=number, eligible_leader_replicas=eligible, last_known_elr=eligible and [9]
    )
    topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic(name="t", partitions=[described])
    return DescribeTopicPartitionsResponse(topics=[topic], next_cursor=after)


def test_every_page_is_read() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.script(KEY, lambda request: page(0, [3, 2], Cursor("t", 1)), lambda request: page(1, None, None))
        topics = await admin.describe_topics("t", include_eligible_leaders=True)
        assert topics["t"].partitions == {
            0: Partition(1, 0, (1,), (1,), eligible_leaders=(3, 2), last_known_eligible_leaders=(9,)),
            1: Partition(1, 0, (1,), (1,)),
        }
        asked = []
        for request in broker.asked(KEY):
            assert isinstance(request, DescribeTopicPartitionsRequest)
            assert [topic.name for topic in request.topics] == ["t"]
            asked.append(request.cursor and (request.cursor.topic_name, request.cursor.partition_index))
        assert asked == [None, ("t", 1)]

    administering(test)


def test_nothing_is_asked_for_nothing() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        assert await admin.describe_topics([], include_eligible_leaders=True) == {}
        assert (await admin.describe_topics("t"))["t"].partitions[0].eligible_leaders is None
        assert not broker.asked(KEY)

    administering(test)


def test_pages_that_never_end() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[KEY] = lambda request: page(0, [], Cursor("t", 1))
        with pytest.raises(RemoteProtocolError, match="the DescribeTopicPartitions page before t-1 lists no new"):
            await admin.describe_topics("t", include_eligible_leaders=True)
        assert len(broker.asked(KEY)) == 2

    administering(test)


def test_a_topic_that_was_deleted_in_between() -> None:
    def gone(request: Request) -> DescribeTopicPartitionsResponse:
        kind = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
        return DescribeTopicPartitionsResponse(topics=[kind(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t")])

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[KEY] = gone
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION: topic t"):
            await admin.describe_topics("t", include_eligible_leaders=True)
        assert len(broker.asked(KEY)) == 1

    administering(test)
