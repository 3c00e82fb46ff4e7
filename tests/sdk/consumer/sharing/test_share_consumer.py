"""The share consumer hands out records and acknowledges them, on any event loop, and its end is orderly.

Method: use a share consumer of a scripted broker in memory that checks sessions and locks as Kafka's do.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import warnings
from typing import Any

import pytest

from kafkawire.sdk.consumer.sharing.acquisitions import AcknowledgeOutcome
from kafkawire.sdk.consumer.sharing.delivery import ShareDelivery, ShareDeliveryState
from kafkawire.sdk.consumer.sharing.share_consumer import ShareConsumer
from kafkawire.sdk.errors import (
    BrokerError,
    Closed,
    ConfigurationError,
    DeserializationFailed,
    LocalProtocolError,
    UnsupportedVersion,
)
from kafkawire.sdk.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport.fork import Forked
from tests.sdk.consumer.sharing.share_consuming import QUICK, SharingBroker, consume, sharing
from tests.sdk.scripted_broker import BROKER

Consumer = ShareConsumer[Any, Any]
Delivery = ShareDelivery[Any, Any]

EXPLICIT: dict[str, Any] = {"share_acknowledgement_mode": "explicit"}
T0 = TopicPartition("t", 0)
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


def test_iteration_accepts_record_by_record() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        found = await consume(consumer, 4)
        assert [each.record.value for each in found] == [b"0", b"1", b"2", b"3"]
        outcomes = await consumer.commit()
        assert [(each.partition, each.offsets, each.error) for each in outcomes] == [(T0, (0, 1, 2, 3), None)]
        await consume(consumer, 2)

    broker = sharing(test)
    assert broker.acknowledged(ACCEPT) == [0, 1, 2, 3, 4, 5], "leaving the block accepts what was handed out"
    assert broker.shares.sessions == {}
    assert broker.epochs == {}


def test_an_error_that_leaves_the_block_releases_the_records() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        await consume(consumer, 3)
        raise RuntimeError("processing failed")

    made: list[SharingBroker] = []

    async def kept(broker: SharingBroker, consumer: Consumer) -> None:
        made.append(broker)
        await test(broker, consumer)

    with pytest.raises(RuntimeError, match="processing failed"):
        sharing(kept)
    assert made[0].acknowledged(ACCEPT) == [0, 1], "the third was not finished"
    assert made[0].shares.held == {}


def test_closing_releases_what_was_handed_out() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        await consume(consumer, 1)
        await consumer.close()
        assert broker.acknowledged(ACCEPT) == []
        await consumer.close()
        with pytest.raises(Closed):
            await consumer.getmany()
        with pytest.raises(Closed):
            await consumer.start()
        with pytest.raises(Closed):
            aiter(consumer)

    sharing(test)


def test_lists() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        found = await consumer.getmany(2_000, 3)
        assert [each.record.offset for each in found[T0]] == [0, 1, 2]
        assert [each.record.offset for each in (await consumer.getmany())[T0]] == [3, 4, 5, 6, 7, 8, 9]
        assert await consumer.getmany(20) == {}
        with pytest.raises(LocalProtocolError, match="max_records: expected 1 to"):
            await consumer.getmany(0, 0)
        with pytest.raises(LocalProtocolError, match="timeout_ms"):
            await consumer.getmany(-1)

    sharing(test)


def test_polling_without_a_wait_finds_records_in_the_end() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        async with asyncio.timeout(10):
            while not (found := await consumer.getmany()):
                await asyncio.sleep(0)
        assert len(found[T0]) == 10

    sharing(test)


def test_blocks_acknowledge_by_their_outcome() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        offset = -1
        async for delivery in consumer:
            offset = delivery.record.offset
            try:
                async with delivery:
                    if offset == 1:
                        raise ValueError("never valid")
                    if offset == 2 and delivery.delivery_count == 1:
                        raise TimeoutError("try again")
            except (ValueError, TimeoutError):
                continue
            if delivery.delivery_count == 2:
                break
        assert offset == 2, "the released record was delivered again"

    broker = sharing(test, **EXPLICIT, reject_on=ValueError)
    assert broker.acknowledged(ACCEPT) == [0, 3, 4, 5, 6, 7, 8, 9, 2]
    assert (broker.acknowledged(REJECT), broker.acknowledged(RELEASE)) == ([1], [2])


def test_deliveries_are_processed_side_by_side() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        going = asyncio.Event()

        async def process(delivery: Delivery) -> None:
            async with delivery:
                await going.wait()

        async with asyncio.TaskGroup() as group:
            for delivery in await consume(consumer, 10):
                group.create_task(process(delivery))
            assert broker.acknowledged(ACCEPT) == []
            going.set()
        await consumer.commit()

    assert sorted(sharing(test, **EXPLICIT).acknowledged(ACCEPT)) == list(range(10))


def test_renewing() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        (delivery,) = await consume(consumer, 1)
        assert consumer.acquisition_lock_timeout_ms == 30_000
        broker.shares.lock_ms = 60_000
        await delivery.renew()
        assert 30_000 < delivery.lock_left_ms <= 60_000
        delivery.accept()
        broker.shares.held.clear()
        (outcome,) = await consumer.commit()
        assert isinstance(outcome.error, BrokerError)
        assert delivery.state is ShareDeliveryState.LOST

    broker = sharing(test, **EXPLICIT)
    assert broker.acknowledged(AcknowledgeType.RENEW) == [0]


def test_a_cancelled_commit_and_a_cancelled_read_lose_nothing() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        found = await consume(consumer, 10)
        for delivery in found:
            delivery.accept()
        committing = asyncio.create_task(consumer.commit())
        await asyncio.sleep(0)
        committing.cancel()
        reading = asyncio.create_task(consumer.getmany(5_000))
        await asyncio.sleep(0)
        reading.cancel()
        broker.fill(b"10", b"11")
        assert [each.record.value for each in await consume(consumer, 2)] == [b"10", b"11"]

    broker = sharing(test, **EXPLICIT)
    assert broker.acknowledged(ACCEPT) == list(range(10))
    assert broker.shares.refused == []


def test_outcomes_are_reported() -> None:
    outcomes: list[AcknowledgeOutcome] = []

    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        await consume(consumer, 2)

    sharing(test, on_acknowledged=outcomes.append)
    assert sorted(offset for each in outcomes for offset in each.offsets) == [0, 1]


def test_deserializers() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        broker.fill(b"x", b"11")
        assert [each.record.value for each in await consume(consumer, 10)] == list(range(10))
        with pytest.raises(DeserializationFailed) as failed:
            await consume(consumer, 1)
        consumer.reject(failed.value)
        assert [each.record.value for each in await consume(consumer, 1)] == [11]
        with pytest.raises(LocalProtocolError, match="expected a DeserializationFailed"):
            consumer.reject(ValueError("x"))  # type: ignore[arg-type]  # wrong

    broker = sharing(test, value_deserializer=int)
    assert broker.acknowledged(REJECT) == [10]


def test_subscribing() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        broker.fill(b"u", topic="u")
        assert consumer.subscription == {"t"}
        await consumer.subscribe(["u"])
        assert [each.record.topic for each in await consume(consumer, 1)] == ["u"]
        with pytest.raises(LocalProtocolError, match="expected topics"):
            await consumer.subscribe()
        with pytest.raises(LocalProtocolError):
            await consumer.subscribe("no such name!")

    sharing(test)


def test_without_topics() -> None:
    async def run() -> None:
        broker = SharingBroker()
        broker.fill(b"a")
        async with ShareConsumer(str(BROKER), network=broker.network, **QUICK) as consumer:
            with pytest.raises(LocalProtocolError, match="subscribe to topics"):
                await consumer.getmany()
            await consumer.subscribe("t")
            assert len(await consume(consumer, 1)) == 1

    asyncio.run(run())


def test_a_topic_that_may_not_be_read() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        broker.shares.fetch_faults[next(iter(broker.shares.batches))] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED: share fetch from t-0"):
            await consume(consumer, 1)
        assert len(await consume(consumer, 10)) == 10

    sharing(test)


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_VERSION, None])
def test_a_cluster_without_share_groups(code: ErrorCode | None) -> None:
    async def run() -> None:
        broker = SharingBroker()
        if code is None:
            del broker.supported[ApiKey.SHARE_GROUP_HEARTBEAT]
        broker.responders[ApiKey.SHARE_GROUP_HEARTBEAT] = lambda request: ShareGroupHeartbeatResponse(
            error_code=code or 0
        )
        async with ShareConsumer(str(BROKER), "t", network=broker.network, **QUICK) as consumer:
            with pytest.raises(UnsupportedVersion, match="group g: the cluster does not support share groups"):
                await consume(consumer, 1)

    asyncio.run(run())


def test_several_tasks_share_the_records() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        async def read() -> list[int]:
            found = []
            async for delivery in consumer:
                found.append(delivery.record.offset)
                await asyncio.sleep(0)
            return found

        readers = [asyncio.create_task(read()) for _ in range(3)]
        async with asyncio.timeout(10):
            while len(broker.shares.done) < 9:
                await asyncio.sleep(0)
        await consumer.close()
        found = [offset for each in readers for offset in await each]
        assert sorted(found) == list(range(10))

    sharing(test)


def test_iteration_is_fair_to_other_tasks() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        broker.fill(*[b"x"] * 3_000)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        async for delivery in consumer:
            for _ in range(100):
                repr(delivery)  # some work
            if delivery.record.offset >= 3_000:
                break
        counting.cancel()
        assert turns > 5

    sharing(test, max_poll_records=5_000)


def test_the_thread_for_io() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        assert len(await consume(consumer, 10)) == 10
        assert [each.error for each in await consumer.commit()] == [None]

    sharing_in_thread(test)


def sharing_in_thread(test: Any) -> None:
    """Run a test with a client on an I/O thread, and the broker's connections there as well."""
    sharing(test, io="thread")


def test_metrics_and_names() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        await consume(consumer, 1)
        found = {name.name: value for name, value in consumer.metrics().items() if "share" in name.group}
        assert found["records-consumed-total"] == 10
        assert found["rebalance-total"] == 1
        assert found["last-poll-seconds-ago"] >= 0
        assert consumer.client_id == "kafkawire"
        assert repr(consumer) == "<ShareConsumer of broker:9092, client_id='kafkawire', group_id='g', started>"
        with pytest.raises(TypeError, match="a share consumer in use cannot be copied or pickled"):
            pickle.dumps(consumer)
        with pytest.raises(LocalProtocolError, match="already started"):
            await consumer.start()

    sharing(test)
    consumer = ShareConsumer("a", "t", group_id="g")
    assert repr(consumer).endswith("new>")
    with pytest.raises(Closed):
        consumer.metrics()
    assert consumer.acquisition_lock_timeout_ms is None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "group_id=None: a value is needed"),
        ({"group_id": ""}, "expected a name that is not empty"),
        ({"group_id": "g", "reject_on": "ValueError"}, "expected an exception class"),
        ({"group_id": "g", "reject_on": (ValueError, 3)}, "expected an exception class"),
        ({"group_id": "g", "on_acknowledged": 3}, "expected a callable"),
        ({"group_id": "g", "value_deserializer": 3}, "expected a callable"),
        ({"group_id": "g", "share_acknowledgement_mode": "auto"}, "expected one of"),
        ({"group_id": "g", "isolation_level": "read_committed"}, "is an option of Consumer"),
    ],
)
def test_arguments(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        ShareConsumer("a", "t", **given)


def test_a_dropped_consumer_leaves_its_group() -> None:
    async def run() -> None:
        broker = SharingBroker()
        broker.fill(b"a")
        consumer: Consumer | None = ShareConsumer(str(BROKER), "t", network=broker.network, **QUICK)
        assert consumer is not None
        await consumer.start()
        await consume(consumer, 1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del consumer
            gc.collect()
        assert "unclosed share consumer 'kafkawire' of group 'g'" in str(caught[-1].message)
        async with asyncio.timeout(10):
            while broker.epochs or broker.shares.sessions:
                await asyncio.sleep(0)

    asyncio.run(run())


def test_a_forked_child_refuses_everything() -> None:
    async def test(broker: SharingBroker, consumer: Consumer) -> None:
        (delivery,) = await consume(consumer, 1)
        child = os.fork()
        if not child:
            is_refused = 0
            try:
                delivery.accept()
            except Forked:
                is_refused += 1
            try:
                await consume(consumer, 1)
            except Forked:
                is_refused += 1
            os._exit(is_refused)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 2

    sharing(test, **EXPLICIT)
