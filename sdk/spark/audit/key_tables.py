"""Tables about keys: the most frequent keys, the skew, and the effect of compaction.

The keys of a topic are never collected in one place: records are counted per key, and then keys are counted per record
count, of which there are few different ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["TOP_KEYS", "compaction", "key_counts", "keys_of_partitions", "top_keys"]

#: The number of rows per topic in `top_keys`.
TOP_KEYS: Final = 20

_PARTITION: Final = ("topic", "partition")


def keys_of_partitions(keys: DataFrame, *more: Column) -> DataFrame:
    """Return the facts about keys, merged by partition and key.

    Args:
        keys: the facts.
        more: further aggregates to compute for each key.
    """
    return keys.groupBy(*_PARTITION, "key").agg(
        f.sum("records").alias("records"),
        f.sum("recordBytes").alias("recordBytes"),
        f.max_by(f.struct("lastBytes", "lastIsTombstone"), "lastOffset").alias("last"),
        *more,
    )


def compaction(keys: DataFrame) -> DataFrame:
    """Return what compaction would keep in each partition: the last record for each key.

    Args:
        keys: the result of `keys_of_partitions`.
    """
    has_key = f.col("key").isNotNull()
    is_tombstone = has_key & f.col("last.lastIsTombstone")
    return keys.groupBy(*_PARTITION).agg(
        f.count("key").alias("keys"),
        f.coalesce(f.sum(f.when(~has_key, f.col("records"))), f.lit(0)).alias("recordsWithoutKey"),
        f.coalesce(f.sum(f.when(has_key, f.col("records") - 1)), f.lit(0)).alias("supersededRecords"),
        f.coalesce(f.sum(f.when(has_key, f.col("recordBytes") - f.col("last.lastBytes"))), f.lit(0)).alias(
            "supersededBytes"
        ),
        f.count(f.when(is_tombstone, 1)).alias("tombstones"),
        f.sum("records").alias("records"),
        f.sum("recordBytes").alias("recordBytes"),
    )


def key_counts(keys: DataFrame) -> DataFrame:
    """Return, for each topic and record count, the number of keys that have it: the complete skew in few rows.

    Args:
        keys: the result of `keys_of_partitions`.
    """
    by_key = keys.where(f.col("key").isNotNull()).groupBy("topic", "key").agg(f.sum("records").alias("recordsOfKey"))
    return by_key.groupBy("topic", "recordsOfKey").agg(f.count("*").alias("keys"))


def top_keys(keys: DataFrame) -> DataFrame:
    """Return the most frequent keys of each topic, each with its share of the topic's records that have a key.

    Args:
        keys: the result of `keys_of_partitions`.
    """
    by_key = (
        keys.where(f.col("key").isNotNull())
        .groupBy("topic", "key")
        .agg(
            f.sum("records").alias("records"),
            f.sum("recordBytes").alias("recordBytes"),
            f.min("partition").alias("partition"),
            f.count("*").alias("partitions"),
        )
    )
    totals = by_key.groupBy("topic").agg(f.sum("records").alias("recordsWithKey"))
    # Spark keeps only the first rows of each task before sorting all of them.
    first = Window.partitionBy("topic").orderBy(f.desc("records"), "key")
    ranked = by_key.withColumn("rank", f.row_number().over(first)).where(f.col("rank") <= TOP_KEYS)
    return ranked.join(totals, "topic").select(
        "topic",
        "rank",
        "key",
        "records",
        (f.col("records") / f.col("recordsWithKey")).alias("share"),
        "recordBytes",
        "partition",
        "partitions",
    )
