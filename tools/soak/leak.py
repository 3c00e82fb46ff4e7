"""Produce and consume for a long time, and monitor memory: `python -m tools.soak leak [--seconds N] [--bootstrap …]`.

A process with a producer and two consumers, one of them in a group, continuously reads and writes in every way, and
opens a client of each kind every second. Its resident memory after two minutes is compared with that at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from kafkawire import Admin, Consumer, NewTopic, Producer
from tests.kafka.apache import ApacheKafka

__all__ = ["main", "resident_bytes"]

#: Growth after the first part that is not considered a leak but pages that the allocator has not returned.
GROWTH_MAX = 0.05

#: The share of the run that is warm-up: two minutes of a ten-minute run.
WARM_UP = 0.2

PARTITIONS = 4
RECORDS_A_TURN = 500

#: The topic's configuration, with which old records are deleted, because the broker's disk is not under test.
RETENTION = {"retention.bytes": "50000000", "segment.bytes": "10000000"}


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Work:
    """The continuous work, until `end`."""

    def __init__(self, bootstrap: str, end: float) -> None:
        self._bootstrap = bootstrap
        self._end = end
        self.sent = 0
        self.iterated = 0
        self.taken = 0
        self.clients = 0

    async def produce(self) -> None:
        """Send records in every way."""
        async with Producer(self._bootstrap, compression="lz4") as producer:
            while time.monotonic() < self._end:
                for number in range(RECORDS_A_TURN):
                    producer.send("leak", b"%d" % number * 20, key=b"%d" % number, headers=[("h", b"v")])
                self.sent += await producer.send_many("leak", [b"x" * 100] * RECORDS_A_TURN) + RECORDS_A_TURN
                await producer.send("leak", b"awaited")
                await producer.flush()
                await asyncio.sleep(0.02)

    async def iterate(self) -> None:
        """Read individual records, in a group."""
        async with Consumer(self._bootstrap, "leak", group_id="leak", auto_commit_interval_ms=500) as consumer:
            async for _ in consumer:
                self.iterated += 1
                if time.monotonic() > self._end:
                    break

    async def take(self) -> None:
        """Read lists and batches, on an I/O thread."""
        async with Consumer(self._bootstrap, "leak", io="thread") as consumer:
            while time.monotonic() < self._end:
                self.taken += sum(map(len, (await consumer.getmany(100)).values()))
                self.taken += sum(len(list(batch)) for batch in await consumer.getbatches(100))

    async def come_and_go(self) -> None:
        """Open and close clients."""
        while time.monotonic() < self._end:
            kinds: list[Any] = [Producer, Admin]
            for kind in kinds:
                async with kind(self._bootstrap):
                    self.clients += 1
            async with Consumer(self._bootstrap, "leak", group_id="leak-short", io="thread") as consumer:
                await consumer.getmany(100)
                self.clients += 1
            await asyncio.sleep(1)

    async def measure(self, seconds: float) -> tuple[float, float]:
        """Print the memory regularly; return the medians of a minute after warm-up and of the last minute."""
        begun, shown = time.monotonic(), 0.0
        await asyncio.sleep(seconds * WARM_UP)
        sizes: list[int] = []
        while (now := time.monotonic()) < self._end - 1:
            sizes.append(_settled())
            if now - shown >= seconds / 20:
                shown = now
                print(
                    f"leak: {now - begun:.0f} s: {sizes[-1] / 1e6:.1f} MB; {self.sent:,} sent, "
                    f"{self.iterated:,} and {self.taken:,} read, {self.clients:,} clients",
                    flush=True,
                )
            await asyncio.sleep(seconds / 600)
        window = max(len(sizes) // 8, 1)
        return median(sizes[:window]), median(sizes[-window:])


def _settled() -> int:
    gc.collect()
    return resident_bytes()


async def _run(bootstrap: str, seconds: float) -> tuple[float, float]:
    async with Admin(bootstrap) as admin:
        await admin.create_topics(NewTopic("leak", PARTITIONS, 1, RETENTION))
    work = Work(bootstrap, time.monotonic() + seconds)
    tasks = [asyncio.create_task(each()) for each in (work.produce, work.iterate, work.take, work.come_and_go)]
    measured = await work.measure(seconds)
    await asyncio.gather(*tasks[2:], tasks[0])
    tasks[1].cancel()  # the consumer waits for a record that will not be sent
    await asyncio.gather(tasks[1], return_exceptions=True)
    return measured


def main(arguments: list[str]) -> int:
    """Run the work, and return the exit status, which is 1 if memory has grown."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak leak")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", help="has no effect, since this soak is not random")
    parser.add_argument("--bootstrap", help="address of an Apache Kafka broker; by default, one is started")
    given = parser.parse_args(arguments)
    with ExitStack() as stack:
        bootstrap = given.bootstrap or stack.enter_context(ApacheKafka()).bootstrap
        first, last = asyncio.run(_run(bootstrap, given.seconds))
    growth = last / first - 1
    print(f"leak: {first / 1e6:.1f} MB after warming up, {last / 1e6:.1f} MB at the end, {growth:+.1%}")
    return 0 if growth <= GROWTH_MAX else 1
