"""Measure everything that needs no broker, and report which goals are met.

    python -m benchmarks [--quick] [--write docs/benchmarks.md] [codec] [damaged] [records] [produced] …
    python -m benchmarks broker ...                   the reference broker and Apache Kafka: benchmarks/broker.py
    python -m benchmarks cluster ...                  three brokers, ours and Apache Kafka's: benchmarks/cluster.py
    python -m benchmarks dump ...                     `kafkawire dump` and DumpLogSegments: benchmarks/dump.py
    python -m benchmarks languages ...                the codecs, and those of Go and Java: benchmarks/languages.py
    python -m benchmarks spark ...                    the data sources and Spark's connector: benchmarks/spark.py
    python -m benchmarks spark-sizes ...              what Spark needs for each GB: benchmarks/spark_sizes.py

All functions run in one process and take turns, and the best time of several rounds is reported; imports run in fresh
processes. Only the ratios are meaningful, because machines are shared and their clock rates drift.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import (
    broker,
    cluster,
    codec,
    damaged,
    dump,
    imports,
    languages,
    produced,
    records,
    sends,
    spark,
    spark_sizes,
)
from benchmarks.document import write_section
from benchmarks.goals import Goal, goal_table
from benchmarks.machine import description
from kafkawire.sdk.records import Compression

PARTS = ("codec", "damaged", "records", "produced", "sends", "imports")

#: Parts with their own arguments.
_PROGRAMS: Mapping[str, Callable[[list[str]], None]] = {
    "broker": broker.main,
    "cluster": cluster.main,
    "dump": dump.main,
    "languages": languages.main,
    "spark": spark.main,
    "spark-sizes": spark_sizes.main,
}

#: Seconds per function, over all its rounds. A normal run takes about three minutes.
SECONDS = 0.2
QUICK_SECONDS = 0.03


def main() -> None:
    """Measure the selected parts, print the tables, and with --write put them into a document."""
    if len(sys.argv) > 1 and (run := _PROGRAMS.get(sys.argv[1])):
        run(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description="Measure codecs, record batches and imports against other libraries.")
    parser.add_argument("part", nargs="*", help=f"{', '.join(PARTS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="take a tenth of the time, for a first look")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this document")
    options = parser.parse_args()
    unknown = set(options.part) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}; expected one or more of {', '.join(PARTS)}")
    parts = options.part or PARTS
    if options.write and set(parts) != set(PARTS):
        parser.error("--write requires all parts")
    machine = description(shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]))
    print(machine, flush=True)
    seconds = QUICK_SECONDS if options.quick else SECONDS
    goals: list[Goal] = []
    texts: list[str] = []
    for part in parts:
        text, reached = _measure(part, seconds)
        print(f"\n{text}", flush=True)
        texts.append(text)
        goals += reached
    table = goal_table(goals)
    print(f"\n### Goals\n\n{table}")
    if options.write:
        write_section(options.write, "goals", f"{machine}\n\n{table}")
        write_section(options.write, "tables", "\n\n".join(texts))


def _measure(part: str, seconds: float) -> tuple[str, list[Goal]]:
    """Return the tables and goals for a part."""
    if part == "codec":
        messages = [codec.measure(case, seconds) for case in codec.CASES]
        return f"### Messages\n\n{codec.tables(messages)}", codec.goals(messages)
    if part == "damaged":
        refused = [damaged.measure(case, seconds) for case in codec.CASES]
        return f"### Damaged messages\n\n{damaged.tables(refused)}", damaged.goals(refused)
    if part == "records":
        batches = [records.measure(count, size, seconds) for size in records.SIZES for count in records.COUNTS]
        kinds = [kind for kind in Compression if kind != Compression.NONE]
        batches += [records.measure_compressed(kind, seconds=seconds) for kind in kinds]
        return f"### Record batches\n\n{records.tables(batches)}", records.goals(batches)
    if part == "produced":
        taken = [produced.measure(*case, seconds) for case in produced.CASES]
        return f"### Produced batches\n\nMicroseconds.\n\n{produced.tables(taken)}", produced.goals(taken)
    if part == "sends":
        calls = sends.measure(seconds)
        return f"### One call of `send`\n\n{sends.tables(calls)}", sends.goals(calls)
    starts = imports.measure()
    return f"### Imports\n\n{imports.tables(starts)}", imports.goals(starts)


if __name__ == "__main__":
    main()
