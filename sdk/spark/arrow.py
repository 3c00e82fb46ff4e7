"""Convert raw record batches to Arrow, with the columns of Spark's Kafka connector; does not need Spark.

`decode.py` runs this in Spark's Python workers. Control batches are left out, as in the connector. A value must hold
whole batches: a partial one at its end counts as damage.

Source: `KafkaRecordToRowConverter` in Apache Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import pyarrow

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import Batch, walk
from kafkawire.sdk.records.columns import columns

__all__ = ["SCHEMA", "SCHEMA_WITH_HEADERS", "Errors", "decoded"]

#: What to do about damaged data: raise an error, or leave it out.
Errors = Literal["raise", "skip"]

#: Target size of the Arrow batches. Each costs Spark a fixed time, which is negligible from about this size on.
ARROW_BATCH_BYTES = 4 * 1024 * 1024

#: Limits of one decoding call, which has a fixed cost too: batches, and bytes of batches. Decompressed to the limit, 16
#: batches stay below the 2 GiB that Arrow's int32 offsets can address.
_GROUP_BATCHES_MAX = 16
_GROUP_BYTES = 1024 * 1024

#: The connector's columns. Spark's timestamps are microseconds in UTC, whatever the session's time zone.
SCHEMA = pyarrow.schema(
    [
        ("key", pyarrow.binary()),
        ("value", pyarrow.binary()),
        ("topic", pyarrow.string()),
        ("partition", pyarrow.int32()),
        ("offset", pyarrow.int64()),
        ("timestamp", pyarrow.timestamp("us", "UTC")),
        ("timestampType", pyarrow.int32()),
    ]
)

#: NO_TIMESTAMP_TYPE of Kafka's consumer: magic 0 has no timestamps.
_NO_TIMESTAMP_TYPE = -1

_HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))

#: `SCHEMA` with the connector's `includeHeaders`.
SCHEMA_WITH_HEADERS = SCHEMA.append(pyarrow.field("headers", _HEADERS))


class _Row(NamedTuple):
    """The row that raw batches come from.

    Attributes:
        number: the row's number within the task, from 0.
        topic: None if it is not known.
        partition: None if it is not known.
    """

    number: int
    topic: str | None
    partition: int | None

    def __str__(self) -> str:
        return f"row {self.number}" + ("" if self.topic is None else f" ({self.topic}-{self.partition})")


#: Batches that are decoded in one call, each with its row.
_Group = list[tuple[_Row, Batch]]


def decoded(
    rows: Iterator[pyarrow.RecordBatch], headers: bool = False, errors: Errors = "raise"
) -> Iterator[pyarrow.RecordBatch]:
    """Decode the raw record batches of rows.

    Args:
        rows: three columns: raw batches, binary, one or more per value; topic, string; partition, int32.
        headers: whether to include the headers.
        errors: "raise", or "skip" to leave out damaged batches; after a damaged size, the rest of the value.

    Yields:
        Arrow batches of `SCHEMA` or `SCHEMA_WITH_HEADERS`, about `ARROW_BATCH_BYTES` large; a record batch is never
        split.

    Raises:
        DecodeError: damaged data; the path begins with the row, the offset counts from the start of its value.
    """
    waiting: list[pyarrow.RecordBatch] = []
    waiting_bytes = 0
    for found in _decoded_groups(rows, headers, errors):
        if waiting and waiting_bytes + found.nbytes > ARROW_BATCH_BYTES:
            yield _joined(waiting)
            waiting, waiting_bytes = [], 0
        waiting.append(found)
        waiting_bytes += found.nbytes
    if waiting:
        yield _joined(waiting)


def _decoded_groups(
    rows: Iterator[pyarrow.RecordBatch], headers: bool, errors: Errors
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the records of each group; of a damaged group, batch by batch."""
    for group in _groups(rows, errors):
        try:
            yield _columns(group, headers)
        except DecodeError:
            for row, batch in group:
                try:
                    yield _columns([(row, batch)], headers)
                except DecodeError as error:
                    if errors == "raise":
                        raise _located(row, error) from None


def _groups(rows: Iterator[pyarrow.RecordBatch], errors: Errors) -> Iterator[_Group]:
    """Yield the record batches of all rows in groups."""
    group: _Group = []
    group_bytes = 0
    for row, batch in _batches(rows, errors):
        if group and (group_bytes + batch.size_in_bytes > _GROUP_BYTES or len(group) == _GROUP_BATCHES_MAX):
            yield group
            group, group_bytes = [], 0
        group.append((row, batch))
        group_bytes += batch.size_in_bytes
    if group:
        yield group


def _batches(rows: Iterator[pyarrow.RecordBatch], errors: Errors) -> Iterator[tuple[_Row, Batch]]:
    """Yield the record batches of all rows, unchecked; control batches are checked and left out."""
    number = 0
    for table in rows:
        for raw, topic, partition in zip(*table.columns, strict=True):
            row = _Row(number, topic.as_py(), partition.as_py())
            number += 1
            try:
                for batch in walk(_bytes(raw), check_crc=False):
                    if batch.is_control:
                        batch.check_crc()  # that bit may be the damage
                    else:
                        yield row, batch
            except DecodeError as error:
                if errors == "raise":
                    raise _located(row, error) from None


def _bytes(value: pyarrow.Scalar) -> memoryview:
    """Return the bytes of a value without copying; nothing for a null."""
    return memoryview(value.as_buffer()).cast("B") if value.is_valid else memoryview(b"")


def _located(row: _Row, error: DecodeError) -> DecodeError:
    return DecodeError(f"{row}, {error.path}", error.offset, error.reason)


def _columns(group: _Group, headers: bool) -> pyarrow.RecordBatch:
    """Return the records of a group.

    Raises:
        DecodeError: a batch is damaged, or a timestamp is out of Spark's range.
    """
    for _, batch in group:
        batch.check_crc()
    found = columns(batch for _, batch in group).to_arrow(copy=True)
    try:
        timestamps = found["timestamp"].cast(pyarrow.timestamp("ms", "UTC")).cast(SCHEMA.field("timestamp").type)
    except pyarrow.ArrowInvalid as error:
        raise DecodeError("timestamp", group[0][1].position, str(error)) from None
    counts = [batch.records_count for _, batch in group]
    arrays = [
        found["key"],
        found["value"],
        _repeated([row.topic for row, _ in group], pyarrow.string(), counts),
        _repeated([row.partition for row, _ in group], pyarrow.int32(), counts),
        found["offset"],
        timestamps,
        _repeated([_timestamp_type(batch) for _, batch in group], pyarrow.int32(), counts),
    ]
    if headers:
        arrays.append(_headers(group))
    return pyarrow.RecordBatch.from_arrays(arrays, schema=SCHEMA_WITH_HEADERS if headers else SCHEMA)


def _headers(group: _Group) -> pyarrow.Array:
    """Return the headers of each record; null if there are none, as in the connector."""
    listed = [
        [{"key": name, "value": content} for name, content in record.headers] or None
        for _, batch in group
        for record in batch.views()
    ]
    return pyarrow.array(listed, _HEADERS)


def _timestamp_type(batch: Batch) -> int:
    return _NO_TIMESTAMP_TYPE if batch.timestamp_type is None else int(batch.timestamp_type)


def _repeated(values: list[Any], kind: pyarrow.DataType, counts: list[int]) -> pyarrow.Array:
    """Return an array that repeats each value by its count."""
    if all(value == values[0] for value in values):
        return pyarrow.repeat(pyarrow.scalar(values[0], kind), sum(counts))
    runs = zip(values, counts, strict=True)
    return pyarrow.concat_arrays([pyarrow.repeat(pyarrow.scalar(value, kind), count) for value, count in runs])


def _joined(found: list[pyarrow.RecordBatch]) -> pyarrow.RecordBatch:
    return pyarrow.Table.from_batches(found).combine_chunks().to_batches()[0] if len(found) > 1 else found[0]
