"""Reads may be cancelled, fail or be cut short by `close` at any moment, but no record is lost or handed out twice.

Method: run the whole consumer against a scripted broker, with seeded cancellations and faults.
"""

from __future__ import annotations

import asyncio
import threading
from random import Random

import pytest

from kafkawire.sdk.consumer.consumer import Consumer
from kafkawire.sdk.errors import Closed, LocalProtocolError
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.event_loops import LOOP_KIND
from tests.sdk.scripted_broker import BROKER, StoringBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 2, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 1}
COUNT = 600


def filled() -> StoringBroker:
    """Return a broker with 600 records in two partitions, in batches of different sizes."""
    broker = StoringBroker({"t": 2})
    for partition in (0, 1):
        left = COUNT // 2
        size = 1
        while left:
            broker.fill("t", *[b"x"] * min(size, left), partition=partition)
            left -= min(size, left)
            size = size % 7 + 1
    return broker


def faulty(broker: StoringBroker, random: Random) -> None:
    """Make the broker fail now and then, with partition errors and broken connections."""
    usual = broker.responders[ApiKey.FETCH]

    def respond(request: Request) -> object:
        fate = random.random()
        if fate < 0.05:
            for link in list(broker.links):
                link.wire.close()
            return None
        response = usual(request)
        if fate < 0.15 and isinstance(response, FetchResponse):
            for topic in response.responses:
                for data in topic.partitions:
                    data.error_code, data.records = ErrorCode.NOT_LEADER_OR_FOLLOWER, b""
        return response

    broker.responders[ApiKey.FETCH] = respond  # type: ignore[assignment]  # any kind of response


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("way", ["getmany", "getbatches", "record"])
def test_cancels_and_faults(way: str, seed: int) -> None:
    random = Random(seed)
    found: list[tuple[int, int]] = []

    async def read(consumer: Consumer) -> None:
        if way == "getmany":
            for records in (await consumer.getmany(50, random.randint(1, 3))).values():
                found.extend((record.partition, record.offset) for record in records)
        elif way == "getbatches":
            for batch in await consumer.getbatches(50, 1):
                found.extend((record.partition, record.offset) for record in batch)
        else:
            record = await anext(aiter(consumer))
            found.append((record.partition, record.offset))

    async def run() -> None:
        broker = filled()
        faulty(broker, random)
        cancels = 0
        async with Consumer(str(BROKER), "t", network=broker.network, **QUICK) as consumer, asyncio.timeout(30):
            while len(found) < COUNT:
                task = asyncio.ensure_future(read(consumer))
                for _ in range(random.randint(0, 3)):
                    await asyncio.sleep(0)
                if random.random() < 0.5:
                    cancels += task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        assert cancels > 1 or LOOP_KIND == "eager"  # of about 20; an eager read that finds something ends at once

    asyncio.run(run())
    assert sorted(found) == [(partition, offset) for partition in (0, 1) for offset in range(COUNT // 2)]
    assert [each for each in found if each[0] == 0] == sorted(each for each in found if each[0] == 0)


def test_close_wakes_every_reader() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 2})
        consumer = Consumer(str(BROKER), "t", network=broker.network, **QUICK)
        await consumer.start()

        async def batches() -> int:
            return len([batch async for batch in consumer.batches()])

        iterations = [asyncio.ensure_future(batches()) for _ in range(2)]
        many = asyncio.ensure_future(consumer.getmany(60_000))
        record = asyncio.ensure_future(anext(aiter(consumer)))
        while len(broker.asked(ApiKey.FETCH)) < 3:
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await consumer.close()
            assert await asyncio.gather(*iterations) == [0, 0]
            with pytest.raises(Closed):
                await many
            with pytest.raises(StopAsyncIteration):
                await record

    asyncio.run(run())


def test_two_tasks_share_the_records() -> None:
    async def run() -> list[tuple[int, int]]:
        broker = filled()
        found: list[tuple[int, int]] = []
        async with Consumer(str(BROKER), "t", network=broker.network, **QUICK) as consumer, asyncio.timeout(30):

            async def iterate() -> None:
                async for record in consumer:
                    found.append((record.partition, record.offset))
                    await asyncio.sleep(0)

            tasks = [asyncio.ensure_future(iterate()) for _ in range(3)]
            while len(found) < COUNT:
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return found

    found = asyncio.run(run())
    assert sorted(found) == [(partition, offset) for partition in (0, 1) for offset in range(COUNT // 2)]


def test_the_position_of_a_partition_that_is_taken_away_meanwhile() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 2})
        broker.responders[ApiKey.LIST_OFFSETS] = lambda request: None
        async with Consumer(str(BROKER), network=broker.network, **QUICK) as consumer:
            consumer.assign([T0, T1])
            waiting = asyncio.ensure_future(consumer.position(T0))
            while not broker.asked(ApiKey.LIST_OFFSETS):
                await asyncio.sleep(0)
            consumer.assign([T1])
            async with asyncio.timeout(5):
                with pytest.raises(LocalProtocolError, match="t-0 is not assigned"):
                    await waiting

    asyncio.run(run())


def test_close_keeps_its_limit_against_a_broker_that_is_silent() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 2})
        broker.fill("t", b"a", b"b")
        consumer = Consumer(str(BROKER), network=broker.network, group_id="g", **QUICK)
        await consumer.start()
        consumer.assign([T0])
        assert await consumer.getmany(60_000)
        broker.responders[ApiKey.OFFSET_COMMIT] = lambda request: None
        before = asyncio.get_running_loop().time()
        await consumer.close(timeout_ms=50)
        assert asyncio.get_running_loop().time() - before < 2

    asyncio.run(run())


def test_a_close_that_is_cancelled_while_the_client_ends_lets_go_of_the_thread() -> None:
    before = set(threading.enumerate())

    async def run() -> None:
        broker = StoringBroker({"t": 2})
        consumer = Consumer(str(BROKER), "t", network=broker.network, io="thread", **QUICK)
        await consumer.start()
        closing = asyncio.ensure_future(consumer.close())
        while consumer._core is not None:
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)

    asyncio.run(run())
    assert set(threading.enumerate()) <= before
