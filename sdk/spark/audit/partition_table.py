"""The table of partitions: one row for each, with the sums of the other tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkawire.sdk.spark.audit.log_tables import counted, sound, time_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

__all__ = ["partitions"]

_PARTITION: Final = ("topic", "partition")


def partitions(batches: DataFrame, written: Callable[[str], DataFrame]) -> DataFrame:
    """Return what is known of each partition.

    Args:
        batches: facts.
        written: returns one of the other tables.
    """
    all_batches = (
        sound(batches)
        .groupBy(*_PARTITION)
        .agg(
            f.min("baseOffset").alias("startOffset"),
            (f.max("lastOffset") + 1).alias("endOffset"),
            f.count_distinct("path").alias("segments"),
            f.count(f.when(f.col("isControl"), 1)).alias("controlBatches"),
            f.count_distinct(f.when(f.col("producerId") >= 0, f.col("producerId"))).alias("producers"),
            f.max("leaderEpoch").alias("leaderEpoch"),
        )
    )
    times = (
        counted(batches)
        .groupBy(*_PARTITION)
        .agg(
            time_of(f.min(f.when(f.col("minTimestampMs") >= 0, f.col("minTimestampMs")))).alias("firstTimestamp"),
            time_of(f.max("maxTimestampMs")).alias("lastTimestamp"),
        )
    )
    found = batches.select(*_PARTITION).distinct().join(all_batches, [*_PARTITION], "left")
    for part in (
        _summed(
            written("compression"),
            batches=_sum("batches"),
            records=_sum("records"),
            sizeBytes=_sum("sizeBytes"),
            plainBytes=_sum("plainBytes"),
        ),
        times,
        _summed(
            written("gaps"),
            gaps=f.count("*"),
            gapOffsets=_sum("offsets"),
            removedGaps=_count(f.col("cause") == "retention"),
            unknownGaps=_count(f.col("cause") == "unknown"),
            unknownGapOffsets=f.sum(f.when(f.col("cause") == "unknown", f.col("offsets"))),
        ),
        _summed(written("duplicates"), duplicateBatches=f.count("*"), duplicateRecords=_sum("records")),
        _summed(
            written("transactions"),
            transactions=f.count("*"),
            abortedTransactions=_count(f.col("outcome") == "ABORT"),
            abortedRecords=f.sum(f.when(f.col("outcome") == "ABORT", f.col("records"))),
            openTransactions=_count(f.col("outcome") == "OPEN"),
        ),
        _summed(
            written("lateness"),
            lateBatches=f.sum(f.when(f.col("lateMs").isNotNull(), f.col("batches"))),
            maxLateMs=f.max("maxLateMs"),
            backwards=_sum("backwards"),
        ),
        _summed(written("corrupt"), corruptRegions=f.count("*"), corruptBytes=_sum("sizeBytes")),
        written("compaction").drop("records"),
    ):
        found = found.join(part, [*_PARTITION], "left")
    counts = [name for name, kind in found.dtypes if kind in ("bigint", "int") and name not in _MAY_BE_NULL]
    return found.fillna(0, counts).withColumn(
        "compressionRatio", f.when(f.col("sizeBytes") > 0, f.col("plainBytes") / f.col("sizeBytes"))
    )


#: Columns without a value where there is no batch.
_MAY_BE_NULL: Final = ("partition", "startOffset", "endOffset", "leaderEpoch", "plainBytes")


def _summed(table: DataFrame, **sums: Column) -> DataFrame:
    return table.groupBy(*_PARTITION).agg(*(column.alias(name) for name, column in sums.items()))


def _sum(name: str) -> Column:
    return f.sum(name)


def _count(condition: Column) -> Column:
    return f.count(f.when(condition, 1))
