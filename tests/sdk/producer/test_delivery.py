"""A delivery returns where its record is stored, or raises its error, whenever and however often it is awaited.

Method: batches built by hand are settled before and after a delivery is awaited.
"""

from __future__ import annotations

import asyncio
import traceback

import pytest

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.errors import BrokerError, Closed, KafkaWireError
from kafkawire.sdk.producer.accumulator import ProducerBatch
from kafkawire.sdk.producer.delivery import Delivery, RecordMetadata, settled
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import BatchBuilder


def new_batch() -> ProducerBatch:
    """Return an unsettled batch."""
    return ProducerBatch(1, TopicPartition("t", 3), BatchBuilder(), 0)


def settle(batch: ProducerBatch, base_offset: int = -1, log_append_time_ms: int = -1) -> None:
    """End a batch as the accumulator does."""
    batch.base_offset, batch.log_append_time_ms, batch.done = base_offset, log_append_time_ms, True
    for call in batch.on_done:
        call()


@pytest.mark.parametrize(
    ("base_offset", "log_append_time_ms", "expected"),
    [(10, -1, (12, 500)), (10, 700, (12, 700)), (0, 0, (2, 0)), (-1, -1, (-1, 500))],
)
def test_place(base_offset: int, log_append_time_ms: int, expected: tuple[int, int]) -> None:
    async def run() -> None:
        batch = new_batch()
        delivery = Delivery(batch, 2, 500)
        waiting = [asyncio.ensure_future(_result(delivery)) for _ in range(2)]
        await asyncio.sleep(0)
        assert not delivery.done
        settle(batch, base_offset, log_append_time_ms)
        assert delivery.done
        assert await asyncio.gather(*waiting) == [RecordMetadata("t", 3, *expected)] * 2
        assert await delivery == RecordMetadata("t", 3, *expected)
        assert batch.observed

    asyncio.run(run())


def test_error() -> None:
    async def run() -> None:
        batch = new_batch()
        batch.error = BrokerError(ErrorCode.MESSAGE_TOO_LARGE)
        settle(batch)
        batch.error.__cause__ = OSError("why")
        delivery = Delivery(batch, 0, 0)
        assert await tracebacks(delivery, OSError) == 1
        assert len(traceback.extract_tb(batch.error.__traceback__)) == 0

    asyncio.run(run())


def test_a_cancelled_waiter_does_not_disturb_the_others() -> None:
    async def run() -> None:
        batch = new_batch()
        delivery = Delivery(batch, 0, 0)
        first, second = (asyncio.ensure_future(_result(delivery)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        settle(batch, 5)
        assert (await second).offset == 5

    asyncio.run(run())


def test_a_record_whose_topic_is_not_known_yet() -> None:
    async def run() -> None:
        batch = new_batch()
        delivery = Delivery(None, 0, 500)
        waiting = asyncio.ensure_future(_result(delivery))
        await asyncio.sleep(0)
        delivery.place(batch, 1)
        assert batch.observed
        await asyncio.sleep(0)
        settle(batch, 10)
        assert await waiting == ("t", 3, 11, 500)

    asyncio.run(run())


def test_a_record_that_goes_nowhere() -> None:
    async def run() -> None:
        waited, unnoticed = Delivery(None, 0, 0), Delivery(None, 0, 0)
        waiting = asyncio.ensure_future(_result(waited))
        await asyncio.sleep(0)
        assert waited.refuse(Closed("closed"))
        assert not unnoticed.refuse(Closed("closed"))
        assert waited.done
        assert unnoticed.done
        for awaitable in (waiting, waited, unnoticed):
            with pytest.raises(Closed):
                await awaitable
        assert await tracebacks(waited) == await tracebacks(unnoticed) == 1

    asyncio.run(run())


def test_settled() -> None:
    async def run() -> None:
        batch = new_batch()
        waiting = asyncio.ensure_future(settled(batch))
        await asyncio.sleep(0)
        assert not waiting.done()
        settle(batch)
        await waiting
        await settled(batch)

    asyncio.run(run())


async def tracebacks(delivery: Delivery, cause: type[Exception] | None = None) -> int:
    """Await a delivery that fails 1,000 times; return how many lengths the tracebacks have."""
    lengths = set()
    for _ in range(1_000):
        with pytest.raises(KafkaWireError) as caught:
            await delivery
        lengths.add(len(traceback.extract_tb(caught.value.__traceback__)))
        assert cause is None or isinstance(caught.value.__cause__, cause)
    return len(lengths)


async def _result(delivery: Delivery) -> RecordMetadata:
    return await delivery
