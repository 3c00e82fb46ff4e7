"""Measure kafkawire beside its peers: `CLIENTS` for benchmarks that load plug-ins.

Each function takes a task with the attributes bootstrap, topic, n, size, linger, acks, rate and batch; see each of them
for what it returns. CPU time is measured by the caller, so what connecting needs is imported here, before its clock.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
import time
from typing import Any

__all__ = ["CLIENTS"]

#: Messages of a latency run before those that count.
_WARM_UP = 500

#: Records between two looks at the buffer: often enough for one of 32 MiB, and about the time of a turn.
_RECORDS_A_DRAIN = 1_000

if any("kafkawire" in word for word in sys.argv):  # the peers' modules are imported before the clock, too
    import kafkawire.sdk.client.core
    import kafkawire.sdk.consumer.core
    import kafkawire.sdk.producer.core  # noqa: F401  # for what it loads


def _producer_options(task: Any) -> dict[str, Any]:
    return {
        "acks": "all" if task.acks in ("all", "-1") else int(task.acks),
        "linger_ms": task.linger,
        "batch_size": task.batch,
    }


def produce_send(task: Any) -> dict[str, float]:
    """Send records one by one; return their number, the bytes of their values and the seconds that it took."""
    from kafkawire import Producer

    async def run() -> float:
        value, topic = os.urandom(task.size), task.topic
        async with Producer(task.bootstrap, **_producer_options(task)) as producer:
            await producer.send(topic, value)
            send = producer.send
            start = time.perf_counter()
            for sent in range(0, task.n, _RECORDS_A_DRAIN):
                for _ in range(min(_RECORDS_A_DRAIN, task.n - sent)):
                    send(topic, value)
                await producer.drain()
            await producer.flush()
            return time.perf_counter() - start

    return {"n": task.n, "bytes": task.n * task.size, "wall": asyncio.run(run())}


def produce_send_many(task: Any) -> dict[str, float]:
    """Send records from a generator with `send_many`; returns the same as `produce_send`."""
    from kafkawire import Producer

    async def run() -> float:
        value, topic = os.urandom(task.size), task.topic
        async with Producer(task.bootstrap, **_producer_options(task)) as producer:
            await producer.send(topic, value)
            start = time.perf_counter()
            await producer.send_many(topic, (value for _ in range(task.n)))
            await producer.flush()
            return time.perf_counter() - start

    return {"n": task.n, "bytes": task.n * task.size, "wall": asyncio.run(run())}


def latency(task: Any) -> dict[str, list[float]]:
    """Send `rate` records a second, and return how many seconds each took from `send` to its consumer."""
    from kafkawire import Consumer, Producer, TopicPartition

    total = task.n + _WARM_UP
    seconds: list[float] = []

    async def consume(consumer: Consumer) -> None:
        async for record in consumer:
            seconds.append(time.perf_counter() - struct.unpack_from(">d", record.value or b"")[0])
            if len(seconds) >= total:
                return

    async def run() -> None:
        padding, topic = bytes(task.size - 8), task.topic
        async with (
            Producer(task.bootstrap, **_producer_options(task)) as producer,
            Consumer(task.bootstrap, auto_offset_reset="latest") as consumer,
        ):
            consumer.assign([TopicPartition(topic, 0)])
            consuming = asyncio.ensure_future(consume(consumer))
            await asyncio.sleep(0.5)  # until its first fetch waits
            start = time.perf_counter()
            for number in range(total):
                pause = start + number / task.rate - time.perf_counter()
                if pause > 0:
                    await asyncio.sleep(pause)
                producer.send(topic, struct.pack(">d", time.perf_counter()) + padding)
            await producer.flush()
            await asyncio.wait_for(consuming, 20)

    asyncio.run(run())
    return {"lat": seconds[_WARM_UP:]}


def version(task: Any) -> str:
    """Return the version of kafkawire."""
    import kafkawire

    return kafkawire.__version__


CLIENTS = {
    "kafkawire send": {"produce": produce_send, "version": version},
    "kafkawire send_many": {"produce": produce_send_many, "version": version},
    "kafkawire": {"latency": latency, "version": version},
}
