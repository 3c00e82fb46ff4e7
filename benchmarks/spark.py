"""Measure the Spark data sources against Spark's Kafka connector and against UDFs with other clients' decoders.

    python -m benchmarks spark [--records N] [--rounds N] [--write docs/benchmarks.md]

The data is in two topics of an Apache Kafka broker, with values of 100 B and of 1 KiB, uncompressed, in four
partitions; Spark is `local[2]`. The contenders take turns in one session, and must give the same answer. CPU includes
the JVM, its Python workers and the broker. Each ratio compares one round, and the median ratio is reported.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import decoding
from benchmarks.broker_servers import java_release
from benchmarks.document import write_section
from benchmarks.goals import Goal, goal_table
from benchmarks.machine import description
from benchmarks.spark_queries import NOTHING_DECODED, Answer, Place, Query, of_batches, of_topic, write_batches
from kafkawire import Admin, NewTopic, Producer
from tests.kafka.apache import ApacheKafka
from tests.kafka.connector import connector_jars
from tests.spark_session import local_session
from tools.processes import cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["main"]

_CONNECTOR = "Kafka connector"

#: For each value size: the contender, and the required ratios of the connector's CPU time and elapsed time to ours.
_WANTED: Mapping[int, Sequence[tuple[str, float, float | None]]] = {
    100: (
        ("kafka_segments", 2.0, None),
        ("kafka_segments, values alone", 2.5, None),
        ("kafka_segments, summed up in Python", 8.0, None),
    ),
    1024: (("kafka_segments", 1.0, 1.3), ("kafka_segments, summed up in Python", 2.5, None)),
}

#: The required ratio of the UDFs' CPU time to ours.
_UDFS_WANTED = {"UDF on kafka-python": 8.0, "UDF on aiokafka": 3.0}

_RECORDS = 10_000_000
_ROUNDS = 3
_PARTITIONS = 4
#: One in this many records goes into the 1 KiB topic, and into the rows of raw batches.
_LARGE_PART, _UDF_PART = 10, 5


class _Run(NamedTuple):
    """The cost of one query: the CPU time of all processes, and the elapsed time."""

    cpu_seconds: float
    seconds: float


class _Measured(NamedTuple):
    """The measurements of one topic, or of its raw batches.

    Attributes:
        title: the title of its table.
        answer: the number of records, and the size of their values.
        runs: the runs of each contender, one per round.
    """

    title: str
    answer: Answer
    runs: dict[str, list[_Run]]

    def ratio(self, over: str, under: str, of: Callable[[_Run], float]) -> float:
        """Return the median of the per-round ratios."""
        pairs = zip(self.runs[over], self.runs[under], strict=True)
        return statistics.median(of(above) / of(below) for above, below in pairs)


def main(arguments: Sequence[str]) -> None:
    """Measure, print the tables, and with --write put them into a document."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks spark")
    parser.add_argument(
        "--records", type=int, default=_RECORDS, metavar="N", help="number of 100 B records; a tenth as many of 1 KiB"
    )
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="number of rounds; the medians count")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this document")
    options = parser.parse_args(arguments)
    more = {
        "Java": java_release(),
        "Spark": metadata.version("pyspark"),
        "connector": ", ".join(path.stem for path in connector_jars()),
    }
    machine = description(shlex.join(["python", "-m", "benchmarks", "spark", *arguments]), more)
    print(machine, flush=True)
    alone = [decoding.measure(*case) for case in decoding.CASES]
    print(f"\n{decoding.table(alone)}", flush=True)
    measured, goals = _measure_all(options.records, options.rounds)
    goals += decoding.goals(alone)
    tables = "\n\n".join(
        [*(_table(each) for each in measured), f"#### The decoder alone, one thread\n\n{decoding.table(alone)}"]
    )
    print(f"\n{goal_table(goals)}\n\n{tables}")
    if options.write:
        write_section(options.write, "spark", f"{machine}\n\n{goal_table(goals)}\n\n{tables}")


def _measure_all(records: int, rounds: int) -> tuple[list[_Measured], list[Goal]]:
    counts = {100: records, 1024: records // _LARGE_PART}
    measured: list[_Measured] = []
    goals: list[Goal] = []
    with ApacheKafka() as node, tempfile.TemporaryDirectory(prefix="kafkawire-spark-") as folder:
        for size, count in counts.items():
            asyncio.run(_fill(node.bootstrap, f"values-{size}", size, count))
        settings = {
            "spark_jars": ",".join(map(str, connector_jars())),
            "spark_driver_memory": "4g",
            "spark_driver_extraJavaOptions": "",  # the tests trade speed for a quick startup
            "spark_python_unix_domain_socket_enabled": "true",
        }
        with local_session(**settings) as spark:
            _register(spark)
            for size, count in counts.items():
                place = Place(node.bootstrap, node.data_dir, f"values-{size}")
                found = _measure(f"{count:,} values of {size} B", of_topic(spark, place), rounds, node.pid)
                measured.append(found)
                goals += _topic_goals(found, size)
                path = Path(folder) / place.topic
                write_batches(spark, place, path, count * size // _UDF_PART // 16_000)
                udfs = _measure(f"raw batches with values of {size} B", of_batches(spark, path), rounds, node.pid)
                measured.append(udfs)
                goals += _udf_goals(udfs, size)
    return measured, goals


async def _fill(bootstrap: str, topic: str, size: int, count: int) -> None:
    """Write random values, in the batches of Kafka's own producer."""
    async with Admin(bootstrap) as admin:
        await admin.create_topics(NewTopic(topic, _PARTITIONS))
    values = [os.urandom(size) for _ in range(1_000)]
    async with Producer(bootstrap, batch_size=16 * 1024) as producer:
        for start in range(0, count, 1_000):
            await producer.send_many(topic, values, partition=start // 1_000 % _PARTITIONS)


def _register(spark: SparkSession) -> None:
    from kafkawire.spark import KafkaSegments, KafkaWire

    spark.dataSource.register(KafkaSegments)
    spark.dataSource.register(KafkaWire)


def _measure(title: str, queries: Mapping[str, Query], rounds: int, broker: int) -> _Measured:
    """Run each query once to warm up, and then run the queries in turn.

    Raises:
        RuntimeError: two queries have different answers.
    """
    answers = {name: query() for name, query in queries.items()}
    answers.pop(NOTHING_DECODED, None)
    if len(set(answers.values())) != 1:
        raise RuntimeError(f"{title}: {answers}")
    runs: dict[str, list[_Run]] = {name: [] for name in queries}
    for number in range(rounds):
        for name, query in queries.items():
            cpu, start = cpu_seconds(broker), time.perf_counter()
            query()
            run = _Run(cpu_seconds(broker) - cpu, time.perf_counter() - start)
            runs[name].append(run)
            print(
                f"{title}, round {number + 1}: {name} {run.cpu_seconds:.2f} s of CPU, {run.seconds:.2f} s", flush=True
            )
    return _Measured(title, next(iter(answers.values())), runs)


def _topic_goals(found: _Measured, size: int) -> list[Goal]:
    goals = []
    for name, cpu, wall in _WANTED[size]:
        case = f"{size} B"
        goals.append(Goal(f"{name}, {case}, CPU", cpu, {case: found.ratio(_CONNECTOR, name, _cpu)}))
        if wall is not None:
            goals.append(Goal(f"{name}, {case}, time", wall, {case: found.ratio(_CONNECTOR, name, _time)}))
    return goals


def _udf_goals(found: _Measured, size: int) -> list[Goal]:
    return [
        Goal(
            f"decode_batches over a {name}, {size} B, CPU",
            wanted,
            {f"{size} B": found.ratio(name, "decode_batches", _cpu)},
        )
        for name, wanted in _UDFS_WANTED.items()
    ]


def _cpu(run: _Run) -> float:
    return run.cpu_seconds


def _time(run: _Run) -> float:
    return run.seconds


def _table(measured: _Measured) -> str:
    records, size = measured.answer
    first = next(iter(measured.runs))
    lines = [
        f"#### {measured.title}",
        "",
        f"{records:,} records with {size:,} bytes; ratios are relative to {first}.",
        "",
        "| | CPU s | M records per CPU s | ratio | s | ratio |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, runs in measured.runs.items():
        cpu, seconds = (statistics.median(map(of, runs)) for of in (_cpu, _time))
        ratios = (measured.ratio(first, name, of) for of in (_cpu, _time))
        over_cpu, over_time = (f"{ratio:.2f}x" for ratio in ratios)
        lines.append(f"| {name} | {cpu:.2f} | {records / cpu / 1e6:.2f} | {over_cpu} | {seconds:.2f} | {over_time} |")
    return "\n".join(lines)
