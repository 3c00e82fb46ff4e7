"""A bounded read ends where it is told, loses nothing, and leaves the rest for later reads.

Method: the whole consumer against a scripted broker in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.consumer import Consumer
from tests.sdk.scripted_broker import BROKER, StoringBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Read = Callable[..., Awaitable[list[tuple[int, int]]]]


def reading(test: Callable[[StoringBroker, Consumer, Read], Awaitable[None]]) -> None:
    """Run a test with two partitions: offsets 0 to 19 in batches of ten, and 0 to 4."""

    async def run() -> None:
        broker = StoringBroker({"t": 2})
        for _ in range(2):
            broker.fill("t", *[b"x"] * 10)
        broker.fill("t", *[b"y"] * 5, partition=1)
        given = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 5, "retry_backoff_ms": 1}
        async with Consumer(str(BROKER), "t", network=broker.network, **given) as consumer:

            async def read(**bounds: object) -> list[tuple[int, int]]:
                async with asyncio.timeout(10):
                    return sorted([(each.partition, each.offset) async for each in consumer.records(**bounds)])  # type: ignore[arg-type]  # by name

            await test(broker, consumer, read)

    asyncio.run(run())


def test_to_the_end() -> None:
    async def test(broker: StoringBroker, consumer: Consumer, read: Read) -> None:
        everything = [(0, offset) for offset in range(20)] + [(1, offset) for offset in range(5)]
        assert await read(stop_at_end=True) == everything
        assert await read(stop_at_end=True) == []
        broker.fill("t", b"new", partition=1)
        assert await read(stop_at_end=True) == [(1, 5)]

    reading(test)


@pytest.mark.parametrize("end", [3, 10, 15, 20])
def test_to_an_offset(end: int) -> None:
    async def test(broker: StoringBroker, consumer: Consumer, read: Read) -> None:
        assert await read(until={T0: end}) == [(0, offset) for offset in range(end)]
        assert await consumer.position(T0) == end
        assert await read(stop_at_end=True) == [(0, each) for each in range(end, 20)] + [(1, each) for each in range(5)]

    reading(test)


def test_a_time_after_the_last_record_ends_at_the_end() -> None:
    async def test(broker: StoringBroker, consumer: Consumer, read: Read) -> None:
        found = await read(until=0)  # the broker has all records at offset 0 of any time
        assert found == []
        assert len(await read(until={T0: 5}, stop_at_end=True)) == 5

    reading(test)


@pytest.mark.parametrize("last", [2, 9, 12, 14])
def test_a_read_that_is_broken_off(last: int) -> None:
    async def test(broker: StoringBroker, consumer: Consumer, read: Read) -> None:
        bounded = consumer.records(until={T0: 15})
        async for record in bounded:
            if record.offset == last:
                break
        await bounded.aclose()
        rest = await read(stop_at_end=True)
        assert [offset for partition, offset in rest if partition == 0] == list(range(last + 1, 20))

    reading(test)


@pytest.mark.parametrize(("last", "end"), [(2, 5), (2, 10), (2, 15), (9, 15), (9, 10), (12, 15), (12, 5), (12, 20)])
def test_what_is_being_handed_out_may_go_beyond_the_end(last: int, end: int) -> None:
    async def test(broker: StoringBroker, consumer: Consumer, read: Read) -> None:
        async for record in consumer:
            if (record.partition, record.offset) == (0, last):
                break
        assert await read(until={T0: end}) == [(0, offset) for offset in range(last + 1, end)]
        rest = await read(stop_at_end=True)
        assert [offset for partition, offset in rest if partition == 0] == list(range(max(last + 1, end), 20))

    reading(test)


def test_a_group_is_waited_for() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        broker.fill("t", b"a", b"b")
        given: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest"}
        async with Consumer(str(BROKER), "t", network=broker.network, **given) as consumer, asyncio.timeout(10):
            assert [record.offset async for record in consumer.records(stop_at_end=True)] == [0, 1]

    asyncio.run(run())


@pytest.mark.parametrize("topics", [("new",), ("new", "missing")])
def test_of_topics_that_were_subscribed_to_a_moment_ago(topics: tuple[str, ...]) -> None:
    async def test(broker: StoringBroker, consumer: Consumer, read: Read) -> None:
        broker.topics["new"] = 1
        broker.fill("new", b"z", b"z")
        await consumer.subscribe(*topics)
        assert await read(stop_at_end=True) == [(0, 0), (0, 1)]
        await consumer.subscribe(pattern="t|new")
        assert len(await read(stop_at_end=True)) == 25, "of t: the other topic was read"

    reading(test)
