"""No record is lost between a producer and a group of two consumers when the broker is killed halfway.

Method: use the reference broker over loopback, and kill and restart it while records are written and read.
"""

from __future__ import annotations

import asyncio

from kafkawire import Admin, Consumer, NewTopic, Producer
from kafkawire.testing import Broker

RECORDS = 5000
PARTITIONS = 4
TIMEOUT_SECONDS = 60


async def write(broker: Broker, ready: asyncio.Barrier) -> None:
    """Write all records, and kill the broker halfway, once both readers have read something."""
    async with Producer(broker.bootstrap, batch_size=4096, compression="lz4") as producer:
        for number in range(RECORDS):
            producer.send("t", b"%d" % number, key=b"%d" % (number % 97))
            if number % 200 == 0:
                await producer.drain()
                await asyncio.sleep(0)
            if number == RECORDS // 2:
                await ready.wait()
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.start)
        await producer.flush()


async def read(broker: Broker, ready: asyncio.Barrier, seen: set[int], done: asyncio.Event) -> int:
    """Read as one member until the group has seen all records, and return the number that this member has seen."""
    count, is_ready = 0, False
    given = {"group_id": "g", "auto_offset_reset": "earliest", "heartbeat_interval_ms": 100}
    async with Consumer(broker.bootstrap, "t", assignors=["cooperative-sticky"], **given) as consumer:
        while len(consumer.assignment) != PARTITIONS // 2:
            await asyncio.sleep(0)  # no member reads until both are in the group
        while not done.is_set():
            for records in (await consumer.getmany(50)).values():
                seen.update(int(record.value or b"-1") for record in records)
                count += len(records)
            if count and not is_ready:
                is_ready = True
                await ready.wait()
            if len(seen) == RECORDS:
                done.set()
    return count


def test_a_broker_killed_while_records_are_written_and_read() -> None:
    async def run(broker: Broker) -> None:
        async with Admin(broker.bootstrap) as admin:
            await admin.create_topics(NewTopic("t", PARTITIONS, 1))
        seen: set[int] = set()
        ready, done = asyncio.Barrier(3), asyncio.Event()
        one, other = read(broker, ready, seen, done), read(broker, ready, seen, done)
        _, first, second = await asyncio.gather(write(broker, ready), one, other)
        assert seen == set(range(RECORDS))
        assert first > 0
        assert second > 0

    with Broker() as broker:
        asyncio.run(asyncio.wait_for(run(broker), TIMEOUT_SECONDS))
