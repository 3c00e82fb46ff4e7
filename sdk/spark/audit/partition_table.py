"""The table of partitions: one row per partition, with sums over the other tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from kafkawire.sdk.spark.audit.log_tables import counted, sound, time_of
from kafkawire.sdk.spark.audit.partition_facts import Cause

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

__all__ = ["partitions"]

_PARTITION: Final = ("topic", "partition")


def partitions(batches: DataFrame, partition_facts: DataFrame, written: Callable[[str], DataFrame]) -> DataFrame:
    """Return the facts about each partition, including partitions without a batch.

    Args:
        batches: the facts.
        partition_facts: the facts from other files, one row per partition.
        written: returns one of the other tables.
    """
    known = partition_facts.drop("cleanedOffset").withColumnRenamed("unindexed", "segmentsWithoutIndex")
    there = batches.select(*_PARTITION).unionByName(known.select(*_PARTITION)).distinct()
    found = there.join(_extents(batches), [*_PARTITION], "left").join(f.broadcast(known), [*_PARTITION], "left")
    compressed, *others = _sums_of(written)
    for part in (compressed, _times(batches), _epoch_steps(batches), *others):
        found = found.join(part, [*_PARTITION], "left")
    counts = [name for name, kind in found.dtypes if kind in ("bigint", "int") and name not in _MAY_BE_NULL]
    return found.fillna(0, counts).withColumn(
        "compressionRatio", f.when(f.col("sizeBytes") > 0, f.col("plainBytes") / f.col("sizeBytes"))
    )


#: Columns that are null for a partition without batches.
_MAY_BE_NULL: Final = (
    *("partition", "startOffset", "endOffset", "leaderEpoch", "plainBytes"),
    *("logStartOffset", "reachedOffset"),
)


def _extents(batches: DataFrame) -> DataFrame:
    """Return the extent of each partition, from all batches."""
    return (
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


def _times(batches: DataFrame) -> DataFrame:
    """Return the lowest and the highest timestamp of each partition."""
    return (
        counted(batches)
        .groupBy(*_PARTITION)
        .agg(
            time_of(f.min(f.when(f.col("minTimestampMs") >= 0, f.col("minTimestampMs")))).alias("firstTimestamp"),
            time_of(f.max("maxTimestampMs")).alias("lastTimestamp"),
        )
    )


def _sums_of(written: Callable[[str], DataFrame]) -> list[DataFrame]:
    """Return the sums over the other tables, grouped by partition."""
    return [
        _summed(
            written("compression"),
            batches=_sum("batches"),
            records=_sum("records"),
            sizeBytes=_sum("sizeBytes"),
            plainBytes=_sum("plainBytes"),
        ),
        _summed(
            written("losses"),
            lostRecords=_sum("offsets"),
            lostAtStart=_sum_where("offsets", f.col("cause") == Cause.START.value),
            lostAtEnd=_sum_where("offsets", f.col("cause") == Cause.END.value),
            lostAltogether=_sum_where("offsets", f.col("cause") == Cause.PARTITION.value),
        ),
        _summed(
            written("gaps"),
            gaps=f.count("*"),
            gapOffsets=_sum("offsets"),
            removedGaps=_count(f.col("cause") == "retention"),
            unknownGaps=_count(f.col("cause") == "unknown"),
            unknownGapOffsets=_sum_where("offsets", f.col("cause") == "unknown"),
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
        _summed(
            written("corrupt"),
            corruptRegions=_count(f.col("tail").isNull()),
            corruptBytes=_sum_where("sizeBytes", f.col("tail").isNull()),
            cutBytes=_sum_where("sizeBytes", f.col("tail") == "cut"),
            zeroBytes=_sum_where("sizeBytes", f.col("tail") == "zeros"),
        ),
        written("compaction").drop("records"),
    ]


def _epoch_steps(batches: DataFrame) -> DataFrame:
    """Return how many batches have a lower leader epoch than the batch before them; no leader writes such a batch."""
    before = f.lag("leaderEpoch").over(Window.partitionBy(*_PARTITION).orderBy("baseOffset"))
    placed = (
        sound(batches)
        .where(f.col("leaderEpoch") >= 0)  # batches in old formats have none
        .select(*_PARTITION, (f.col("leaderEpoch") < before).cast("bigint").alias("step"))
    )
    return placed.groupBy(*_PARTITION).agg(f.sum("step").alias("epochSteps"))


def _summed(table: DataFrame, **sums: Column) -> DataFrame:
    return table.groupBy(*_PARTITION).agg(*(column.alias(name) for name, column in sums.items()))


def _sum(name: str) -> Column:
    return f.sum(name)


def _sum_where(name: str, condition: Column) -> Column:
    return f.sum(f.when(condition, f.col(name)))


def _count(condition: Column) -> Column:
    return f.count(f.when(condition, 1))
