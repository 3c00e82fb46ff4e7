"""Compare clients end to end against one broker: throughput, CPU time and memory.

    python -m benchmarks.clients --bootstrap HOST:PORT [--size 100] [--messages 500000] [--rounds 3] [--plugin FILE.py]

Every measurement runs in a fresh process, so CPU time and memory are those of the client alone. It moves some messages
first, so imports and connecting are not included. Clients alternate within each round, and the table contains medians
and ratios to confluent-kafka. A plug-in adds `CLIENTS = {"name": {"produce": f, "consume": f}}`, in which each function
takes a `Task` and returns the number of messages it moved. Peers that are not installed are reported and skipped.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.document import write_section
from benchmarks.machine import description
from tools.processes import status_kb

__all__ = ["CLIENTS", "Task", "main"]

#: Linger and batch size are the same for all clients that have them.
LINGER_MS = 20
BATCH_BYTES = 262_144
FETCH_BYTES = 4_194_304


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one measurement.

    Attributes:
        bootstrap: the address of the broker.
        topic: a topic with one partition.
        messages: the number of messages to move.
        size: the size of each value, in bytes.
    """

    bootstrap: str
    topic: str
    messages: int
    size: int


Client = Callable[[Task], int]
CLIENTS: dict[str, dict[str, Client]] = {}


def client(name: str, kind: str) -> Callable[[Client], Client]:
    """Register a function as the `produce` or `consume` of a client."""

    def register(function: Client) -> Client:
        CLIENTS.setdefault(name, {})[kind] = function
        return function

    return register


_PRODUCER: dict[str, Any] = {"acks": "all", "linger_ms": LINGER_MS, "batch_size": BATCH_BYTES}


@client("kafkawire", "produce")
def _kafkawire_produce(task: Task) -> int:
    from kafkawire import Producer

    async def run() -> int:
        value = os.urandom(task.size)
        async with Producer(task.bootstrap, **_PRODUCER) as producer:
            for start in range(0, task.messages, 1_000):
                for _ in range(min(1_000, task.messages - start)):
                    producer.send(task.topic, value)
                await producer.drain()
            await producer.flush()
        return task.messages

    return asyncio.run(run())


@client("kafkawire send_many", "produce")
def _kafkawire_send_many(task: Task) -> int:
    from kafkawire import Producer

    async def run() -> int:
        value = os.urandom(task.size)
        async with Producer(task.bootstrap, **_PRODUCER) as producer:
            await producer.send_many(task.topic, (value for _ in range(task.messages)))
            await producer.flush()
        return task.messages

    return asyncio.run(run())


def _kafkawire_consumer(task: Task) -> Any:
    from kafkawire import Consumer, TopicPartition

    consumer = Consumer(task.bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=FETCH_BYTES)
    consumer.assign([TopicPartition(task.topic, 0)])
    return consumer


@client("kafkawire", "consume")
def _kafkawire_consume(task: Task) -> int:
    async def run() -> int:
        count = size = 0
        async with _kafkawire_consumer(task) as consumer:
            async for record in consumer:
                size += len(record.value)
                count += 1
                if count == task.messages:
                    break
        return count

    return asyncio.run(run())


@client("kafkawire batches", "consume")
def _kafkawire_batches(task: Task) -> int:
    async def run() -> int:
        count = size = 0
        async with _kafkawire_consumer(task) as consumer:
            async for batch in consumer.batches():
                for record in batch.records:
                    size += len(record.value)
                count += len(batch)
                if count >= task.messages:
                    break
        return count

    return asyncio.run(run())


@client("kafkawire columns", "consume")
def _kafkawire_columns(task: Task) -> int:
    from kafkawire.sdk.consumer.arrow import to_arrow

    async def run() -> int:
        count = 0
        async with _kafkawire_consumer(task) as consumer:
            while count < task.messages:
                count += to_arrow(await consumer.getbatches(1000, 500)).num_rows
        return count

    return asyncio.run(run())


@client("confluent-kafka", "produce")
def _confluent_produce(task: Task) -> int:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": task.bootstrap,
            "acks": "all",
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_048_576,
        }
    )
    value = os.urandom(task.size)
    for number in range(task.messages):
        while True:
            try:
                producer.produce(task.topic, value)
                break
            except BufferError:
                producer.poll(0.01)
        if not number & 1023:
            producer.poll(0)
    producer.flush()
    return task.messages


@client("confluent-kafka", "consume")
def _confluent_consume(task: Task) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": FETCH_BYTES,
            "queued.max.messages.kbytes": 262_144,
            "queued.min.messages": 1_000_000,  # by default, it stops fetching for a second at 100,000
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(task.topic, 0, 0)])
    count = size = 0
    while count < task.messages:  # a request for more than is available would wait for the whole second
        for message in consumer.consume(min(1000, task.messages - count), 1.0):
            size += len(message.value())
            count += 1
    consumer.close()
    return count


@client("aiokafka", "produce")
def _aiokafka_produce(task: Task) -> int:
    from aiokafka import AIOKafkaProducer

    async def run() -> int:
        value = os.urandom(task.size)
        options = {"acks": "all", "linger_ms": LINGER_MS, "max_batch_size": BATCH_BYTES}
        async with AIOKafkaProducer(bootstrap_servers=task.bootstrap, **options) as producer:
            for _ in range(task.messages):
                await producer.send(task.topic, value)
            await producer.flush()
        return task.messages

    return asyncio.run(run())


def _aiokafka_consumer(task: Task) -> Any:
    from aiokafka import AIOKafkaConsumer

    return AIOKafkaConsumer(
        bootstrap_servers=task.bootstrap, max_partition_fetch_bytes=FETCH_BYTES, auto_offset_reset="earliest"
    )


@client("aiokafka", "consume")
def _aiokafka_consume(task: Task) -> int:
    from aiokafka import TopicPartition

    async def run() -> int:
        count = size = 0
        async with _aiokafka_consumer(task) as consumer:
            consumer.assign([TopicPartition(task.topic, 0)])
            async for message in consumer:
                size += len(message.value)
                count += 1
                if count == task.messages:
                    break
        return count

    return asyncio.run(run())


@client("aiokafka getmany", "consume")
def _aiokafka_getmany(task: Task) -> int:
    from aiokafka import TopicPartition

    async def run() -> int:
        count = size = 0
        async with _aiokafka_consumer(task) as consumer:
            consumer.assign([TopicPartition(task.topic, 0)])
            while count < task.messages:
                for messages in (await consumer.getmany(timeout_ms=1000)).values():
                    for message in messages:
                        size += len(message.value)
                        count += 1
        return count

    return asyncio.run(run())


@client("kafka-python", "produce")
def _kafka_python_produce(task: Task) -> int:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=task.bootstrap, acks="all", linger_ms=LINGER_MS, batch_size=BATCH_BYTES)
    value = os.urandom(task.size)
    for _ in range(task.messages):
        producer.send(task.topic, value)
    producer.flush()
    producer.close()
    return task.messages


@client("kafka-python", "consume")
def _kafka_python_consume(task: Task) -> int:
    from kafka import KafkaConsumer, TopicPartition

    options = {"max_partition_fetch_bytes": FETCH_BYTES, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer = KafkaConsumer(bootstrap_servers=task.bootstrap, **options)
    consumer.assign([TopicPartition(task.topic, 0)])
    count = size = 0
    while count < task.messages:
        for messages in consumer.poll(timeout_ms=1000, max_records=10_000).values():
            for message in messages:
                size += len(message.value)
                count += 1
    consumer.close()
    return count


#: The total size of all values in one measurement, small enough not to measure the broker's disk.
_VALUES_BYTES_MAX = 100_000_000

#: Slow clients move only one in this many messages, so a round ends in time.
_SHARES = {"aiokafka": 5, "aiokafka getmany": 5, "kafka-python": 10}


#: The number of messages moved before the clock starts.
_WARM_UP_MESSAGES = 1_000


def _one(name: str, kind: str, task: Task) -> None:
    """Run one measurement in this process and print it as JSON."""
    run = CLIENTS[name][kind]
    run(replace(task, messages=min(task.messages, _WARM_UP_MESSAGES)))
    start, cpu_start = time.perf_counter(), time.process_time()
    count = run(task)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu_start
    print(json.dumps({"count": count, "seconds": seconds, "cpu": cpu, "rss": _peak_memory_mb()}))


def _peak_memory_mb() -> float:
    """Return the peak memory of this process; getrusage would return that of its parent if it is higher."""
    return status_kb(os.getpid(), "VmHWM") / 1024


def _measure(name: str, kind: str, task: Task, plugins: list[str]) -> dict[str, float] | str:
    """Run one measurement in a fresh process; return its result, or the reason why there is none."""
    command = [sys.executable, "-m", "benchmarks.clients", "--one", name, kind, json.dumps(asdict(task))]
    for plugin in plugins:
        command += ["--plugin", plugin]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return "took longer than 300 s"
    if result.returncode:
        return result.stderr.strip().splitlines()[-1]
    outcome: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return outcome


def _table(kind: str, task: Task, rounds: int, plugins: list[str]) -> str:
    names = [name for name, kinds in CLIENTS.items() if kind in kinds]
    results: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    notes = {}
    for _ in range(rounds):
        for name in names:
            part = Task(task.bootstrap, task.topic, task.messages // _SHARES.get(name, 1), task.size)
            outcome = _measure(name, kind, part, plugins)
            if isinstance(outcome, str):
                notes[name] = outcome
            else:
                results[name].append(outcome)
    lines = [
        f"#### {kind}, {task.size} B values, {task.messages:,} messages, median of {rounds} alternating rounds",
        "",
        "| client | messages/s | CPU s per million | RSS MB | throughput / confluent | CPU / confluent |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    rates = {name: _median([r["count"] / r["seconds"] for r in rows]) for name, rows in results.items()}
    cpus = {name: _median([r["cpu"] / r["count"] * 1e6 for r in rows]) for name, rows in results.items()}
    base = "confluent-kafka"
    for name in names:
        if results[name]:
            memory = _median([row["rss"] for row in results[name]])
            ratios = (rates[name] / rates[base], cpus[name] / cpus[base]) if results.get(base) else None
            text = f"{ratios[0]:.2f} | {ratios[1]:.2f}" if ratios else "- | -"
            lines.append(f"| {name} | {rates[name]:,.0f} | {cpus[name]:.2f} | {memory:.0f} | {text} |")
    lines += [f"\nNot measured: {name}: {note}" for name, note in notes.items()]
    return "\n".join(lines)


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0


async def _topic(bootstrap: str, name: str, *, fill: Task | None) -> None:
    """Recreate a topic, and fill it with messages for the consumers."""
    from kafkawire import Admin, NewTopic, Producer

    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(name, partitions=1, replication_factor=1)])
    if fill is not None:
        async with Producer(bootstrap, batch_size=BATCH_BYTES, linger_ms=LINGER_MS) as producer:
            await producer.send_many(name, [os.urandom(fill.size)] * fill.messages)
            await producer.flush()


def main(arguments: list[str] | None = None) -> None:
    """Run the comparison, and print its tables in Markdown."""
    parser = argparse.ArgumentParser(description="Compare Kafka clients against one broker.")
    parser.add_argument("--bootstrap", default="")
    parser.add_argument("--size", type=int, action="append")
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plugin", action="append", default=[])
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this document")
    parser.add_argument("--section", default="clients", help="the section of the document to replace")
    parser.add_argument("--broker", default="a broker", help="a description of the broker, for the document")
    parser.add_argument("--one", nargs=3, metavar=("CLIENT", "KIND", "TASK"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    for plugin in options.plugin:
        spec = importlib.util.spec_from_file_location("plugin", plugin)
        if spec is None or spec.loader is None:
            parser.error(f"--plugin {plugin}: not a Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        CLIENTS.update(module.CLIENTS)
    if options.one:
        name, kind, task = options.one
        _one(name, kind, Task(**json.loads(task)))
        return
    if not options.bootstrap:
        parser.error("--bootstrap HOST:PORT is required")
    command = shlex.join(["python", "-m", "benchmarks.clients", *(sys.argv[1:] if arguments is None else arguments)])
    texts = [f"{description(command)}\n| broker | {options.broker} |"]
    print(texts[0], end="\n\n", flush=True)
    stamp = int(time.time())
    for size in options.size or [100, 1024]:
        messages = max(1, min(options.messages, _VALUES_BYTES_MAX // size))
        for kind in ("produce", "consume"):
            task = Task(options.bootstrap, f"kafkawire-bench-{kind}-{size}-{stamp}", messages, size)
            asyncio.run(_topic(task.bootstrap, task.topic, fill=task if kind == "consume" else None))
            texts.append(_table(kind, task, options.rounds, options.plugin))
            print(texts[-1], end="\n\n", flush=True)
    if options.write:
        write_section(options.write, options.section, "\n\n".join(texts))


if __name__ == "__main__":
    main()
