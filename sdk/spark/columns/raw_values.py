"""Convert raw record batches to Arrow, with the columns of Spark's Kafka connector; does not need Spark.

`decode.py` and `functions.py` run this in Spark's Python workers. Every byte of a value must belong to a batch; other
bytes are damage. Control batches are skipped, as in the connector.

Source: `KafkaRecordToRowConverter` in Apache Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import pyarrow

from kafkawire.sdk.errors import ConfigurationError, DecodeError, LocalProtocolError
from kafkawire.sdk.options import INT64_MAX
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records import Batch
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES
from kafkawire.sdk.records.rows import PlainBatches
from kafkawire.sdk.records.stored import Damage, Memory, Stored, read_stored
from kafkawire.sdk.spark.columns.inputs import check_binary
from kafkawire.sdk.spark.damage import Mode, Place, damage_of, parse_mode
from kafkawire.sdk.spark.decoder import Decoder
from kafkawire.sdk.spark.isolation import AbortedByResponse, AbortedTransaction, Outcomes, parse_committed_only
from kafkawire.sdk.spark.schema import arrow_schema, chosen

__all__ = ["DecodeOptions", "decode_options", "decoded", "decoded_lists", "outcomes_of", "raw_columns"]


#: Size limit for the lists built from the values of an Arrow batch, all of which must be in memory at the same time.
LISTS_BYTES_MAX = 256 * 1024 * 1024


class DecodeOptions(NamedTuple):
    """Options for decoding raw batches.

    Attributes:
        names: the column names; see `schema.py`.
        mode: how damage is handled.
        is_committed_only: whether to omit records of transactions that were aborted or have not ended.
        decompressed_bytes_max: the maximum size of a batch's records after decompression, in bytes.
    """

    names: tuple[str, ...]
    mode: Mode = Mode.FAILFAST
    is_committed_only: bool = False
    decompressed_bytes_max: int = MAX_DECOMPRESSED_BYTES


def decode_options(
    *,
    headers: bool,
    extra: Iterable[str],
    mode: str,
    isolation_level: str,
    decompressed_bytes_max: int = MAX_DECOMPRESSED_BYTES,
) -> DecodeOptions:
    """Check the options given by a user, and return them; see `decode_batches`.

    Raises:
        ConfigurationError: the mode, isolation level or an extra column is unknown, or the limit is not a number of at
            least 1.
    """
    parsed = parse_mode(mode)
    most = decompressed_bytes_max
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= INT64_MAX:
        raise ConfigurationError("decompressed_bytes_max", most, f"expected 1 to {INT64_MAX}")
    names = chosen(headers=headers, extra=extra, corrupt=parsed is Mode.PERMISSIVE)
    return DecodeOptions(names, parsed, parse_committed_only("isolation_level", isolation_level), most)


def decoded(rows: Iterable[pyarrow.RecordBatch], options: DecodeOptions) -> Iterator[pyarrow.RecordBatch]:
    """Decode the raw record batches in rows.

    Args:
        rows: three columns: raw batches (binary, any number per value), topic (string), and partition (int32). A fourth
            column, lists of `producerId` and `firstOffset`, contains the aborted transactions of a fetch response;
            without it, the markers in a value determine how its transactions ended.
        options: the decoding options.

    Yields:
        Arrow batches with the columns of `options.names`.

    Raises:
        DecodeError: the data is damaged and the mode is FAILFAST; the error's path names the row, and its offset is
            relative to the start of the value.
        LocalProtocolError: an aborted transaction has no producer or offset.
    """
    decoder = Decoder(options.names, options.mode)
    number = 0
    for table in rows:
        values = _values(table.column(0))
        for content, *cells in zip(values, *table.columns[1:], strict=True):
            place = Place(cells[0].as_py(), cells[1].as_py(), row=number)
            number += 1
            is_listed = options.is_committed_only and table.num_columns > 3
            aborted = _transactions(place, cells[2]) if is_listed else None
            yield from _value(decoder, place, content, options, aborted)
    yield from decoder.finish()


def decoded_lists(values: pyarrow.Array, options: DecodeOptions) -> pyarrow.Array:
    """Decode raw record batches into a list of structs for each value; null for a null.

    Raises:
        ConfigurationError: the values are not binary.
        DecodeError: as for `decoded`.
        LocalProtocolError: the lists take more than `LISTS_BYTES_MAX`.
    """
    check_binary("batches", values)
    if pyarrow.types.is_null(values.type):
        values = values.cast(pyarrow.binary())
    schema = arrow_schema(options.names)
    decoder = Decoder(options.names, options.mode)
    ends: list[int | None] = []
    pieces: list[list[pyarrow.Array]] = [[] for _ in schema]
    count = size = 0
    for number, (content, is_there) in enumerate(zip(_values(values), values.is_valid().to_pylist(), strict=True)):
        ends.append(count if is_there else None)
        place = Place(None, None, row=number)
        for table in chain(_value(decoder, place, content, options, None), decoder.flush()):
            for column, piece in zip(pieces, table.columns, strict=True):
                column.append(piece)
            count += table.num_rows
            size += table.nbytes
            if size > LISTS_BYTES_MAX:
                raise LocalProtocolError(
                    f"the records of {number + 1} values take more than {LISTS_BYTES_MAX} bytes as arrays; use "
                    "decode_batches, or lower spark.sql.execution.arrow.maxRecordsPerBatch"
                )
    decoder.dropped.finish()
    columns = [_joined(column, field.type) for column, field in zip(pieces, schema, strict=True)]
    content = pyarrow.StructArray.from_arrays(columns, fields=list(schema))
    return pyarrow.ListArray.from_arrays(pyarrow.array([*ends, count], pyarrow.int32()), content)


def _joined(pieces: list[pyarrow.Array], kind: pyarrow.DataType) -> pyarrow.Array:
    """Join the pieces of a column and release them: two copies of all columns would take too much memory."""
    joined = pyarrow.concat_arrays(pieces) if pieces else pyarrow.array([], kind)
    pieces.clear()
    return joined


def raw_columns(table: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Return the columns of a table for `decoded`: `batches`, and `topic` and `partition` if they exist.

    Raises:
        ConfigurationError: a column has an invalid type or value.
        LocalProtocolError: the argument is not a table, or has no column `batches`.
    """
    if not isinstance(table, pyarrow.RecordBatch):
        raise LocalProtocolError(f"expected a table, as in TABLE(SELECT batches FROM raw), not a {table.type}")
    if "batches" not in table.schema.names:
        raise LocalProtocolError(f"the table has the columns {', '.join(table.schema.names)} but needs `batches`")
    kinds = {"batches": pyarrow.binary(), "topic": pyarrow.string(), "partition": pyarrow.int32()}
    arrays = [
        _converted(name, table[name], kind) if name in table.schema.names else pyarrow.nulls(table.num_rows, kind)
        for name, kind in kinds.items()
    ]
    return pyarrow.RecordBatch.from_arrays(arrays, list(kinds))


def _converted(name: str, column: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    if pyarrow.types.is_binary(kind):
        check_binary(name, column)
    try:
        return column.cast(kind)
    except pyarrow.ArrowException as error:
        raise ConfigurationError("column", f"{name} {column.type}", f"must be {kind}: {error}") from None


def _value(
    decoder: Decoder, place: Place, content: Buffer, options: DecodeOptions, aborted: list[AbortedTransaction] | None
) -> Iterator[pyarrow.RecordBatch]:
    """Decode one value."""
    is_visible = _visible(content, options, aborted)

    def take(rest: memoryview, position: int) -> int:
        plain = PlainBatches(position, len(rest), are_transactional=not options.is_committed_only)
        return decoder.add_plain(place, rest, plain)[0]

    for found in read_stored(Memory(content), limit=options.decompressed_bytes_max, take=take):
        if isinstance(found, Damage):
            yield from decoder.add_damage(place, found)
            continue
        try:
            shows = is_visible(found.batch)
        except DecodeError as error:
            shows = False
            yield from decoder.add_damage(place, damage_of(found.batch, found.position, error))
        if shows:
            yield from decoder.add(place, found.batch, found.position)


def _transactions(place: Place, listed: pyarrow.Scalar) -> list[AbortedTransaction]:
    """Return the aborted transactions of a fetch response; nulls are ignored."""
    found = [AbortedTransaction(each["producerId"], each["firstOffset"]) for each in listed.as_py() or () if each]
    for each in found:
        if None in each:
            raise LocalProtocolError(f"{place}: expected numbers in the aborted transaction, got {each}")
    return found


def _visible(
    content: Buffer, options: DecodeOptions, aborted: list[AbortedTransaction] | None
) -> Callable[[Batch], bool]:
    """Return a function that says, for each batch of a value in turn, whether its records are wanted."""
    if not options.is_committed_only:
        return lambda batch: not batch.is_control
    if aborted is not None:
        return AbortedByResponse(aborted).is_visible
    outcomes = outcomes_of(read_stored(Memory(content), limit=options.decompressed_bytes_max))

    def is_visible(batch: Batch) -> bool:
        if batch.is_control:
            Outcomes().add(batch)  # raises the error
            return False
        return outcomes.is_visible(batch)

    return is_visible


def outcomes_of(stored: Iterable[Stored | Damage]) -> Outcomes:
    """Return the outcomes of a partition's transactions, ignoring damaged markers, which are reported when read."""
    outcomes = Outcomes()
    for found in stored:
        if isinstance(found, Stored) and found.batch.is_control:
            try:
                outcomes.add(found.batch)
            except DecodeError:
                continue
    return outcomes


def _values(column: pyarrow.BinaryArray | pyarrow.LargeBinaryArray) -> Iterator[memoryview]:
    """Yield the bytes of each value, or none for a null.

    Arrow's scalars would copy the bytes. With `spark.sql.execution.arrow.useLargeVarTypes`, Spark passes the large
    types.
    """
    _, ends, data = column.buffers()
    if data is None:
        yield from [memoryview(b"")] * len(column)
        return
    numbers = memoryview(ends).cast("q" if pyarrow.types.is_large_binary(column.type) else "i")[column.offset :]
    content = memoryview(data).cast("B")
    for index, is_there in enumerate(column.is_valid().to_pylist()):
        yield content[numbers[index] : numbers[index + 1] if is_there else numbers[index]]
