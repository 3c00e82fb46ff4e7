"""The same decoders as functions on columns and on tables, for `select` and for SQL.

`decode_batches` is the fastest way to get rows. A column function returns an array for each value, which must then be
exploded; the table function is for SQL. All of them need PySpark 4.1.

Source: `arrow_udf`, `arrow_udtf` in PySpark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, SparkSession


__all__ = [
    "decode_internal_record",
    "decode_message",
    "decode_records",
    "decode_request",
    "decode_response",
    "register_kafka_decode",
]


def decode_records(
    column: str | Column,
    *,
    headers: bool = False,
    extra: Iterable[str] = (),
    mode: str = "FAILFAST",
    isolation_level: str = "read_uncommitted",
    decompressed_bytes_max: int = MAX_DECOMPRESSED_BYTES,
) -> Column:
    """Return the records of raw batches as an array of structs, one array for each value.

    Args:
        column: see `decode_batches`; this applies to all other arguments too.
        headers: whether to include the headers.
        extra: extra columns.
        mode: how damage is handled.
        isolation_level: which records to return.
        decompressed_bytes_max: the maximum size of a batch's records after decompression, in bytes.

    Returns:
        `array<struct<key: binary, value: binary, offset: bigint, timestamp: timestamp, timestampType: int>>`, with a
        further field for each requested column, of the same type as in `decode_batches`; null for a null. A task fails
        with a `LocalProtocolError` if the arrays for one Arrow batch of values take more than 256 MiB.

    Raises:
        ConfigurationError: an unknown mode, isolation level or extra column, or the limit is not a number from 1.
        LocalProtocolError: PySpark is older than 4.1.
    """
    from kafkawire.sdk.spark import schema
    from kafkawire.sdk.spark.columns.raw_values import decode_options

    options = decode_options(
        headers=headers,
        extra=extra,
        mode=mode,
        isolation_level=isolation_level,
        decompressed_bytes_max=decompressed_bytes_max,
    )
    names = tuple(name for name in options.names if name not in ("topic", "partition"))
    own = options._replace(names=names)
    fields = ", ".join(f"`{name}`: {schema.COLUMNS[name].ddl}" for name in names)

    def records(values: pyarrow.Array) -> pyarrow.Array:
        from kafkawire.sdk.spark.columns.raw_values import decoded_lists

        return decoded_lists(values, own)

    return _column_function(records, f"array<struct<{fields}>>")(column)


def register_kafka_decode(
    spark: SparkSession,
    name: str = "kafka_decode",
    *,
    headers: bool = False,
    extra: Iterable[str] = (),
    mode: str = "FAILFAST",
    isolation_level: str = "read_uncommitted",
    decompressed_bytes_max: int = MAX_DECOMPRESSED_BYTES,
) -> None:
    """Register a table function that decodes raw batches, for SQL:

        SELECT * FROM kafka_decode(TABLE(SELECT batches, topic, partition FROM raw))

    Args:
        spark: the Spark session.
        name: the name of the function. Its table argument has the columns batches, topic and partition, matched by
            name; the last two are optional.
        headers: see `decode_batches`; this applies to all further arguments too.
        extra: extra columns.
        mode: how damage is handled.
        isolation_level: which records to return.
        decompressed_bytes_max: the maximum size of a batch's records after decompression, in bytes.

    Raises:
        ConfigurationError: an unknown mode, isolation level or extra column, or the limit is not a number from 1.
        LocalProtocolError: PySpark is older than 4.1.
    """
    from kafkawire.sdk.spark import schema
    from kafkawire.sdk.spark.columns.raw_values import decode_options

    options = decode_options(
        headers=headers,
        extra=extra,
        mode=mode,
        isolation_level=isolation_level,
        decompressed_bytes_max=decompressed_bytes_max,
    )

    class KafkaDecode:
        """Decodes one part of the table, which Spark passes as Arrow batches."""

        def eval(self, table: Any) -> Iterator[Any]:
            from kafkawire.sdk.spark.columns.raw_values import decoded, raw_columns

            yield from decoded([raw_columns(table)], options)

    arrow_udtf = _of_pyspark("arrow_udtf")
    # PySpark reads the function's signature by evaluating its annotations, which must not require pyarrow here.
    KafkaDecode.eval.__annotations__ = _record_batch_annotations()
    spark.udtf.register(name, arrow_udtf(KafkaDecode, returnType=schema.ddl(options.names)))


def decode_message(column: str | Column, name: str, version: int, *, mode: str = "FAILFAST") -> Column:
    """Return messages without headers as JSON.

    Args:
        column: binary, one whole message per value.
        name: the name of the message, such as `MetadataResponse`, `OffsetCommitValue` or `TopicRecord`.
        version: the version of all the messages.
        mode: "FAILFAST" fails the task at the first unreadable value; in the other modes, `error` contains the reason.
            In every mode, a task fails if the column has the wrong type.

    Returns:
        `struct<message: string, error: string>`, null for a null: `message` is JSON text as Apache Kafka's converters
        print it, or null if there is an error.

    Raises:
        ConfigurationError: an unknown mode, message or version.
        LocalProtocolError: PySpark is older than 4.1.
    """
    from kafkawire.sdk.spark.columns import messages
    from kafkawire.sdk.spark.damage import parse_mode

    parsed = parse_mode(mode)
    messages.messages([], name, version, parsed)  # raises an error for an unknown message

    def decode(bodies: pyarrow.Array) -> pyarrow.Array:
        return messages.messages(bodies, name, version, parsed)

    return _column_function(decode, messages.MESSAGE_DDL)(column)


def decode_request(column: str | Column, *, mode: str = "FAILFAST") -> Column:
    """Return captured requests as JSON, with the content of their headers.

    Args:
        column: binary, one frame per value, without its length.
        mode: see `decode_message`.

    Returns:
        `struct<api: string, version: int, correlationId: int, clientId: string, message: string, error: string>`, null
        for a null: `message` is JSON text without the header (see `decode_message`); if there is an error, all other
        fields are null.

    Raises:
        ConfigurationError: an unknown mode.
        LocalProtocolError: PySpark is older than 4.1.
    """
    from kafkawire.sdk.spark.columns import messages
    from kafkawire.sdk.spark.damage import parse_mode

    parsed = parse_mode(mode)

    def decode(frames: pyarrow.Array) -> pyarrow.Array:
        return messages.requests(frames, parsed)

    return _column_function(decode, messages.REQUEST_DDL)(column)


def decode_response(column: str | Column, api: str, version: int, *, mode: str = "FAILFAST") -> Column:
    """Return captured responses as JSON, each with the correlation id of the request that it answers.

    Args:
        column: binary, one frame per value, without its length.
        api: the API to which the responses belong, such as `Fetch`.
        version: the version of the requests that these responses answer.
        mode: see `decode_message`.

    Returns:
        `struct<correlationId: int, message: string, error: string>`, null for a null: `message` is JSON text without
        the header (see `decode_message`); if there is an error, all other fields are null.

    Raises:
        ConfigurationError: an unknown mode, API or version.
        LocalProtocolError: PySpark is older than 4.1.
    """
    from kafkawire.sdk.spark.columns import messages
    from kafkawire.sdk.spark.damage import parse_mode

    parsed = parse_mode(mode)
    messages.responses([], api, version, parsed)  # raises an error for an unknown API

    def decode(frames: pyarrow.Array) -> pyarrow.Array:
        return messages.responses(frames, api, version, parsed)

    return _column_function(decode, messages.RESPONSE_DDL)(column)


def decode_internal_record(
    topic: str | Column, key: str | Column, value: str | Column, *, mode: str = "FAILFAST"
) -> Column:
    """Return decoded records of Kafka's internal topics, such as `__consumer_offsets` and `__cluster_metadata`.

    Args:
        topic: string.
        key: binary.
        value: binary; null is a tombstone.
        mode: see `decode_message`.

    Returns:
        `struct<type: int, name: string, key: string, version: int, value: string, error: string>`, null for records of
        other topics: the number and name of the record type, such as `OffsetCommit`; the key as JSON text, null in
        `__cluster_metadata` and `__remote_log_metadata`; the version of the value, and the value as JSON text, both
        null for a tombstone. If there is an error, all other fields are null.

    Raises:
        ConfigurationError: an unknown mode.
        LocalProtocolError: PySpark is older than 4.1.
    """
    from kafkawire.sdk.spark.columns import messages
    from kafkawire.sdk.spark.damage import parse_mode

    parsed = parse_mode(mode)

    def decode(topics: pyarrow.Array, keys: pyarrow.Array, values: pyarrow.Array) -> pyarrow.Array:
        return messages.internal_records(topics, keys, values, parsed)

    return _column_function(decode, messages.INTERNAL_DDL)(topic, key, value)


def _column_function(function: Callable[..., Any], ddl: str) -> Callable[..., Column]:
    """Return a column function that works on Arrow arrays."""
    import pyarrow

    parameters = [name for name in function.__annotations__ if name != "return"]
    function.__annotations__ = dict.fromkeys([*parameters, "return"], pyarrow.Array)  # PySpark evaluates them
    made: Callable[..., Column] = _of_pyspark("arrow_udf")(function, ddl)
    return made


def _record_batch_annotations() -> dict[str, Any]:
    import pyarrow

    return {"table": pyarrow.RecordBatch, "return": Iterator[pyarrow.Table]}


def _of_pyspark(name: str) -> Any:
    """Return one of PySpark's functions.

    Raises:
        LocalProtocolError: this PySpark does not have the function.
    """
    import pyspark
    from pyspark.sql import functions

    try:
        return getattr(functions, name)
    except AttributeError:
        reason = f"PySpark {pyspark.__version__} has no {name}, which needs 4.1; use decode_batches"
        raise LocalProtocolError(reason) from None
