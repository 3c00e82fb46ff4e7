"""A plug-in that adds kafkawire to a comparison of clients, which runs each measurement in a separate process.

    peers.py all --bootstrap HOST:PORT --plugin benchmarks/kafkawire_plugin.py

`CLIENTS` contains functions, keyed by client and kind. Each takes an object with `bootstrap`, `topic`, `n`, `size`,
`linger`, `acks`, `rate` and `batch`, and returns the number of messages and the time. Peers are imported before the
clock starts, as are the modules that these functions need.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
import time
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any

__all__ = ["CLIENTS"]

#: Warm-up messages before latency is measured.
_WARM_UP = 500

#: The values that the peers use: the fetch size in bytes, and the number of records between checks for room in the
#: buffer.
_FETCH_BYTES = 4_194_304
_SENDS = 1_000

#: Modules that the clients load on first use.
_LOADED_LATER = (
    "concurrent.futures.thread",
    "encodings.idna",
    "kafkawire.sdk.consumer.arrow",
    "kafkawire.sdk.consumer.consumer",
    "kafkawire.sdk.consumer.core",
    "kafkawire.sdk.consumer.reading.engine",
    "kafkawire.sdk.producer.core",
    "kafkawire.sdk.producer.producer",
    "kafkawire.sdk.protocol.messages.api_versions",
    "kafkawire.sdk.protocol.messages.fetch",
    "kafkawire.sdk.protocol.messages.find_coordinator",
    "kafkawire.sdk.protocol.messages.headers",
    "kafkawire.sdk.protocol.messages.init_producer_id",
    "kafkawire.sdk.protocol.messages.list_offsets",
    "kafkawire.sdk.protocol.messages.metadata",
    "kafkawire.sdk.protocol.messages.produce",
    "kafkawire.sdk.version",
)

if any(word.startswith("kafkawire") for word in sys.argv):
    for _name in _LOADED_LATER:
        import_module(_name)
    if any("columns" in word for word in sys.argv):
        import_module("pyarrow")

Moved = dict[str, Any]


def _run(work: Callable[[Any], Coroutine[Any, Any, Moved]]) -> Callable[[Any], Moved]:
    return lambda task: asyncio.run(work(task))


def _producer(task: Any) -> Any:
    from kafkawire import Producer

    acks: Any = "all" if task.acks in ("all", "-1") else int(task.acks)
    limit = max(task.batch * 2, 1_048_576)
    return Producer(task.bootstrap, acks=acks, linger_ms=task.linger, batch_size=task.batch, max_request_size=limit)


def _moved(task: Any, seconds: float) -> Moved:
    return {"n": task.n, "bytes": task.n * task.size, "wall": seconds}


async def _produce_send(task: Any) -> Moved:
    value, topic = os.urandom(task.size), task.topic
    async with _producer(task) as producer:
        await producer.send(topic, value)
        send = producer.send
        start = time.perf_counter()
        for first in range(0, task.n, _SENDS):
            for _ in range(min(_SENDS, task.n - first)):
                send(topic, value)
            await producer.drain()
        await producer.flush()
        seconds = time.perf_counter() - start
    return _moved(task, seconds)


async def _produce_many(task: Any) -> Moved:
    value, topic = os.urandom(task.size), task.topic
    async with _producer(task) as producer:
        await producer.send(topic, value)
        start = time.perf_counter()
        await producer.send_many(topic, (value for _ in range(task.n)))
        await producer.flush()
        seconds = time.perf_counter() - start
    return _moved(task, seconds)


class _Count:
    """The number of messages that have arrived, and the time at which the first one did.

    Args:
        task: the measurement.
    """

    def __init__(self, task: Any) -> None:
        self._task = task
        self._begun = self._first_at = time.perf_counter()
        self._first = 0

    def first(self, count: int) -> None:
        """Record the first messages."""
        self._first, self._first_at = count, time.perf_counter()

    def result(self, count: int, size_bytes: int) -> Moved:
        """Return the total, and the part of it that arrived after the first messages."""
        end = time.perf_counter()
        steady = {"n_steady": count - self._first, "wall_steady": end - self._first_at}
        return {"n": count, "bytes": size_bytes, "wall": end - self._begun, **steady}


def _consumer(task: Any) -> Any:
    from kafkawire import Consumer, TopicPartition

    consumer = Consumer(task.bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=_FETCH_BYTES)
    consumer.assign([TopicPartition(task.topic, 0)])
    return consumer


async def _consume_for(task: Any) -> Moved:
    async with _consumer(task) as consumer:
        got = size = 0
        counted, wanted = _Count(task), task.n
        async for record in consumer:
            if not got:
                counted.first(1)
            size += len(record.value)
            got += 1
            if got >= wanted:
                break
        return counted.result(got, size)


async def _consume_batches(task: Any) -> Moved:
    async with _consumer(task) as consumer:
        got = size = 0
        counted = _Count(task)
        async for batch in consumer.batches():
            records = batch.records
            if not got:
                counted.first(len(records))
            for record in records:
                size += len(record.value)
            got += len(records)
            if got >= task.n:
                break
        return counted.result(got, size)


async def _consume_columns(task: Any) -> Moved:
    from kafkawire.sdk.consumer.arrow import to_arrow

    async with _consumer(task) as consumer:
        got = 0
        counted = _Count(task)
        while got < task.n:
            table = to_arrow(await consumer.getbatches(1000, 500))
            if not got:
                counted.first(table.num_rows)
            got += table.num_rows
        return counted.result(got, got * task.size)


async def _latency(task: Any) -> Moved:
    from kafkawire import Consumer, TopicPartition

    latencies: list[float] = []
    padding, total = b"x" * (task.size - 8), task.n + _WARM_UP
    async with _producer(task) as producer, Consumer(task.bootstrap, auto_offset_reset="latest") as consumer:
        consumer.assign([TopicPartition(task.topic, 0)])

        async def consume() -> None:
            async for record in consumer:
                latencies.append(time.perf_counter() - struct.unpack_from(">d", record.value or b"")[0])
                if len(latencies) >= total:
                    return

        consuming = asyncio.ensure_future(consume())
        await asyncio.sleep(0.5)  # until the first fetch is waiting at the broker
        start = time.perf_counter()
        for number in range(total):
            pause = start + number / task.rate - time.perf_counter()
            if pause > 0:
                await asyncio.sleep(pause)
            producer.send(task.topic, struct.pack(">d", time.perf_counter()) + padding)
        await producer.flush()
        await asyncio.wait_for(consuming, 20)
    return {"lat": latencies[_WARM_UP:]}


def _version(_: Any) -> str:
    import kafkawire

    return kafkawire.__version__


CLIENTS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "kafkawire send": {"produce": _run(_produce_send), "version": _version},
    "kafkawire send_many": {"produce": _run(_produce_many), "version": _version},
    "kafkawire async for": {"consume": _run(_consume_for), "version": _version},
    "kafkawire batches": {"consume": _run(_consume_batches), "version": _version},
    "kafkawire columns": {"consume": _run(_consume_columns), "version": _version},
    "kafkawire": {"latency": _run(_latency), "version": _version},
}
