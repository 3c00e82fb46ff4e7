"""Tables about batches: sizes, gaps, duplicates, transactions, time, damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from kafkawire.sdk.records.internal_records import INTERNAL_TOPICS
from kafkawire.sdk.spark.audit.partition_facts import Cause
from kafkawire.sdk.spark.decoder import SEQUENCES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "LATE_MS",
    "compression",
    "corrupt",
    "counted",
    "duplicates",
    "gaps",
    "last_damage",
    "lateness",
    "losses",
    "minute_sums",
    "rates",
    "sound",
    "time_of",
    "transactions",
]

_PARTITION: Final = ("topic", "partition")

#: Lower bounds for the lateness of batches, in ms, which become the rows of `lateness`.
LATE_MS: Final = (1, 1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000)

#: The times that Spark can represent: those that fit into 64 bits in microseconds.
_TIME_MS_MAX: Final = 9_000_000_000_000_000


def sound(batches: DataFrame) -> DataFrame:
    """Return the facts about valid batches."""
    return batches.where(f.col("reason").isNull())


def counted(batches: DataFrame) -> DataFrame:
    """Return the batches to count: those in the requested time range, excluding control batches."""
    return sound(batches).where(f.col("isCounted") & ~f.col("isControl"))


def time_of(milliseconds: Column) -> Column:
    """Return a timestamp; null if there is none, or if Spark cannot represent it."""
    return f.when((milliseconds >= 0) & (milliseconds <= _TIME_MS_MAX), f.timestamp_millis(milliseconds))


def compression(batches: DataFrame) -> DataFrame:
    """Return sums over batches, grouped by codec."""
    return (
        counted(batches)
        .groupBy(*_PARTITION, "compression")
        .agg(
            f.count("*").alias("batches"),
            f.sum("records").alias("records"),
            f.sum("sizeBytes").alias("sizeBytes"),
            f.sum("plainBytes").alias("plainBytes"),
        )
    )


def gaps(batches: DataFrame, cleaned: DataFrame) -> DataFrame:
    """Return the offsets that no batch has, and the cause that the surrounding batches suggest.

    The cause is `damage` if there are damaged bytes in between; `cleaning` if batches in the partition lack records
    because of compaction, or if the partition is known to be compacted up to that offset; `retention` if a run found
    nothing where the previous run had ended; otherwise `unknown`.

    Args:
        batches: the facts.
        cleaned: topic, partition and `cleanedOffset`, the offset up to which the partition has been compacted, among
            other columns.
    """
    # Damage is given the offset expected at its position, so it sorts before the following batch.
    in_order = Window.partitionBy(*_PARTITION).orderBy("baseOffset", f.col("reason").isNull(), "position")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    lacks_records = f.col("lacksRecords").cast("int")
    placed = batches.where(f.col("baseOffset").isNotNull() & f.col("tail").isNull()).select(
        *_PARTITION,
        "baseOffset",
        "reason",
        # The expected offset, if damage comes first.
        f.coalesce(f.max("lastOffset").over(before) + 1, f.min("baseOffset").over(before)).alias("startOffset"),
        f.lag(f.col("reason").isNotNull()).over(in_order).alias("followsDamage"),
        (f.lag("run").over(in_order) < f.col("run")).alias("isFirstOfRun"),
        f.max(lacks_records).over(Window.partitionBy(*_PARTITION)).alias("isCleaned"),
    )
    cause = (
        f.when(f.col("followsDamage"), "damage")
        .when((f.col("isCleaned") == 1) | (f.col("baseOffset") <= f.col("cleanedOffset")), "cleaning")
        .when(f.col("isFirstOfRun"), "retention")
        .otherwise("unknown")
    )
    found = placed.where(f.col("reason").isNull() & (f.col("baseOffset") > f.col("startOffset")))
    known = cleaned.select(*_PARTITION, "cleanedOffset")
    return found.join(f.broadcast(known), [*_PARTITION], "left").select(
        *_PARTITION,
        "startOffset",
        f.col("baseOffset").alias("endOffset"),
        (f.col("baseOffset") - f.col("startOffset")).alias("offsets"),
        cause.alias("cause"),
    )


def duplicates(batches: DataFrame) -> DataFrame:
    """Return the batches with sequence numbers that the same producer has already used in the partition.

    `sequenceBefore` is the highest number used before, `followsOffset` is the last offset of the newest batch that ends
    with it, and `records` is the number of records in the batch whose numbers are not above it. Batches that
    coordinators write to their own topics on behalf of a producer are omitted: each begins with 0, and brokers do not
    check these numbers.
    """
    producer = Window.partitionBy(*_PARTITION, "producerId", "producerEpoch").orderBy("baseOffset")
    upwards = producer.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = producer.rowsBetween(Window.unboundedPreceding, -1)
    # Counted upwards from the previous batch. A step of more than half the number range is treated as a step back,
    # unless that many offsets lie in between.
    ahead = f.pmod(f.col("baseSequence") - f.lag("baseSequence").over(producer), f.lit(SEQUENCES))
    goes_back = (ahead > SEQUENCES // 2) & (ahead > f.col("baseOffset") - f.lag("baseOffset").over(producer))
    found = (
        sound(batches)
        .where((f.col("producerId") >= 0) & (f.col("baseSequence") >= 0) & ~f.col("isControl"))
        .where(~f.col("topic").isin(*sorted(INTERNAL_TOPICS)))
        .withColumn("step", f.when(goes_back, ahead - SEQUENCES).otherwise(ahead))
        # The numbers as if they never wrapped: each is counted from the first known number.
        .withColumn("first", f.first("baseSequence").over(upwards) + f.coalesce(f.sum("step").over(upwards), f.lit(0)))
        .withColumn("last", f.col("first") + f.col("lastOffset") - f.col("baseOffset"))
        .withColumn("used", f.max(f.struct("last", "lastOffset")).over(before))
    )
    return found.where((f.col("used.last") >= f.col("first")) & f.col("isCounted")).select(
        *_PARTITION,
        "baseOffset",
        "lastOffset",
        "producerId",
        "producerEpoch",
        "baseSequence",
        _sequence("last").alias("lastSequence"),
        _sequence("used.last").alias("sequenceBefore"),
        f.col("used.lastOffset").alias("followsOffset"),
        (f.least("used.last", "last") - f.col("first") + 1).alias("records"),
    )


def _sequence(name: str) -> Column:
    """Return an unwrapped sequence number in the form that producers write."""
    return f.pmod(f.col(name), f.lit(SEQUENCES))


def transactions(batches: DataFrame) -> DataFrame:
    """Return transactions with their batches and outcome: `COMMIT` or `ABORT` from the marker, otherwise `OPEN`."""
    before = Window.partitionBy(*_PARTITION, "producerId").orderBy("baseOffset")
    is_marker = f.col("controlType").isin("COMMIT", "ABORT")
    numbered = (
        sound(batches)
        .where(f.col("isTransactional"))
        .withColumn(
            "number",
            f.coalesce(f.sum(is_marker.cast("int")).over(before.rowsBetween(Window.unboundedPreceding, -1)), f.lit(0)),
        )
    )

    def of_records(column: str) -> Column:
        return f.when(~f.col("isControl"), f.col(column))

    found = numbered.groupBy(*_PARTITION, "producerId", "number").agg(
        f.max("producerEpoch").alias("producerEpoch"),
        f.min(of_records("baseOffset")).alias("firstOffset"),
        f.max("lastOffset").alias("lastOffset"),
        f.coalesce(f.max(f.when(is_marker, f.col("controlType"))), f.lit("OPEN")).alias("outcome"),
        f.sum(of_records("records")).alias("records"),
        f.sum(of_records("sizeBytes")).alias("sizeBytes"),
        time_of(f.min(of_records("maxTimestampMs"))).alias("firstTimestamp"),
        time_of(f.max("maxTimestampMs")).alias("lastTimestamp"),
        f.max("isCounted").alias("isCounted"),
    )
    return found.where(f.col("firstOffset").isNotNull() & f.col("isCounted")).drop("number", "isCounted")


def lateness(batches: DataFrame) -> DataFrame:
    """Return, for each lateness, the number of batches with a record older than the newest record before them.

    A row counts the batches that are late by at least `lateMs` and by less than the next bound in `LATE_MS`; the row
    with a null `lateMs` counts batches that are not late.
    """
    before = Window.partitionBy(*_PARTITION).orderBy("baseOffset").rowsBetween(Window.unboundedPreceding, -1)
    late = f.max("maxTimestampMs").over(before) - f.col("minTimestampMs")
    bound = f.lit(None).cast("bigint")
    for low in LATE_MS:
        bound = f.when(f.col("late") >= low, f.lit(low).cast("bigint")).otherwise(bound)
    return (
        counted(batches)
        .where((f.col("minTimestampMs") >= 0) & (f.col("maxTimestampMs") <= _TIME_MS_MAX))
        .withColumn("late", late)
        .groupBy(*_PARTITION, bound.alias("lateMs"))
        .agg(
            f.count("*").alias("batches"),
            f.max(f.greatest("late", f.lit(0))).alias("maxLateMs"),
            f.sum("backwards").alias("backwards"),
        )
    )


def minute_sums(minutes: DataFrame) -> DataFrame:
    """Return the merged facts about minutes."""
    return minutes.groupBy(*_PARTITION, "minute").agg(
        f.sum("records").alias("records"), f.sum("recordBytes").alias("recordBytes")
    )


def rates(minutes: DataFrame) -> DataFrame:
    """Return the records per minute, and the bytes of their keys and values; minutes unknown to Spark are null."""
    minute = time_of(f.try_multiply("minute", f.lit(60_000)))
    return minute_sums(minutes.select(*_PARTITION, minute.alias("minute"), "records", "recordBytes"))


def last_damage(batches: DataFrame) -> DataFrame:
    """Return the facts about damage, one for each position.

    Every run sees the damage at the end of a partition, which may have grown or shrunk since then, so the last fact is
    used. If a later run finds a batch there instead, the broker has truncated the damage, as it does with a partially
    written batch. Damage read from a broker has no position, only the expected offset.
    """
    offset = f.when(f.col("position").isNull(), f.col("baseOffset"))
    file = f.substring_index("path", "/", -1)  # the folder may have been renamed between runs
    said = f.struct("run", "path", "sizeBytes", "baseOffset", "reason", "tail")
    last = (
        batches.where(f.col("reason").isNotNull())
        .groupBy(*_PARTITION, file.alias("file"), "position", offset.alias("offset"))
        .agg(f.max_by(said, "run").alias("last"))
        .select(*_PARTITION, "position", "last.*")
    )
    # A run begins where the previous one ended, so everything that it finds comes after earlier damage.
    place = [f.col(name).alias(f"{name}After") for name in _PARTITION]
    after = sound(batches).groupBy(*place, f.col("run").alias("runAfter")).agg(f.min("baseOffset").alias("first"))
    is_mended = (f.col("run") < f.col("runAfter")) & (
        (f.col("first") <= f.col("baseOffset")) | f.col("tail").isNotNull()
    )
    for name in _PARTITION:
        is_mended &= f.col(name) == f.col(f"{name}After")
    found = last.join(after, is_mended, "left_anti")
    return found.select(*_PARTITION, "path", "position", "sizeBytes", "baseOffset", "reason", "tail")


def corrupt(batches: DataFrame) -> DataFrame:
    """Return the regions that are not valid batches, including those after the last batch of a partition."""
    return last_damage(batches).withColumnRenamed("baseOffset", "expectedOffset")


def losses(gaps: DataFrame, noted: DataFrame) -> DataFrame:
    """Return the lost offsets, as revealed by batches and by the files next to them.

    Args:
        gaps: the table of gaps.
        noted: rows of this table derived from the files.
    """
    cause = f.when(f.col("cause") == "unknown", Cause.GAP.value).otherwise(Cause.DAMAGE.value)
    shown = gaps.where(f.col("cause").isin("unknown", "damage")).select(
        *_PARTITION, "startOffset", "endOffset", "offsets", cause.alias("cause"), f.lit("").alias("file")
    )
    return shown.unionByName(noted)
