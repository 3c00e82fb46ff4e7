"""Tables about groups: commits and lags.

Where a partition ended at the time of a commit is not stored. It is derived from the timestamps of the partition's
batches, and is only as accurate as the producers' clocks: the log end is taken to be the end of the batches whose
highest timestamp is not after the commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from kafkawire.sdk.spark.audit.commits import OFFSETS_TOPIC
from kafkawire.sdk.spark.audit.log_tables import sound, time_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["applied", "group_commits", "groups"]

_PARTITION: Final = ("topic", "partition")


def applied(commits: DataFrame, batches: DataFrame) -> DataFrame:
    """Return the commits in effect; transactional ones need a `COMMIT` marker that has ended their transaction."""
    is_transactional = f.coalesce("isTransactional", f.lit(False))
    ends = sound(batches.where(f.col("topic") == OFFSETS_TOPIC)).where(f.col("controlType").isin("COMMIT", "ABORT"))
    both = commits.where(is_transactional).unionByName(
        ends.select(*_PARTITION, "producerId", "lastOffset", "controlType"), allowMissingColumns=True
    )
    # In reverse log order, because window frames that start at the beginning are cheap in Spark.
    behind = (
        Window.partitionBy(*_PARTITION, "producerId")
        .orderBy(f.desc("lastOffset"))
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    placed = both.withColumn("outcome", f.last("controlType", ignorenulls=True).over(behind))
    committed = placed.where(f.col("group").isNotNull() & (f.col("outcome") == "COMMIT"))
    return commits.where(~is_transactional).unionByName(committed.select(*commits.columns))


def group_commits(commits: DataFrame, batches: DataFrame) -> DataFrame:
    """Return the history: each commit in effect, with the lag and the log end at that time.

    The log end and the lag are null for partitions that were not read.
    """
    said = (
        applied(commits, batches)
        .where(f.col("committedOffset").isNotNull())
        .select(
            f.col("ofTopic").alias("topic"),
            f.col("ofPartition").alias("partition"),
            f.col("commitTimestampMs").alias("timeMs"),
            "group",
            "committedOffset",
            f.col("partition").alias("logPartition"),
            f.col("lastOffset").alias("logOffset"),
        )
    )
    ends = (
        sound(batches)
        .where(f.col("maxTimestampMs") >= 0)
        .select(*_PARTITION, f.col("maxTimestampMs").alias("timeMs"), (f.col("lastOffset") + 1).alias("endOffset"))
    )
    in_time = (
        Window.partitionBy(*_PARTITION)
        .orderBy("timeMs", f.col("group").isNotNull(), "logOffset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    # Partitions that no group reads are removed before sorting.
    read = f.broadcast(said.select(*_PARTITION).distinct())
    both = ends.join(read, [*_PARTITION], "left_semi").unionByName(said, allowMissingColumns=True)
    placed = both.withColumn("logEndOffset", f.max("endOffset").over(in_time)).where(f.col("group").isNotNull())
    return placed.select(
        "group",
        *_PARTITION,
        time_of(f.col("timeMs")).alias("timestamp"),
        "committedOffset",
        "logEndOffset",
        _lag().alias("lag"),
        "logPartition",
        "logOffset",
    )


def groups(commits: DataFrame, batches: DataFrame) -> DataFrame:
    """Return the last commit of each group, with its lag; deleted commits are omitted."""
    last = (
        applied(commits, batches)
        .groupBy("group", "ofTopic", "ofPartition")
        .agg(
            f.max_by(f.struct("committedOffset", "commitTimestampMs"), "lastOffset").alias("last"),
            f.count("committedOffset").alias("commits"),
        )
        .where(f.col("last.committedOffset").isNotNull())
        .select(
            "group",
            f.col("ofTopic").alias("topic"),
            f.col("ofPartition").alias("partition"),
            "last.committedOffset",
            time_of(f.col("last.commitTimestampMs")).alias("timestamp"),
            "commits",
        )
    )
    ends = sound(batches).groupBy(*_PARTITION).agg((f.max("lastOffset") + 1).alias("logEndOffset"))
    return last.join(ends, [*_PARTITION], "left").select(
        "group", *_PARTITION, "committedOffset", "logEndOffset", _lag().alias("lag"), "timestamp", "commits"
    )


def _lag() -> Column:
    """Return the lag of a group; null if the log end is unknown, or if the difference does not fit 64 bits."""
    behind = f.try_subtract("logEndOffset", "committedOffset")
    return f.when(behind.isNotNull(), f.greatest(behind, f.lit(0)))
