"""Measure Spark's cost per GB of log segments at several sizes, to find out whether the cost is linear.

    python -m benchmarks spark-sizes [--sizes GB ...] [--write docs/spark_sizing.md]

Segments of 256 MB, each in its own partition, with values of 100 B in batches of 16 KiB, are written once before the
measurement, so they are read from the system's cache if it is large enough. Spark is `local[2]`, and each size has its
own session. CPU includes the JVM and its Python workers.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.broker_servers import java_release
from benchmarks.document import write_section
from benchmarks.machine import description
from kafkawire.sdk.records import BatchBuilder, stamp
from tests.spark_session import local_session
from tools.processes import cpu_seconds, peak_memory_mb

__all__ = ["main"]

_SIZES_GB = (1, 4, 16)
_SEGMENT_BYTES = 256_000_000
_SEGMENTS_OF_A_GB = 4
_BATCH_BYTES = 16 * 1024
_VALUE_BYTES = 100
_START_MS = 1_790_000_000_000
_SEED = 1

#: The JVM's memory for every size. State that does not grow with the data must fit into it.
_DRIVER_MEMORY = "2g"


class _Run(NamedTuple):
    """The cost of one job at one size.

    Attributes:
        size_gb: the total size of the segments.
        job: the name of the job.
        cpu_seconds: the CPU time of all processes.
        seconds: the time from start to end.
        memory_mb: for each program, the highest peak resident size of its processes so far.
        written_mb: the size of the written files: tables and state for the next run.
    """

    size_gb: int
    job: str
    cpu_seconds: float
    seconds: float
    memory_mb: dict[str, float]
    written_mb: float


def main(arguments: Sequence[str]) -> None:
    """Measure, print the table, and with --write put it into a document."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks spark-sizes")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=_SIZES_GB, metavar="GB", help="sizes in ascending order"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table into this document")
    options = parser.parse_args(arguments)
    more = {"Java": java_release(), "Spark": metadata.version("pyspark"), "driver memory": _DRIVER_MEMORY}
    machine = description(shlex.join(["python", "-m", "benchmarks", "spark-sizes", *arguments]), more)
    print(machine, flush=True)
    runs: list[_Run] = []
    with tempfile.TemporaryDirectory(prefix="kafkawire-sizes-") as folder:
        logs = Path(folder) / "logs"
        for size_gb in options.sizes:
            records = _fill(logs, size_gb * _SEGMENTS_OF_A_GB)
            for run in _measure(logs, Path(folder) / f"audit-{size_gb}", size_gb, records):
                print(run, flush=True)
                runs.append(run)
    table = _table(runs)
    print(f"\n{table}")
    if options.write:
        write_section(options.write, "spark sizes", f"{machine}\n\n{table}")


def _fill(logs: Path, count: int) -> int:
    """Write the given number of segments; return how many records they have in total."""
    first = logs / "values-0" / f"{0:020}.log"
    if not first.exists():
        first.parent.mkdir(parents=True)
        _write_segment(first)
    for number in range(1, count):
        path = logs / f"values-{number}" / first.name
        if not path.exists():
            path.parent.mkdir()
            shutil.copyfile(first, path)
    return count * int(first.with_name("records").read_text("ascii"))


def _write_segment(path: Path) -> None:
    random, offset, size = Random(_SEED), 0, 0
    values = [random.randbytes(_VALUE_BYTES) for _ in range(1_000)]
    with path.open("wb") as file:
        while size < _SEGMENT_BYTES:
            builder, first = BatchBuilder(_BATCH_BYTES), offset
            while True:
                timestamp_ms, key = _START_MS + offset // 100, b"key-%d" % (offset % 1_000)
                if builder.append(timestamp_ms, key, random.choice(values)) is None:
                    break
                offset += 1
            batch = bytearray(builder.seal())
            stamp(batch, first, 0)
            size += file.write(batch)
    path.with_name("records").write_text(str(offset), "ascii")


def _measure(logs: Path, out: Path, size_gb: int, records: int) -> Iterator[_Run]:
    """Yield the cost of each job, after a small job has warmed up the session.

    Raises:
        RuntimeError: a record is missing.
    """
    from kafkawire.spark import audit, read_segments

    settings = {
        "spark_driver_memory": _DRIVER_MEMORY,
        "spark_driver_extraJavaOptions": "",  # the tests trade speed for a quick startup
        "spark_python_unix_domain_socket_enabled": "true",
    }
    with local_session(**settings) as spark:

        def rows() -> int:
            return int(read_segments(spark, logs).selectExpr("count(*)", "sum(length(value))").collect()[0][0])

        def audited() -> int:
            numbers = audit(spark, logs, out).numbers
            return int(numbers["records"] or 0)

        read_segments(spark, logs / "values-0").limit(1).collect()
        jobs: dict[str, Callable[[], int]] = {"seven columns, counted": rows, "audit": audited}
        for job, do in jobs.items():
            cpu, start = cpu_seconds(), time.perf_counter()
            found = do()
            seconds, written = time.perf_counter() - start, sum(path.stat().st_size for path in out.rglob("*"))
            run = _Run(size_gb, job, cpu_seconds() - cpu, seconds, peak_memory_mb(), written / 1e6)
            if found != records:
                raise RuntimeError(f"{job} of {size_gb} GB: found {found} records, but {records} exist")
            yield run


def _table(runs: Sequence[_Run]) -> str:
    lines = [
        "| job | GB | CPU s | CPU s per GB | s | s per GB | JVM, MB | Python worker, MB | written, MB |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for run in sorted(runs, key=lambda run: (run.job, run.size_gb)):
        java, python = (
            max((size for name, size in run.memory_mb.items() if name.startswith(program)), default=0)
            for program in ("java", "python")
        )
        costs = (run.cpu_seconds, run.cpu_seconds / run.size_gb, run.seconds, run.seconds / run.size_gb)
        cells = [f"{cost:.2f}" for cost in costs]
        cells += [f"{java:,.0f}", f"{python:,.0f}", f"{run.written_mb:.1f}"]
        lines.append(f"| {run.job} | {run.size_gb} | {' | '.join(cells)} |")
    return "\n".join(lines)
