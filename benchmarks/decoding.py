"""Measure just the decoder of Spark's data sources, from raw batches in memory to Arrow.

The decoder runs on one thread, and is compared with memcpy. It does a task's work between reading a file and passing
Arrow batches to Spark: it finds each batch, verifies its checksum, and copies keys, values and the other record fields,
or only the values, into the connector's seven columns. A memcpy of the same bytes, in pieces of the same size, shows
the limit of the machine's memory.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from typing import NamedTuple

import pyarrow

from benchmarks.goals import Goal
from benchmarks.timing import best_seconds
from kafkawire.sdk.records import BatchBuilder, stamp
from kafkawire.sdk.spark.columns.raw_values import DecodeOptions, decoded
from kafkawire.sdk.spark.schema import CONNECTOR

__all__ = ["CASES", "Decoded", "goals", "measure", "table"]

#: Value and batch sizes: the batch size of Kafka's producer by default, and a large one.
CASES = ((100, 16 * 1024), (100, 256 * 1024), (1024, 16 * 1024), (1024, 256 * 1024))

#: A size that is too large for any processor cache.
_SIZE_BYTES = 64 * 1024 * 1024
_PIECE_BYTES = 4 * 1024 * 1024
_TIMESTAMP = 1_790_000_000_000

#: The required rates: records per second at 100 B, and bytes per second at 1 KiB.
_RECORDS_WANTED, _BYTES_WANTED = 30e6, 4e9


class Decoded(NamedTuple):
    """The times of one case.

    Attributes:
        value_bytes: the size of each value.
        batch_bytes: the maximum size of a batch.
        records_count: the number of records in all batches.
        size_bytes: the total size of all batches.
        seconds: the times for the decoder with seven columns, the decoder with values alone, and memcpy, keyed by name.
    """

    value_bytes: int
    batch_bytes: int
    records_count: int
    size_bytes: int
    seconds: dict[str, float]

    @property
    def name(self) -> str:
        """The name of the case."""
        return f"{self.value_bytes} B in {self.batch_bytes // 1024} KiB"


def measure(value_bytes: int, batch_bytes: int, seconds: float = 3.0) -> Decoded:
    """Measure one case.

    Raises:
        RuntimeError: the decoder does not find every record.
    """
    content, count = _batches(value_bytes, batch_bytes)
    row = _row(content)
    functions: dict[str, Callable[[], object]] = {
        "seven columns": lambda: _decode(row, CONNECTOR),
        "values": lambda: _decode(row, ("value",)),
        "memcpy": lambda: _copy(content),
    }
    for name in ("seven columns", "values"):
        if functions[name]() != count:
            raise RuntimeError(f"{name}: the decoder did not find all of the {count} records")
    return Decoded(value_bytes, batch_bytes, count, len(content), best_seconds(functions, seconds, rounds=5))


def _batches(value_bytes: int, batch_bytes: int) -> tuple[memoryview, int]:
    content, count = bytearray(), 0
    while len(content) < _SIZE_BYTES:
        builder, offset = BatchBuilder(batch_bytes), count
        while builder.append(_TIMESTAMP, None, os.urandom(value_bytes)) is not None:
            count += 1
        batch = bytearray(builder.seal())
        stamp(batch, offset, 0)
        content += batch
    return memoryview(content), count


def _decode(content: pyarrow.RecordBatch, names: tuple[str, ...]) -> int:
    return sum(table.num_rows for table in decoded([content], DecodeOptions(names)))


def _row(content: memoryview) -> pyarrow.RecordBatch:
    """Return batches as the only row of an input for `decode_batches`, without copying them."""
    ends = pyarrow.py_buffer(array("i", [0, len(content)]))
    value = pyarrow.Array.from_buffers(pyarrow.binary(), 1, [None, ends, pyarrow.py_buffer(content)])
    columns = [value, pyarrow.array(["benchmark"]), pyarrow.array([0], pyarrow.int32())]
    return pyarrow.RecordBatch.from_arrays(columns, ["batches", "topic", "partition"])


def _copy(content: memoryview) -> None:
    for start in range(0, len(content), _PIECE_BYTES):
        bytearray(content[start : start + _PIECE_BYTES])


def table(found: list[Decoded]) -> str:
    """Return the results as a Markdown table."""
    lines = [
        "Millions of records and GB per second, of seven columns, of a memcpy of the same bytes, and of values alone.",
        "",
        "| values and batches | M records/s | GB/s | of a memcpy | values: M records/s | GB/s | memcpy: GB/s |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for case in found:
        columns, values, memcpy = (case.seconds[name] for name in ("seven columns", "values", "memcpy"))
        cells = [
            f"{case.records_count / columns / 1e6:.1f}",
            f"{case.size_bytes / columns / 1e9:.2f}",
            f"{memcpy / columns:.2f}x",
            f"{case.records_count / values / 1e6:.1f}",
            f"{case.size_bytes / values / 1e9:.2f}",
            f"{case.size_bytes / memcpy / 1e9:.2f}",
        ]
        lines.append(f"| {case.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def goals(found: list[Decoded]) -> list[Goal]:
    """Return the goals for the decoder: the measured rates divided by the required ones."""
    small = {case.name: case.records_count / case.seconds["seven columns"] for case in found if case.value_bytes == 100}
    large = {case.name: case.size_bytes / case.seconds["seven columns"] for case in found if case.value_bytes == 1024}
    return [
        Goal(
            "decoder alone, 100 B: over 30 M records/s",
            1.0,
            {name: rate / _RECORDS_WANTED for name, rate in small.items()},
        ),
        Goal("decoder alone, 1 KiB: over 4 GB/s", 1.0, {name: rate / _BYTES_WANTED for name, rate in large.items()}),
    ]
