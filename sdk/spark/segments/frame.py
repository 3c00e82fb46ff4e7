"""Read segments with a function that takes arguments that the options of a data source cannot carry.

A function on Arrow batches is sent to the workers inside a data source of its own. If `pyarrow` cannot open a file
system, Spark reads whole files, and `decode_batches` decodes them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from os import PathLike
from typing import TYPE_CHECKING, Any

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import INT64_MAX
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.storage.file_names import LOG_SUFFIX

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kafkawire.sdk.spark.segments.mapping import MapBatches
    from kafkawire.sdk.spark.segments.options import SegmentOptions
    from kafkawire.sdk.spark.selection import Offsets

__all__ = ["read_segments"]

#: Gives the data source of each function a unique name.
_numbers = itertools.count(1)


def read_segments(
    spark: SparkSession,
    path: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    map_batches: MapBatches | None = None,
    columns: Iterable[str] | None = None,
    schema: str | None = None,
    is_stream: bool = False,
    **options: object,
) -> DataFrame:
    """Return the records in log segments as a DataFrame.

    Args:
        spark: the session; its workers need `kafkawire` and `pyarrow`.
        path: folders or segments; pass several as a list, or as comma-separated text.
        map_batches: called in the workers with each Arrow batch (`pyarrow.RecordBatch`, about 4 MiB); returns a batch,
            a `pyarrow.Table`, or None for no rows. Use it to filter, decode or aggregate before rows are passed to
            Spark.
        columns: the columns to read and to pass to `map_batches`, for example `["value", "offset"]`; by default, the
            columns that the options request.
        schema: the columns as a Spark schema instead, for example "value binary". With `map_batches`, it describes the
            returned columns, and is required unless they are the same as those read.
        is_stream: whether to return a streaming DataFrame.
        options: options of the data source `kafka_segments`; see docs/spark_segments.md. Numbers, booleans, lists and
            dictionaries are accepted as they are; None means not given.

    Returns:
        The columns of the connector and the requested ones, with the types of `decode_batches`; or those that
        `map_batches` returns. Nothing is read until rows are requested; but if Spark reads the files, and topics or
        partitions are named, the files are listed at once.

    Raises:
        ConfigurationError: an option or the schema is refused, or cannot be used with `map_batches` or a file system
            that Spark reads; or, with such a file system, a named topic or partition does not exist.
    """
    from kafkawire.sdk.spark.schema import ddl
    from kafkawire.sdk.spark.segments.mapping import check_schema
    from kafkawire.sdk.spark.segments.options import option_texts, parse_options
    from kafkawire.sdk.spark.segments.source import KafkaSegments

    texts = option_texts(path, options)
    parsed = parse_options(texts)
    if map_batches is not None:
        parsed.check_mapped()
        if isinstance(schema, str):
            check_schema(_parsed_schema(schema))
    names = parsed.columns if columns is None else _known(columns)
    if columns is not None and map_batches is None:
        if schema is not None:
            reason = "schema is also given, and selects the columns to read; expected only one of the two"
            raise ConfigurationError("columns", ", ".join(names), reason)
        schema = ddl(names)
    if not _opens(parsed.paths):
        return _through_spark(spark, parsed, names, map_batches, schema or ddl(names), is_stream)
    source: type[KafkaSegments] = KafkaSegments
    if map_batches is not None:
        name = f"{KafkaSegments.name()}_{next(_numbers)}"
        attributes = {
            "name": classmethod(lambda cls: name),
            "map_batches": staticmethod(map_batches),
            "map_columns": names,
        }
        source = type("MappedSegments", (KafkaSegments,), attributes)
        schema = schema or ddl(names)
    spark.dataSource.register(source)
    reader: Any = spark.readStream if is_stream else spark.read
    reader = reader.format(source.name()).options(**texts)
    found: DataFrame = (reader if schema is None else reader.schema(schema)).load()
    return found


def _known(columns: Iterable[str]) -> tuple[str, ...]:
    from kafkawire.sdk.spark.schema import COLUMNS

    names = tuple(columns)
    if not names:
        raise ConfigurationError("columns", "", f"expected one or more of {', '.join(COLUMNS)}")
    if unknown := [name for name in names if name not in COLUMNS]:
        raise ConfigurationError("columns", ", ".join(unknown), f"available columns: {', '.join(COLUMNS)}")
    return names


def _parsed_schema(schema: str) -> StructType:
    from pyspark.sql.types import StructType

    fields = StructType.fromDDL(schema)
    if not isinstance(fields, StructType):
        raise ConfigurationError("schema", schema, "expected columns, such as value binary")
    return fields


def _opens(paths: Iterable[str]) -> bool:
    from kafkawire.sdk.spark.segments.files import open_file_system

    try:
        for path in paths:
            open_file_system(path)
    except ConfigurationError:
        return False
    return True


def _through_spark(
    spark: SparkSession,
    options: SegmentOptions,
    names: tuple[str, ...],
    map_batches: MapBatches | None,
    schema: str,
    is_stream: bool,
) -> DataFrame:
    """Read files with Spark, each as a whole, skipping those that begin with `_`."""
    from pyspark.sql import functions

    from kafkawire.sdk.spark.columns.decode import decode_batches
    from kafkawire.sdk.spark.schema import EXTRAS, HEADERS, names_of
    from kafkawire.sdk.spark.segments.files import FOLDER_PATTERN, compiled
    from kafkawire.sdk.spark.segments.mapping import mapped

    reason = f"Spark reads the files of {options.paths[0]} separately"
    if options.is_committed_only:
        raise ConfigurationError("isolationLevel", "read_committed", f"{reason}, and a transaction may span several")
    if is_stream:
        raise ConfigurationError("is_stream", is_stream, f"{reason}, so only batch queries are supported")
    options.check_batch()
    fields = _parsed_schema(schema)
    if map_batches is None:
        names = names_of(fields)
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    if options.path_pattern == FOLDER_PATTERN:
        reader = reader.option("pathGlobFilter", f"*{LOG_SUFFIX}")  # otherwise Spark also reads files next to segments
    meant = compiled(options.path_pattern)
    groups = meant.groupindex
    pattern = re.sub(r"\(\?P<\w+>", "(", meant.pattern)  # in Java's syntax
    files = reader.load(list(options.paths)).where(functions.col("path").rlike(pattern))
    topic = functions.regexp_extract("path", pattern, groups["topic"])
    partition = functions.regexp_extract("path", pattern, groups["partition"]).cast("int")
    if options.has_names:
        there = files.select(topic, partition).distinct().collect()
        options.check_partitions({TopicPartition(*row) for row in there})
    records = decode_batches(
        files.where(_is_selected(options, topic, partition)),
        "content",
        topic=topic,
        partition=partition,
        headers=HEADERS in names,
        extra=[name for name in names if name in EXTRAS],
        mode=options.mode.value,
        decompressed_bytes_max=options.decompressed_bytes_max,
    )
    chosen = records.where(_is_wanted(options)).select(*names)
    if map_batches is None:
        return chosen
    return chosen.mapInArrow(mapped(map_batches, fields), schema)


def _is_selected(options: SegmentOptions, topic: Column, partition: Column) -> Column:
    from pyspark.sql import functions

    selection = options.selection
    found = functions.lit(True)
    if selection.topics is not None:
        found = found & topic.isin(*selection.topics)
    if selection.pattern is not None:
        found = found & topic.rlike(f"^(?:{selection.pattern})$")
    if selection.partitions is not None:
        named = (
            functions.lit(False),
            *((topic == each.topic) & (partition == each.partition) for each in selection.partitions),
        )
        found = found & _any(named)
    return found


def _is_wanted(options: SegmentOptions) -> Column:
    """Return a condition for the wanted rows; damage is always wanted, because it has no offset."""
    from pyspark.sql import functions

    offset, time = functions.col("offset"), functions.col("timestamp")
    found = functions.lit(True)
    if options.starting_offsets is not None:
        found = found & (offset >= _bound(options.starting_offsets, 0))
    if options.ending_offsets is not None:
        found = found & (offset < _bound(options.ending_offsets, INT64_MAX))
    if options.starting_timestamp_ms is not None:
        # A time that Spark cannot represent is null here and sorts after all others.
        start = functions.timestamp_millis(functions.lit(options.starting_timestamp_ms))
        found = found & (time.isNull() | (time >= start))
    if options.ending_timestamp_ms is not None:
        found = found & (time < functions.timestamp_millis(functions.lit(options.ending_timestamp_ms)))
    return offset.isNull() | found


def _bound(offsets: Offsets, open_end: int) -> Column:
    """Return the offset at which a row's partition begins or ends."""
    from pyspark.sql import functions

    found = functions.lit(offsets.others if offsets.others >= 0 else open_end).cast("bigint")
    for folder, offset in offsets.named.items():
        is_meant = (functions.col("topic") == folder.topic) & (functions.col("partition") == folder.partition)
        found = functions.when(is_meant, functions.lit(offset if offset >= 0 else open_end).cast("bigint")).otherwise(
            found
        )
    return found


def _any(conditions: Iterable[Column]) -> Column:
    from functools import reduce
    from operator import or_

    return reduce(or_, conditions)
