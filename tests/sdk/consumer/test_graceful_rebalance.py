"""A program that processes records concurrently handles each once, even if partitions move and members come and go.

Method: run the guide's recipe, `examples/graceful_rebalance.py`, on the reference broker, with each group protocol. A
second member joins midway, and the first one leaves after that. One record always fails.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from examples.graceful_rebalance import consume, consume_in_threads
from kafkawire import Admin, Consumer, NewTopic, Producer, Record, TopicPartition
from kafkawire.testing import Broker
from tests.sdk.spinning import spin_ms
from tests.thorough import sampled

#: The number of records that a member processes before the next step, and the record that always fails.
ENOUGH, BAD = 30, b"7"
PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"assignors": ["range"], "heartbeat_interval_ms": 50},
    "cooperative": {"assignors": ["cooperative-sticky"], "heartbeat_interval_ms": 50},
    "consumer": {"group_protocol": "consumer"},
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(ephemeral=True, group_consumer_heartbeat_interval_ms=50, group_initial_rebalance_delay_ms=0) as broker:
        yield broker


class Work:
    """The records that members have processed.

    Attributes:
        seen: the number of times that each record was processed.
        by: the number of records that each member has processed.
    """

    def __init__(self) -> None:
        self.seen: Counter[bytes | None] = Counter()
        self.by: Counter[str] = Counter()

    def done(self, name: str, record: Record) -> None:
        self.seen[record.value] += 1
        self.by[name] += 1
        if record.value == BAD:
            raise ValueError(record.value)


class Jobs:
    """A topic that receives records until members have processed enough.

    Attributes:
        sent: the number of records sent.
    """

    def __init__(self, broker: Broker, topic: str, work: Work) -> None:
        self.servers = broker.bootstrap
        self.topic = topic
        self.work = work
        self.sent = 0

    async def create(self) -> None:
        async with Admin(self.servers) as admin:
            await admin.create_topics(NewTopic(self.topic, partitions=4))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Send records until a condition holds."""
        async with asyncio.timeout(60), Producer(self.servers) as producer:
            while not condition():
                for number in range(self.sent, self.sent + 4):
                    producer.send(self.topic, b"%d" % number, partition=number % 4)
                self.sent += 4
                await producer.flush()

    async def until_done(self) -> None:
        async with asyncio.timeout(60):
            while len(self.work.seen) < self.sent:
                await asyncio.sleep(0)

    async def check(self) -> None:
        """Assert that each record was processed once and committed, and that the bad one became a dead letter."""
        seen = self.work.seen
        assert len(seen) == self.sent
        assert max(seen.values()) == 1, [value for value, times in seen.items() if times > 1]
        partitions = [TopicPartition(self.topic, number) for number in range(4)]
        dead = f"{self.topic}.dead"
        async with Consumer(self.servers, dead, group_id=self.topic, auto_offset_reset="earliest") as consumer:
            record = await anext(aiter(consumer))
            assert (record.value, dict(record.headers)["error"]) == (BAD, b"ValueError(b'7')")
            committed = await consumer.committed(*partitions)
            assert [committed[each].offset for each in partitions] == [self.sent // 4] * 4


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_with_asyncio(broker: Broker, protocol: str) -> None:
    async def run() -> None:
        work = Work()
        jobs = Jobs(broker, f"asyncio-{protocol}", work)
        await jobs.create()

        def begin(name: str) -> asyncio.Task[None]:
            async def work_on(record: Record) -> None:
                for _ in range(20):
                    await asyncio.sleep(0)
                work.done(name, record)

            options = {"auto_offset_reset": "earliest", **PROTOCOLS[protocol]}
            return asyncio.create_task(consume(jobs.servers, jobs.topic, jobs.topic, work_on, **options))

        first = begin("first")
        await jobs.until(lambda: work.by["first"] >= ENOUGH)
        second = begin("second")
        await jobs.until(lambda: work.by["second"] >= ENOUGH)
        first.cancel()
        await asyncio.wait([first])
        enough = work.by["second"] + ENOUGH
        await jobs.until(lambda: work.by["second"] >= enough)
        await jobs.until_done()
        second.cancel()
        await asyncio.wait([second])
        await jobs.check()

    asyncio.run(run())


@pytest.mark.parametrize("protocol", sampled(PROTOCOLS, 3))
def test_with_threads(broker: Broker, protocol: str) -> None:
    work, stops = Work(), {"first": Event(), "second": Event()}
    jobs = Jobs(broker, f"threads-{protocol}", work)

    def member(name: str) -> None:
        def work_on(record: Record) -> None:
            spin_ms(1)
            work.done(name, record)

        options = {"auto_offset_reset": "earliest", **PROTOCOLS[protocol]}
        consume_in_threads(jobs.servers, jobs.topic, jobs.topic, work_on, stops[name], **options)

    async def run(pool: ThreadPoolExecutor) -> None:
        await jobs.create()
        try:
            first = pool.submit(member, "first")
            await jobs.until(lambda: work.by["first"] >= ENOUGH)
            second = pool.submit(member, "second")
            await jobs.until(lambda: work.by["second"] >= ENOUGH)
            stops["first"].set()
            await asyncio.wrap_future(first)
            enough = work.by["second"] + ENOUGH
            await jobs.until(lambda: work.by["second"] >= enough)
            await jobs.until_done()
        finally:
            for stop in stops.values():
                stop.set()
        await asyncio.wrap_future(second)
        await jobs.check()

    with ThreadPoolExecutor(2) as pool:
        asyncio.run(run(pool))
