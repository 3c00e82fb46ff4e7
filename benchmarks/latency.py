"""Compare the latency of clients, from `send` to the consumer, at a steady rate, and their CPU time per message.

    python -m benchmarks.latency --bootstrap HOST:PORT [--rate 1000] [--messages 3000] [--rounds 3]

As in `clients.py`, each measurement runs in a fresh process, clients alternate within a round, and the table contains
medians. Producer and consumer are in one process, with `acks=all` and no linger. Ratios are relative to confluent-kafka
in the same round; below 1, kafkawire is faster or cheaper.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import kafkawire_plugin
from benchmarks.document import write_section
from benchmarks.machine import description

__all__ = ["CLIENTS", "Paced", "main"]

#: The number of warm-up messages, which keep connecting and the first fetch out of the measurement.
WARM_UP = 500


@dataclass(frozen=True, slots=True)
class Paced:
    """The work of one measurement.

    Attributes:
        bootstrap: the address of the broker.
        topic: a topic with one partition.
        n: the number of messages to measure.
        rate: messages per second.
        size: the size of each value, in bytes.
        linger, acks, batch: options that are the same for all clients.
    """

    bootstrap: str
    topic: str
    n: int
    rate: int
    size: int = 100
    linger: int = 0
    acks: str = "all"
    batch: int = 16_384


def _kafkawire(task: Paced) -> list[float]:
    seconds: list[float] = kafkawire_plugin.CLIENTS["kafkawire"]["latency"](task)["lat"]
    return seconds


def _confluent(task: Paced) -> list[float]:
    from confluent_kafka import Consumer, Producer, TopicPartition

    common = {"bootstrap.servers": task.bootstrap}
    producer = Producer({**common, "acks": task.acks, "linger.ms": task.linger, "batch.size": task.batch})
    consumer = Consumer({**common, "group.id": "bench", "enable.auto.commit": False})
    end_offset = consumer.get_watermark_offsets(TopicPartition(task.topic, 0), timeout=10)[1]
    consumer.assign([TopicPartition(task.topic, 0, end_offset)])
    consumer.poll(0.3)
    seconds: list[float] = []
    total = task.n + WARM_UP

    def consume() -> None:
        while len(seconds) < total and (message := consumer.poll(5.0)) is not None:
            seconds.append(time.perf_counter() - struct.unpack_from(">d", message.value() or b"")[0])

    reader = threading.Thread(target=consume)
    reader.start()
    padding, start = bytes(task.size - 8), time.perf_counter()
    for number in range(total):
        time.sleep(max(0.0, start + number / task.rate - time.perf_counter()))
        producer.produce(task.topic, struct.pack(">d", time.perf_counter()) + padding)
        producer.poll(0)
    producer.flush()
    reader.join()
    consumer.close()
    return seconds[WARM_UP:]


#: The first client is the reference for the ratios.
CLIENTS: dict[str, Callable[[Paced], list[float]]] = {"confluent-kafka": _confluent, "kafkawire": _kafkawire}


def _one(name: str, task: Paced) -> None:
    """Run one measurement in this process and print it as JSON."""
    if name == "confluent-kafka":
        import confluent_kafka  # noqa: F401  # before the clock starts, as the plug-in does for kafkawire
    start = time.process_time()
    seconds = CLIENTS[name](task)
    cpu = time.process_time() - start
    print(json.dumps({"p50": statistics.median(seconds), "cpu": cpu / len(seconds)}))


def _measure(name: str, task: Paced) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.latency", "--one", name, json.dumps(asdict(task))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    outcome: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return outcome


def table(rounds: dict[str, list[dict[str, float]]], rate: int) -> str:
    """Return the measurements of each client, as Markdown."""
    lines = [
        f"#### latency at {rate:,} messages/s, median of {min(map(len, rounds.values()))} alternating rounds",
        "",
        "| client | p50 ms | CPU µs per message | p50 / confluent | CPU / confluent |",
        "|---|--:|--:|--:|--:|",
    ]
    bases = next(iter(rounds.values()))
    for name, found in rounds.items():
        ratios = [
            statistics.median(each[what] / base[what] for each, base in zip(found, bases, strict=True))
            for what in ("p50", "cpu")
        ]
        p50, cpu = (statistics.median(each[what] for each in found) for what in ("p50", "cpu"))
        lines.append(f"| {name} | {p50 * 1e3:.3f} | {cpu * 1e6:.0f} | {ratios[0]:.2f} | {ratios[1]:.2f} |")
    return "\n".join(lines)


async def _make_topic(bootstrap: str, name: str) -> None:
    from kafkawire import Admin, NewTopic

    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(name, partitions=1, replication_factor=1)])


def main(arguments: list[str] | None = None) -> None:
    """Run the comparison, and print its table in Markdown."""
    parser = argparse.ArgumentParser(description="Compare the latency of Kafka clients against one broker.")
    parser.add_argument("--bootstrap", default="")
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--messages", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table into this document")
    parser.add_argument("--section", default="latency", help="the section of the document to replace")
    parser.add_argument("--one", nargs=2, metavar=("CLIENT", "TASK"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        _one(options.one[0], Paced(**json.loads(options.one[1])))
        return
    if not options.bootstrap:
        parser.error("--bootstrap HOST:PORT is required")
    task = Paced(options.bootstrap, f"kafkawire-bench-latency-{time.time_ns()}", options.messages, options.rate)
    asyncio.run(_make_topic(task.bootstrap, task.topic))
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in CLIENTS}
    for _ in range(options.rounds):
        for name in CLIENTS:
            rounds[name].append(_measure(name, task))
    command = shlex.join(["python", "-m", "benchmarks.latency", *(sys.argv[1:] if arguments is None else arguments)])
    text = f"{description(command)}\n\n{table(rounds, options.rate)}"
    print(text)
    if options.write:
        write_section(options.write, options.section, text)


if __name__ == "__main__":
    main()
