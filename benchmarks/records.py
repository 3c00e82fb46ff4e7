"""Measure record batches against aiokafka's C extension and kafka-python: appending, decoding and decompressing.

Batches have 1 to 10,000 records of 100 B and of 1 KiB, with values but no keys. Building means creating a builder,
appending, and getting the sealed batch. Decoding starts with the bytes of one batch, verifies the checksum, and ends
with a list of records with all their fields, unless a column's name implies something else. `records` creates the
batch, checks it and reads it, as the peers do; `read_records` does all of this in one call. All builders must build
identical batches, and all decoders must find identical values in them.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any, NamedTuple

from benchmarks.goals import Goal
from benchmarks.timing import best_seconds
from kafkawire.sdk.protocol.tables.record_formats import BATCH_MAGIC, BATCH_MAGIC_AT
from kafkawire.sdk.records import (
    BatchBuilder,
    BinaryColumn,
    Compression,
    RecordBatch,
    batch_builder_class,
    read_records,
    record_batch_class,
)
from kafkawire.sdk.records.engines.selection import native

__all__ = ["COUNTS", "SIZES", "Result", "goals", "measure", "measure_compressed", "tables"]

COUNTS = (1, 10, 100, 1_000, 10_000)
SIZES = (100, 1024)

#: The operation, our column, the peer's column, and the lowest ratio allowed in any case.
_WANTED = (
    ("build", "native append", "aiokafka append", 2.5),
    ("build", "native append_many", "aiokafka append", 4.0),
    ("decode", "native read_records", "aiokafka records", 3.0),
)

#: The smallest number of records for which columns pay off and have a goal.
_COLUMNS_FROM = 1_000
_COLUMNS_WANTED = 8.0

_TIMESTAMP = 1_790_000_000_000
#: Upper bound for a record's overhead beyond its value.
_OVERHEAD = 40

Function = Callable[[], object]


class Result(NamedTuple):
    """The times for one batch.

    Attributes:
        records_count: the number of records in the batch.
        size: the size of each value in bytes.
        compression: the compression type of the batch.
        build: the seconds for building, keyed by codec.
        decode: the seconds for decoding, keyed by codec.
    """

    records_count: int
    size: int
    compression: Compression
    build: dict[str, float]
    decode: dict[str, float]

    @property
    def name(self) -> str:
        """The name of the case."""
        kind = "" if self.compression == Compression.NONE else f", {self.compression.name.lower()}"
        return f"{self.records_count:,} x {self.size} B{kind}"


def measure(count: int, size: int, seconds: float = 0.2) -> Result:
    """Measure uncompressed batches with all codecs, which take turns.

    Args:
        count: the number of records per batch.
        size: the size of each value in bytes.
        seconds: the time per function.
    """
    values = [os.urandom(size) for _ in range(count)]
    build, data = _builders(values, Compression.NONE, seconds)
    return Result(count, size, Compression.NONE, build, best_seconds(_decoders(data, values), seconds))


def measure_compressed(compression: Compression, count: int = 1_000, seconds: float = 0.2) -> Result:
    """Measure compressed batches of short JSON documents with all codecs, which take turns."""
    values = [
        b'{"id": %d, "user": "user-%d", "event": "page_view", "url": "/articles/%d", "reference": "%s"}'
        % (number, number % 97, number % 31, os.urandom(4).hex().encode())
        for number in range(count)
    ]
    build, data = _builders(values, compression, seconds)
    size = sum(map(len, values)) // count
    return Result(count, size, compression, build, best_seconds(_decoders(data, values), seconds))


def _builders(values: list[bytes], compression: Compression, seconds: float) -> tuple[dict[str, float], bytes]:
    """Return the seconds for each builder, and the batch."""
    functions = _own_builders(values, compression)
    data = bytes(functions["python append"]())  # type: ignore[call-overload]  # some buffer
    for name, module in (
        ("aiokafka", "aiokafka.record.default_records"),
        ("kafka-python", "kafka.record.default_records"),
    ):
        builder = _peer(name, module, "DefaultRecordBatchBuilder")
        if builder is not None:
            functions[f"{name} append"] = partial(_peer_build, builder, values, compression)
    if compression == Compression.NONE:
        for name, function in functions.items():
            # Peers do not write the fields that the broker sets, base offset and leader epoch.
            if bytes(function())[BATCH_MAGIC_AT:] != data[BATCH_MAGIC_AT:]:  # type: ignore[call-overload]  # some buffer
                raise AssertionError(f"{name} builds a different batch")
    return best_seconds(functions, seconds), data


def _own_builders(values: list[bytes], compression: Compression) -> dict[str, Function]:
    limit = sum(map(len, values)) + len(values) * _OVERHEAD + _OVERHEAD * 2
    ends, end = [0], 0
    for value in values:
        ends.append(end := end + len(value))
    column = BinaryColumn(struct.pack(f"={len(ends)}i", *ends), b"".join(values))

    def appended(builder_class: type[BatchBuilder]) -> object:
        builder = builder_class(limit, compression)
        append = builder.append
        for value in values:
            append(_TIMESTAMP, None, value)
        return builder.seal()

    def appended_at_once() -> object:
        builder = BatchBuilder(limit, compression)
        builder.append_many(values, _TIMESTAMP)
        return builder.seal()

    def appended_columns() -> object:
        builder = BatchBuilder(limit, compression)
        builder.append_columns(column, _TIMESTAMP)
        return builder.seal()

    functions: dict[str, Function] = {}
    if native is not None:
        functions = {
            "native append": partial(appended, BatchBuilder),
            "native append_many": appended_at_once,
            "native append_columns": appended_columns,
        }
    return {**functions, "python append": partial(appended, batch_builder_class("python"))}


def _peer_build(builder_class: Any, values: Iterable[bytes], compression: Compression) -> object:
    builder = builder_class(
        magic=BATCH_MAGIC,
        compression_type=int(compression),
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2**30,
    )
    append = builder.append
    for number, value in enumerate(values):
        append(number, _TIMESTAMP, None, value, [])
    return builder.build()


def _decoders(data: bytes, values: list[bytes]) -> dict[str, Function]:
    def checked(batch_class: type[RecordBatch]) -> RecordBatch:
        batch = batch_class(data)
        batch.check_crc()
        return batch

    def records(batch_class: type[RecordBatch]) -> list[Any]:
        batch = batch_class(data)
        batch.check_crc()
        return batch.records()

    def at_once(read: Callable[[bytes], list[Any]]) -> list[Any]:
        return read(data)

    def views() -> list[Any]:
        batch = RecordBatch(data)
        batch.check_crc()
        return list(batch.views())

    def peer(batch_class: Any) -> list[Any]:
        batch = batch_class(data)
        batch.validate_crc()
        return list(batch)

    functions: dict[str, Callable[[], list[Any]]] = {}
    if native is not None:
        functions |= {
            "native read_records": partial(at_once, read_records),
            "native records": partial(records, RecordBatch),
            "native views": views,
        }
    functions["python records"] = partial(records, record_batch_class("python"))
    for name, module in (
        ("aiokafka", "aiokafka.record.default_records"),
        ("kafka-python", "kafka.record.default_records"),
    ):
        batch_class = _peer(name, module, "DefaultRecordBatch")
        if batch_class is not None:
            functions[f"{name} records"] = partial(peer, batch_class)
    for name, function in functions.items():
        if [record.value for record in function()] != values:
            raise AssertionError(f"{name} finds different values")
    if native is not None:
        if checked(RecordBatch).to_arrow().column("value").to_pylist() != values:
            raise AssertionError("Arrow finds different values")
        columns: dict[str, Function] = {
            "native columns": lambda: checked(RecordBatch).columns(),
            "native to_arrow": lambda: checked(RecordBatch).to_arrow(),
        }
        return {**functions, **columns}
    return dict(functions)


def _peer(name: str, module: str, attribute: str) -> Any:
    try:
        return getattr(__import__(module, fromlist=[attribute]), attribute)
    except ImportError as error:
        print(f"{name} skipped: {error}")
        return None


def goals(results: Iterable[Result]) -> list[Goal]:
    """Return the goals, with the measured ratios for uncompressed batches."""
    plain = [result for result in results if result.compression == Compression.NONE]

    def ratios(kind: str, ours: str, base: str, counts: Container[int]) -> dict[str, float]:
        times = {result.name: getattr(result, kind) for result in plain if result.records_count in counts}
        return {name: each[base] / each[ours] for name, each in times.items() if base in each and ours in each}

    reached = []
    for counts, which in (((1,), "1 record"), (COUNTS[1:], "10 records and more")):
        for kind, ours, base, wanted in _WANTED:
            name = "decode to records" if kind == "decode" else ours.removeprefix("native ")
            what = f"{name}, {which}: native over aiokafka's C"
            reached.append(Goal(what, wanted, ratios(kind, ours, base, counts)))
    columns = ratios("decode", "native columns", "aiokafka records", range(_COLUMNS_FROM, COUNTS[-1] + 1))
    what = f"decode to columns, {_COLUMNS_FROM:,} records and more: native over aiokafka's C"
    return [*reached, Goal(what, _COLUMNS_WANTED, columns)]


def tables(results: list[Result]) -> str:
    """Return the results as Markdown tables: one for building, one for decoding."""
    return "\n\n".join(
        [
            "#### Building a batch: µs, and times as fast as aiokafka's C",
            _table(results, "build", "aiokafka append"),
            "#### Decoding a batch: µs, and times as fast as aiokafka's C",
            _table(results, "decode", "aiokafka records"),
        ]
    )


def _table(results: list[Result], kind: str, base: str) -> str:
    names = list(dict.fromkeys(name for result in results for name in getattr(result, kind)))
    lines = ["| batch | " + " | ".join(names) + " |", "|---|" + "--:|" * len(names)]
    for result in results:
        seconds = getattr(result, kind)
        cells = []
        for name in names:
            if name not in seconds:
                cells.append("-")
                continue
            ratio = f" ({seconds[base] / seconds[name]:.1f}x)" if base in seconds and name != base else ""
            cells.append(f"{seconds[name] * 1e6:,.1f}{ratio}")
        lines.append(f"| {result.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
