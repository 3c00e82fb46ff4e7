"""Measure `kafkawire dump` and Kafka's DumpLogSegments on a 1 GB segment, and report whether the goal is met.

    python -m benchmarks dump [--size BYTES] [--rounds N] [--write docs/benchmarks.md]

Both run as users run them, in turn, each in a separate process with its output discarded. CPU is the kernel's CPU time
for the process, including the startup of Python or the JVM. The segment is identical on every machine.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.broker_servers import java_release
from benchmarks.document import write_section
from benchmarks.goals import Goal, goal_table
from benchmarks.machine import description, environment
from kafkawire.sdk.records import BatchBuilder, stamp
from tests.kafka.apache import java_command

__all__ = ["main"]

_DUMP = "org.apache.kafka.tools.DumpLogSegments"

#: The required ratio of DumpLogSegments' CPU time to ours.
_WANTED = 2.0

_SIZE_BYTES = 1_000_000_000
_ROUNDS = 3

#: The cases to compare, with the options for each tool.
_CASES = {
    "batches": ((), ("--only", "file,note,batch")),
    "records without their content (--deep-iteration)": (("--deep-iteration",), ("--without-content",)),
    "records (--print-data-log)": (("--print-data-log",), ()),
}

_SEED = 1
_VALUES = 1000
_VALUE_BYTES = 100
_RECORDS_OF_A_BATCH = 130
_START_MS = 1_700_000_000_000


class _Run(NamedTuple):
    """The result of one run: seconds of CPU, and the peak resident size in MB."""

    cpu_seconds: float
    memory_mb: float


def main(arguments: Sequence[str]) -> None:
    """Generate the segment, measure, print the tables, and with --write put them into a document."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks dump")
    parser.add_argument("--size", type=int, default=_SIZE_BYTES, metavar="BYTES", help="size of the segment")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="number of rounds; the median CPU counts")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this document")
    options = parser.parse_args(arguments)
    machine = description(shlex.join(["python", "-m", "benchmarks", "dump", *arguments]), {"Java": java_release()})
    print(machine, flush=True)
    with tempfile.TemporaryDirectory(prefix="kafkawire-dump-") as folder:
        path = Path(folder) / f"{0:020}.log"
        records = write_segment(path, options.size)
        size = path.stat().st_size
        print(f"\n{size:,} bytes, {records:,} records", flush=True)
        measured = {name: _measure(name, path, Path(folder), options.rounds) for name in _CASES}
    table = _table(measured, size, records)
    ratios = {name: theirs.cpu_seconds / ours.cpu_seconds for name, (theirs, ours) in measured.items()}
    goals = goal_table([Goal("dump of 1 GB, CPU", _WANTED, ratios)])
    print(f"\n{table}\n\n{goals}")
    if options.write:
        write_section(options.write, "dump", f"{machine}\n\n{goals}\n\n{table}")


def write_segment(path: Path, size_bytes: int) -> int:
    """Write a segment of 15.8 kB batches with 100-byte records; return the number of records."""
    chance = random.Random(_SEED)
    values = [chance.randbytes(_VALUE_BYTES // 2).hex().encode() for _ in range(_VALUES)]
    offset = size = 0
    with path.open("wb") as file:
        while size < size_bytes:
            builder = BatchBuilder()
            for number in range(offset, offset + _RECORDS_OF_A_BATCH):
                builder.append(_START_MS + number, b"key-%d" % number, values[number % _VALUES])
            data = bytearray(builder.build())
            stamp(data, offset, 0)
            size += file.write(data)
            offset += _RECORDS_OF_A_BATCH
    return offset


def _measure(name: str, path: Path, folder: Path, rounds: int) -> tuple[_Run, _Run]:
    """Return the median CPU time and the peak memory of DumpLogSegments, and those of ours."""
    their_options, our_options = _CASES[name]
    java = [*java_command(folder), _DUMP, *their_options, "--files", str(path)]
    python = [sys.executable, "-m", "kafkawire", "dump", *our_options, str(path)]
    found: tuple[list[_Run], list[_Run]] = ([], [])
    for number in range(rounds):
        for runs, command in zip(found, (java, python), strict=True):
            runs.append(_run(command))
            print(
                f"{name}, round {number + 1}: {Path(command[0]).name} {runs[-1].cpu_seconds:.2f} s of CPU", flush=True
            )
    theirs, ours = (
        _Run(statistics.median(run.cpu_seconds for run in runs), max(run.memory_mb for run in runs)) for runs in found
    )
    return theirs, ours


def _run(command: Sequence[str]) -> _Run:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{shlex.join(command[-4:])} ended with status {process.returncode}")
    return _Run(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _table(measured: dict[str, tuple[_Run, _Run]], size: int, records: int) -> str:
    lines = [
        f"CPU seconds for {size:,} bytes with {records:,} records, and the peak resident size in MB.",
        "",
        "| | DumpLogSegments | kafkawire | ratio | MB | MB, kafkawire |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, (theirs, ours) in measured.items():
        ratio = theirs.cpu_seconds / ours.cpu_seconds
        times = f"{theirs.cpu_seconds:.2f} | {ours.cpu_seconds:.2f} | {ratio:.2f}x"
        lines.append(f"| {name} | {times} | {theirs.memory_mb:.0f} | {ours.memory_mb:.0f} |")
    return "\n".join(lines)
