"""A consumer in a group commits finished records, calls its listener, and survives whatever its group does.

Method: run the whole consumer against a scripted in-memory broker whose group has only this member.
"""

from __future__ import annotations

import asyncio

import pytest

from kafkawire.sdk.consumer.consumer import Consumer
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatResponse
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.consumer.consuming import QUICK, T, consuming, read, values
from tests.sdk.scripted_broker import BROKER, StoringBroker, topic_id_of


def test_a_group_shares_and_commits_what_was_finished() -> None:
    """Records read before the program leaves the loop are committed on close."""

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await read(consumer, 12)
        assert consumer.assignment == {T}

    broker = consuming(test, group_id="g")
    assert broker.commits == {("g", "t", 0): 12}
    assert len(broker.asked(ApiKey.LEAVE_GROUP)) == 1


def test_the_record_at_which_the_application_failed_is_not_committed() -> None:
    broker = StoringBroker({"t": 1})
    broker.fill("t", *values(10))

    async def run() -> None:
        given = {**QUICK, "group_id": "g"}
        async with Consumer(str(BROKER), "t", network=broker.network, **given) as consumer:
            async for record in consumer:
                if record.offset == 4:
                    raise RuntimeError("cannot work on this")

    with pytest.raises(RuntimeError, match="cannot work"):
        asyncio.run(run())
    assert broker.commits == {("g", "t", 0): 4}


def test_a_group_continues_from_its_commits() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await read(consumer, 12)
        await consumer.commit()
        assert broker.commits == {("g", "t", 0): 12}
        assert await consumer.committed(T) == {T: OffsetAndMetadata(12)}
        given = {**QUICK, "group_id": "g"}
        async with Consumer(str(BROKER), "t", network=broker.network, **given) as other:
            assert [record.value for record in await read(other, 2)] == values(2, 12)

    consuming(test, group_id="g", enable_auto_commit=False)


def test_commit_of_given_offsets() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await read(consumer, 1)
        await consumer.commit({T: 7})
        assert broker.commits == {("g", "t", 0): 7}

    broker = consuming(test, group_id="g", enable_auto_commit=False)
    assert broker.commits == {("g", "t", 0): 7}


def test_auto_commit_in_between() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await read(consumer, 5)
        while broker.commits.get(("g", "t", 0), 0) < 5:  # on a slow machine, some of the five are committed earlier
            await consumer.getmany(5, 1)
        assert await consumer.position(TopicPartition("t", 0)) >= broker.commits["g", "t", 0] >= 5

    consuming(test, group_id="g", auto_commit_interval_ms=1)


def test_the_listener_hears_of_assigned_and_revoked_partitions() -> None:
    told: list[tuple[str, frozenset[TopicPartition]]] = []

    class Listener:
        async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            told.append(("assigned", partitions))

        def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
            told.append(("revoked", partitions))

        def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
            told.append(("lost", partitions))

    async def run() -> None:
        broker = StoringBroker({"t": 1})
        broker.fill("t", *values(30))
        given = {**QUICK, "group_id": "g", "heartbeat_interval_ms": 1}
        consumer = Consumer(str(BROKER), "t", network=broker.network, listener=Listener(), **given)
        async with consumer:
            await read(consumer, 3)
            for code, rounds in ((ErrorCode.REBALANCE_IN_PROGRESS, 2), (ErrorCode.UNKNOWN_MEMBER_ID, 3)):
                broker.script(ApiKey.HEARTBEAT, lambda request, code=code: HeartbeatResponse(error_code=code))
                while broker.generation < rounds or not consumer.assignment:
                    await asyncio.sleep(0)
            # The third record was handed out but never marked as finished.
            assert [record.value for record in await read(consumer, 2)] == values(2, 2)
        assert broker.commits == {("g", "t", 0): 4}

    asyncio.run(run())
    assert [event for event, _ in told] == ["assigned", "revoked", "assigned", "lost", "assigned", "revoked"]
    assert {partitions for _, partitions in told} == {frozenset({T})}


def test_a_listener_that_fails() -> None:
    class Listener:
        def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            raise RuntimeError("the listener failed")

        on_revoked = on_lost = on_assigned

    async def run() -> None:
        broker = StoringBroker({"t": 1})
        given = {**QUICK, "group_id": "g", "enable_auto_commit": False}
        consumer = Consumer(str(BROKER), "t", network=broker.network, listener=Listener(), **given)
        await consumer.start()
        with pytest.raises(RuntimeError, match="the listener failed"):
            await read(consumer, 1)
        with pytest.raises(RuntimeError, match="the listener failed"):
            await consumer.close()

    asyncio.run(run())


def test_a_group_that_refuses_the_member() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED: JoinGroup in group g"):
            await read(consumer, 1)

    async def run() -> None:
        broker = StoringBroker({"t": 1})
        broker.responders[ApiKey.JOIN_GROUP] = lambda request: JoinGroupResponse(
            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
        given = {**QUICK, "group_id": "g"}
        async with Consumer(str(BROKER), "t", network=broker.network, **given) as consumer:
            await test(broker, consumer)

    asyncio.run(run())


def test_a_commit_that_comes_too_late() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await read(consumer, 3)

        def refuse(request: Request) -> OffsetCommitResponse:
            kind = OffsetCommitResponse.OffsetCommitResponsePartition
            partitions = [kind(0, ErrorCode.ILLEGAL_GENERATION)]
            return OffsetCommitResponse(
                topics=[OffsetCommitResponse.OffsetCommitResponseTopic("", topic_id_of("t"), partitions)]
            )

        broker.script(ApiKey.OFFSET_COMMIT, refuse)
        with pytest.raises(BrokerError, match="ILLEGAL_GENERATION: commit of t-0 in group g"):
            await consumer.commit()
        while broker.generation < 2:
            await asyncio.sleep(0)

    consuming(test, group_id="g", enable_auto_commit=False)


def test_a_member_that_does_not_read_leaves_and_comes_back() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await read(consumer, 3)
        while consumer.assignment or not broker.asked(ApiKey.LEAVE_GROUP):
            await asyncio.sleep(0)
        broker.commits["g", "t", 0] = 3
        assert [record.value for record in await read(consumer, 1)] == values(1, 3)
        assert len(broker.asked(ApiKey.LEAVE_GROUP)) == 1
        assert broker.generation == 2

    consuming(test, group_id="g", heartbeat_interval_ms=1, max_poll_interval_ms=200, enable_auto_commit=False)


def test_subscribe_to_other_topics() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await read(consumer, 1)
        broker.fill("m", b"other", partition=2)
        await consumer.subscribe("m")
        assert [record.value for record in await read(consumer, 1)] == [b"other"]
        last = broker.asked(ApiKey.JOIN_GROUP)[-1]
        assert isinstance(last, JoinGroupRequest)
        assert b"m" in bytes(last.protocols[0].metadata)

    consuming(test, group_id="g")
