"""A program that processes buffered records without ever waiting for one still lets its event loop run.

Method: run the whole consumer against a scripted in-memory broker. Each record takes a millisecond on the only thread,
and a callback counts the records handed out between two iterations of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Literal

import pytest

from kafkawire.sdk.consumer.consumer import Consumer
from kafkawire.sdk.consumer.reading.reader import LIST_MS
from kafkawire.sdk.records import Record
from tests.sdk.consumer.consuming import QUICK, T
from tests.sdk.scripted_broker import BROKER, StoringBroker
from tests.sdk.spinning import spin_ms

#: The number of records in one response, and how many may be handed out without a break: the budget is ten
#: milliseconds, and the rest allows for the resolution of the coarse clock.
COUNT, LIMIT = 60, 40


async def one_by_one(consumer: Consumer) -> AsyncIterator[Record]:
    async for record in consumer:
        yield record


async def lists(consumer: Consumer) -> AsyncIterator[Record]:
    while True:
        for found in (await consumer.getmany(60_000, 1)).values():
            for record in found:
                yield record


async def batches(consumer: Consumer) -> AsyncIterator[Record]:
    async for batch in consumer.batches():
        for record in batch:
            yield record


async def lists_of_batches(consumer: Consumer) -> AsyncIterator[Record]:
    while True:
        for batch in await consumer.getbatches(1_000, 1):
            for record in batch:
                yield record


async def up_to_an_end(consumer: Consumer) -> AsyncIterator[Record]:
    async for record in consumer.records(stop_at_end=True):
        yield record


Way = Callable[[Consumer], AsyncIterator[Record]]
HOOKED: dict[str, Any] = {"value_deserializer": bytes.decode}


@pytest.mark.parametrize("io", ["loop", "thread"])
@pytest.mark.parametrize(
    ("way", "hooks"),
    [(one_by_one, {}), (one_by_one, HOOKED), (lists, {}), (batches, {}), (lists_of_batches, {}), (up_to_an_end, {})],
)
def test_the_event_loop_goes_on_between_records(way: Way, hooks: dict[str, Any], io: Literal["loop", "thread"]) -> None:
    async def run() -> int:
        broker = StoringBroker({"t": 1})
        for number in range(COUNT):
            broker.fill("t", b"%d" % number)
        longest = since_turn = count = 0

        def turned() -> None:
            nonlocal since_turn
            since_turn = 0
            loop.call_soon(turned)

        loop = asyncio.get_running_loop()
        async with Consumer(str(BROKER), "t", network=broker.network, io=io, **hooks, **QUICK) as consumer:
            loop.call_soon(turned)
            async for _ in way(consumer):
                count, since_turn = count + 1, since_turn + 1
                longest = max(longest, since_turn)
                spin_ms(1)
                if count == COUNT:
                    break
        return longest

    assert asyncio.run(run()) <= LIMIT


async def positions(consumer: Consumer) -> None:
    await consumer.position(T)


async def seeks(consumer: Consumer) -> None:
    consumer.seek(T, 0)
    await consumer.getmany(60_000, 1)


@pytest.mark.parametrize("call", [positions, seeks, Consumer.commit, Consumer.getmany])
def test_calls_that_find_their_result_there_let_the_event_loop_go_on(
    call: Callable[[Consumer], Coroutine[Any, Any, object]],
) -> None:
    async def run() -> int:
        broker = StoringBroker({"t": 1})
        broker.fill("t", b"a", b"b")
        longest = since_turn = 0

        def turned() -> None:
            nonlocal since_turn
            since_turn = 0
            loop.call_soon(turned)

        loop = asyncio.get_running_loop()
        async with Consumer(str(BROKER), "t", network=broker.network, group_id="g", **QUICK) as consumer:
            await consumer.getmany(10_000)
            if call is Consumer.getmany:
                consumer.pause(T)
            loop.call_soon(turned)
            for _ in range(COUNT):
                await call(consumer)
                since_turn += 1
                longest = max(longest, since_turn)
                spin_ms(1)
        return longest

    assert asyncio.run(run()) <= LIMIT


def test_a_list_that_takes_long_to_deserialize_ends_early_and_loses_nothing() -> None:
    async def run() -> list[int]:
        broker = StoringBroker({"t": 1})
        broker.fill("t", *[b"%d" % number for number in range(8)])

        def slow(value: bytes) -> int:
            spin_ms(LIST_MS // 3)
            return int(value)

        sizes, values = [], []
        async with Consumer(str(BROKER), "t", network=broker.network, value_deserializer=slow, **QUICK) as consumer:
            while len(values) < 8:
                found = [record.value for each in (await consumer.getmany(60_000)).values() for record in each]
                sizes.append(len(found))
                values += found
        assert values == list(range(8))
        return sizes

    assert max(asyncio.run(run())) <= 4
