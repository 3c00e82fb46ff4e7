"""A bounded read ends at its bound, loses nothing, and leaves the rest for later reads.

Method: run the whole consumer against a scripted in-memory broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kafkawire.sdk.consumer.consumer import Consumer
from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.consumer.reading.bounded_reads import BoundedRecords
from kafkawire.sdk.errors import DeserializationFailed, LocalProtocolError
from kafkawire.sdk.records import Record
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.consumer.consuming import core_of
from tests.sdk.scripted_broker import BROKER, StoringBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Read = Callable[..., Awaitable[list[tuple[int, int]]]]


def reading(test: Callable[[StoringBroker, Consumer, Read], Awaitable[None]], **options: Any) -> None:
    """Run a test with two partitions: one has offsets 0 to 19 in batches of ten, and the other 0 to 4."""

    async def run() -> None:
        broker = StoringBroker({"t": 2})
        for _ in range(2):
            broker.fill("t", *[b"x"] * 10)
        broker.fill("t", *[b"y"] * 5, partition=1)
        given = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 5, "retry_backoff_ms": 1, **options}
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
        found = await read(until=0)  # the broker returns offset 0 for any time
        assert found == []
        assert len(await read(until={T0: 5}, stop_at_end=True)) == 5

    reading(test)


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize(("last", "end"), [(2, 15), (2, 5), (4, 5), (9, 10), (9, 15), (12, 15)])
def test_a_read_that_is_broken_off(last: int, end: int, is_closed: bool) -> None:
    """Later reads continue after the last record that was handed out, whatever was fetched or cut off."""

    async def test(broker: StoringBroker, consumer: Consumer, read: Read) -> None:
        bounded = consumer.records(until={T0: end})
        async for record in bounded:
            if record.offset == last:
                break
        if is_closed:
            await bounded.aclose()
        del bounded
        assert await consumer.position(T0) == last + 1
        rest = [record async for record in first(consumer, 19 - last + 5)]
        assert [record.offset for record in rest if record.partition == 0] == list(range(last + 1, 20))

    reading(test)


async def first(consumer: Consumer, count: int) -> AsyncIterator[Record]:
    """Yield the given number of records from an unbounded read."""
    async with asyncio.timeout(10):
        for _ in range(count):
            yield await anext(aiter(consumer))


def test_the_last_record_of_a_read_that_is_broken_off_is_not_finished() -> None:
    async def test(broker: StoringBroker, consumer: Consumer, read: Read) -> None:
        async for record in consumer.records(until={T0: 5}):
            if record.offset == 2:
                break
        core = consumer._started()
        finished = core.assignment.readings[T0].finished
        assert finished is not None
        assert finished.offset == 2
        core.reader.finish()
        finished = core.assignment.readings[T0].finished
        assert finished is not None
        assert finished.offset == 3

    reading(test)


def test_a_read_without_an_end_outlasts_a_bounded_one() -> None:
    async def test(broker: StoringBroker, consumer: Consumer, read: Read) -> None:
        endless = [record async for record in first(consumer, 3)]
        waiting = asyncio.ensure_future(anext(aiter(consumer)))
        found = await read(until={T0: 12, T1: 2})
        endless += [await waiting] + [record async for record in first(consumer, 25 - 4 - len(found))]
        assert sorted(found + [(record.partition, record.offset) for record in endless]) == (
            [(0, offset) for offset in range(20)] + [(1, offset) for offset in range(5)]
        )

    reading(test)


def test_one_bounded_read_at_a_time() -> None:
    async def test(broker: StoringBroker, consumer: Consumer, read: Read) -> None:
        bounded = consumer.records(stop_at_end=True)
        assert (await anext(bounded)).offset == 0
        with pytest.raises(LocalProtocolError, match="another bounded read of this consumer is open"):
            await read(stop_at_end=True)
        await bounded.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(bounded)
        assert len(await read(stop_at_end=True)) == 24

    reading(test)


async def numbers(test: Callable[[StoringBroker, Consumer[bytes, int]], Awaitable[None]]) -> None:
    """Run a test with one partition, in which record 1 cannot be read."""
    broker = StoringBroker({"t": 1})
    broker.fill("t", b"0", b"one", b"2")
    given: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 5, "value_deserializer": int}
    async with Consumer(str(BROKER), "t", network=broker.network, **given) as consumer, asyncio.timeout(10):
        await test(broker, consumer)


def test_an_error_ends_the_read_even_if_it_is_kept() -> None:
    async def test(broker: StoringBroker, consumer: Consumer[bytes, int]) -> None:
        bounded = consumer.records(stop_at_end=True)
        assert (await anext(bounded)).value == 0
        with pytest.raises(DeserializationFailed) as kept:
            await anext(bounded)
        consumer.seek(T0, kept.value.offset + 1)
        assert [record.value async for record in bounded] == []
        assert [record.value async for record in consumer.records(stop_at_end=True)] == [2]
        broker.fill("t", b"3")
        found = await consumer.getmany(timeout_ms=10_000)
        assert [record.value for record in found[T0]] == [3]

    asyncio.run(numbers(test))


def test_an_error_at_its_beginning_ends_the_read() -> None:
    async def test(broker: StoringBroker, consumer: Consumer[bytes, int]) -> None:
        bounded = consumer.records(until={T0: 1})
        other = consumer.records(stop_at_end=True)
        assert (await anext(bounded)).offset == 0
        with pytest.raises(LocalProtocolError, match="another bounded read of this consumer is open"):
            await anext(other)
        assert [record.offset async for record in other] == []
        assert [record.offset async for record in bounded] == []
        assert consumer._started().reader.bounded_read is None

    asyncio.run(numbers(test))


async def cut_short(bounded: BoundedRecords[Any, Any]) -> BaseException:
    """Cancel a wait for a record that does not come, and return the cancellation error, which refers to the read."""
    with pytest.raises(TimeoutError) as kept:
        async with asyncio.timeout(0):
            await anext(bounded)
    return kept.value


def test_a_read_that_was_cancelled_goes_on_if_it_is_asked_again() -> None:
    async def test(broker: StoringBroker, consumer: Consumer, read: Read) -> None:
        bounded = consumer.records(until={T0: 22})
        found = [(await anext(bounded)).offset for _ in range(20)]
        kept = await cut_short(bounded)
        broker.fill("t", *[b"z"] * 5)
        found += [record.offset async for record in bounded]
        assert found == list(range(22)), kept
        assert len(await read(stop_at_end=True)) == 3 + 5

    reading(test)


def test_any_other_read_ends_one_that_was_cancelled() -> None:
    async def test(broker: StoringBroker, consumer: Consumer, read: Read) -> None:
        bounded = consumer.records(until={T0: 22})
        assert [(await anext(bounded)).offset for _ in range(20)] == list(range(20))
        kept = await cut_short(bounded)
        found = await consumer.getmany(timeout_ms=10_000)
        assert [record.offset for record in found[T1]] == list(range(5)), kept
        assert [record.offset async for record in bounded] == []

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


def test_a_group_is_waited_for_although_records_of_its_former_partitions_wait() -> None:
    async def test(broker: StoringBroker, consumer: Consumer, read: Read) -> None:
        core = core_of(consumer)
        while not core.queue._items:
            await asyncio.sleep(0)
        core.assignment.assign([])
        bounded = asyncio.ensure_future(read(stop_at_end=True))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not bounded.done()
        core.assignment.assign({T0: Position(18)})
        assert await bounded == [(0, 18), (0, 19)]

    reading(test, group_id="g")


@pytest.mark.parametrize("topics", [("new",), ("new", "missing")])
def test_of_topics_that_were_subscribed_to_a_moment_ago(topics: tuple[str, ...]) -> None:
    async def test(broker: StoringBroker, consumer: Consumer, read: Read) -> None:
        broker.topics["new"] = 1
        broker.fill("new", b"z", b"z")
        await consumer.subscribe(*topics)
        assert await read(stop_at_end=True) == [(0, 0), (0, 1)]
        await consumer.subscribe(pattern="t|new")
        assert len(await read(stop_at_end=True)) == 25, "topic t alone has 25 records: the other topic was read"

    reading(test)
