"""Records are deleted, and offsets looked up, at the leaders; each partition has an outcome of its own.

Method: call scripted in-memory brokers with hand-built responses. test_places.py covers leaders that move.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire import OffsetTimestamp
from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import IsolationLevel
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndTimestamp, TopicPartition
from tests.sdk.admin.administering import REQUEST_TIMEOUT_MS, Pair, administering
from tests.sdk.scripted_broker import StoringBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

Deleted = messages.DeleteRecordsResponse
Listed = messages.ListOffsetsResponse


def deleted(**outcomes: tuple[int, int]) -> Deleted:
    """Return a response with the first offset and the error code of partitions of t, keyed by `p0` and so on."""
    kind = Deleted.DeleteRecordsPartitionResult
    results = [kind(int(number[1:]), *outcome) for number, outcome in outcomes.items()]
    return Deleted(topics=[Deleted.DeleteRecordsTopicResult("t", results)])


def listed(*codes: int) -> Listed:
    kind = Listed.ListOffsetsPartitionResponse
    results = [kind(number, code, 1_000 + number, number, 7) for number, code in enumerate(codes)]
    return Listed(topics=[Listed.ListOffsetsTopicResponse("t", results)])


def test_records_are_deleted() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DELETE_RECORDS] = lambda request: deleted(
            p0=(5, 0), p1=(-1, ErrorCode.OFFSET_OUT_OF_RANGE)
        )
        results = await admin.delete_records({T0: None, T1: 7})
        assert results.values == {T0: 5}
        assert str(results.errors[T1]) == "OFFSET_OUT_OF_RANGE: delete records of t-1"
        (request,) = broker.asked(ApiKey.DELETE_RECORDS)
        assert isinstance(request, messages.DeleteRecordsRequest)
        assert request.timeout_ms == REQUEST_TIMEOUT_MS
        (topic,) = request.topics
        assert [(each.partition_index, each.offset) for each in topic.partitions] == [(0, -1), (1, 7)]

    administering(test)


def test_only_partitions_that_may_succeed_are_sent_again() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.script(
            ApiKey.DELETE_RECORDS,
            lambda request: deleted(p0=(-1, ErrorCode.REQUEST_TIMED_OUT), p1=(4, 0)),
            lambda request: deleted(p0=(3, 0)),
        )
        assert (await admin.delete_records({T0: 3, T1: 4})).all() == {T0: 3, T1: 4}
        asked: list[Any] = list(broker.asked(ApiKey.DELETE_RECORDS))
        assert [[each.partition_index for each in request.topics[0].partitions] for request in asked] == [[0, 1], [0]]

    administering(test)


def test_a_response_that_lacks_a_partition() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DELETE_RECORDS] = lambda request: deleted(p0=(3, 0))
        results = await admin.delete_records({T0: 3, T1: 4})
        assert str(results.errors[T1]) == "the response to DeleteRecords lacks partition t-1"

    administering(test)


def test_the_error_has_the_other_offsets() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.LIST_OFFSETS] = lambda request: listed(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(BrokerError, match=r"^TOPIC_AUTHORIZATION_FAILED: offset of t-1$") as caught:
            await admin.list_offsets({T1: 1, T0: 1})
        assert caught.value.results is not None
        assert caught.value.results.values == {T0: OffsetAndTimestamp(0, 1_000, 7)}
        assert [*caught.value.results.errors] == [T1]

    administering(test)


@pytest.mark.parametrize("level", [IsolationLevel.READ_COMMITTED, "read_committed"])
def test_the_isolation_level(level: Any) -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        await admin.list_offsets({T0: OffsetTimestamp.LATEST})
        await admin.list_offsets({T0: OffsetTimestamp.LATEST}, isolation_level=level)
        asked: list[Any] = list(broker.asked(ApiKey.LIST_OFFSETS))
        assert [request.isolation_level for request in asked] == [0, 1]

    administering(test)


def test_a_leader_that_does_not_know_a_special_timestamp() -> None:
    """The other partitions of the same leader are looked up."""

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.LIST_OFFSETS] = lambda request: listed(0)
        with pytest.raises(Exception, match=r"offset MAX_TIMESTAMP of t-1 needs ListOffsets version 7") as caught:
            await admin.list_offsets({T0: 5, T1: OffsetTimestamp.MAX_TIMESTAMP})
        assert caught.value.results.values == {T0: OffsetAndTimestamp(0, 1_000, 7)}  # type: ignore[attr-defined]  # of kafkawire
        (request,) = broker.asked(ApiKey.LIST_OFFSETS)
        assert isinstance(request, messages.ListOffsetsRequest)
        assert [each.partition_index for each in request.topics[0].partitions] == [0]

    administering(test, {ApiKey.LIST_OFFSETS: 6})


def test_one_leader_is_down() -> None:
    pair = Pair()
    pair.leaders = {T0: 1, T1: 2}
    pair.brokers[2].stop()
    pair.brokers[1].network.servers.pop(Pair.ADDRESSES[2])
    pair.brokers[1].responders[ApiKey.LIST_OFFSETS] = lambda request: listed(0)

    async def test(admin: Admin) -> None:
        with pytest.raises(Exception, match=r"node 2|second:9092") as caught:
            await admin.within(100).list_offsets({T0: 5, T1: 5})
        assert [*caught.value.results.values] == [T0]  # type: ignore[attr-defined]  # of kafkawire

    pair.administering(test)
