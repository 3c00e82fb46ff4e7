"""Process many records concurrently, and hand partitions over without processing any record twice.

A record is in progress from the moment it is handed out until it is finished. When partitions move to another member,
or the consumer is closed, the listener waits for the partitions' records in progress. The records that are finished by
then are committed before the partitions move. A record that cannot be processed goes to a dead-letter topic, after
which it is finished too.

    python examples/graceful_rebalance.py localhost:9092

`consume` is for asyncio and `consume_in_threads` for threads. The program runs `consume` twice on one topic, cancels
one of the two halfway, and prints how many records were processed, and how many more than once.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event, Semaphore
from typing import Any

from kafkawire import Admin, Consumer, NewTopic, Producer, Record, TopicPartition, sync

#: The maximum number of records in progress.
WORKERS = 8

#: How long to wait for a record before checking whether to stop.
READ_MS = 200


class Tasks:
    """The tasks that process records, keyed by partition. This is a listener for `kafkawire.Consumer`."""

    def __init__(self) -> None:
        self._tasks: defaultdict[TopicPartition, set[asyncio.Task[None]]] = defaultdict(set)

    def add(self, record: Record, task: asyncio.Task[None]) -> None:
        partition = TopicPartition(record.topic, record.partition)
        self._tasks[partition].add(task)
        task.add_done_callback(self._tasks[partition].discard)

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Begin without records in progress."""

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Finish the records in progress; the consumer hands out no more records from these partitions."""
        if tasks := self._of(partitions):
            await asyncio.wait(tasks)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Stop, because other members are already processing these records."""
        for task in self._of(partitions):
            task.cancel()

    def _of(self, partitions: Collection[TopicPartition]) -> list[asyncio.Task[None]]:
        return [task for partition in partitions for task in self._tasks.pop(partition, ())]


async def consume(
    servers: str, topic: str, group: str, work: Callable[[Record], Awaitable[None]], **options: Any
) -> None:
    """Process records, `WORKERS` at a time, until cancelled."""
    in_hand, slots = Tasks(), asyncio.Semaphore(WORKERS)

    async def work_on(record: Record) -> None:
        try:
            await work(record)
        except Exception as error:
            headers = [*record.headers, ("error", repr(error).encode())]
            await producer.send(f"{topic}.dead", record.value, key=record.key, headers=headers)
        consumer.finish(record)

    async with (
        Producer(servers) as producer,
        Consumer(servers, topic, group_id=group, listener=in_hand, enable_auto_finish=False, **options) as consumer,
    ):
        records = aiter(consumer)
        while True:
            await slots.acquire()  # before reading, because a record is in progress as soon as it is handed out
            record = await anext(records)
            task = asyncio.create_task(work_on(record))
            task.add_done_callback(lambda task: slots.release())
            in_hand.add(record, task)


class Futures:
    """The calls that process records, keyed by partition. This is a listener for `kafkawire.sync.Consumer`."""

    def __init__(self) -> None:
        self._futures: defaultdict[TopicPartition, set[Future[None]]] = defaultdict(set)

    def add(self, record: Record, future: Future[None]) -> None:
        futures = self._futures[TopicPartition(record.topic, record.partition)]
        futures -= {each for each in futures if each.done()}
        futures.add(future)

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Begin without records in progress."""

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Finish the records in progress; the reading thread waits for them."""
        wait(self._of(partitions))

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Cancel calls that have not started, because other members are already processing these records."""
        for future in self._of(partitions):
            future.cancel()

    def _of(self, partitions: Collection[TopicPartition]) -> list[Future[None]]:
        return [future for partition in partitions for future in self._futures.pop(partition, ())]


def consume_in_threads(
    servers: str, topic: str, group: str, work: Callable[[Record], None], stop: Event, **options: Any
) -> None:
    """Process records, `WORKERS` at a time, until `stop` is set."""
    in_hand, slots = Futures(), Semaphore(WORKERS)

    def work_on(record: Record) -> None:
        try:
            work(record)
        except Exception as error:
            headers = [*record.headers, ("error", repr(error).encode())]
            producer.send(f"{topic}.dead", record.value, key=record.key, headers=headers).result()
        consumer.finish(record)
        slots.release()

    with (
        sync.Producer(servers) as producer,
        ThreadPoolExecutor(WORKERS) as pool,
        sync.Consumer(
            servers, topic, group_id=group, listener=in_hand, enable_auto_finish=False, **options
        ) as consumer,
    ):
        while not stop.is_set():
            slots.acquire()
            found = consumer.getmany(timeout_ms=READ_MS, max_records=1)
            for record in (record for records in found.values() for record in records):
                in_hand.add(record, pool.submit(work_on, record))
            if not found:
                slots.release()


async def main(servers: str, count: int = 1_000) -> None:
    """Share the records of a topic between two consumers, one of which leaves halfway."""
    seen: Counter[bytes | None] = Counter()
    half, everything = asyncio.Event(), asyncio.Event()

    async def work(record: Record) -> None:
        await asyncio.sleep(0.01)
        seen[record.value] += 1
        if len(seen) == count // 2:
            half.set()
        if len(seen) == count:
            everything.set()

    async with Admin(servers) as admin, Producer(servers) as producer:
        await admin.create_topics(NewTopic("jobs", partitions=4))
        await producer.send_many("jobs", [b"%d" % number for number in range(count)])
    consumers = [
        asyncio.create_task(consume(servers, "jobs", "workers", work, auto_offset_reset="earliest")) for _ in range(2)
    ]
    await half.wait()
    consumers[0].cancel()
    await everything.wait()
    consumers[1].cancel()
    await asyncio.gather(*consumers, return_exceptions=True)
    print(f"{len(seen)} records, {sum(times > 1 for times in seen.values())} of them more than once")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
