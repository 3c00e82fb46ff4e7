"""The content of the report, taken from the tables.

It has one row per partition, and at most about ten thousand rows of anything else, regardless of the number of keys,
groups and commits. It consists of just numbers and text; times are in ms since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkawire.sdk.records.internal_records import INTERNAL_TOPICS
from kafkawire.sdk.spark.audit.plots import TimeFrame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["GROUPS_SHOWN", "ROWS_SHOWN", "TOPICS_SHOWN", "Row", "Summary", "frame_of", "shown_topics", "summary_of"]

#: Only the largest topics, up to this many, have plots of their own.
TOPICS_SHOWN: Final = 12

#: The maximum number of lines in a list, for example of gaps; the tables contain all of them.
ROWS_SHOWN: Final = 200

#: One extra row shows that a list is incomplete.
_ROWS_READ: Final = ROWS_SHOWN + 1

#: The number of pairs of a group and a topic whose lag is plotted.
GROUPS_SHOWN: Final = 8

#: The maximum number of points in a plot over time.
_STEPS_MAX: Final = 120

#: Possible steps of a plot, in ms: common time units.
_STEPS_MS: Final = tuple(
    60_000 * minutes for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080, 43200, 525600)
)

#: Record counts that share this many leading bits are merged: those below 32 never are, and larger merged ones differ
#: by at most 6 %.
_COUNT_BITS: Final = 5

#: The share of all records that plots omit at each end, which keeps a single wrong clock from stretching them.
_OUTSIDE: Final = 0.001

Row = Mapping[str, Any]


class Summary(NamedTuple):
    """The content of the report.

    Attributes:
        partitions: one row per partition, sorted by topic and partition.
        frame: the time axis of plots; None if no record has a timestamp.
        rates: records and bytes per topic and step; the topic is None for topics that are not shown.
        compression: the sums from the `compression` table, per shown topic and codec.
        lateness: sums per shown topic and lateness of batches.
        key_counts: for each shown topic, groups of keys with roughly equally many records, rarest first: the number of
            keys, and their total number of records.
        top_keys: rows of the table, for shown topics.
        groups: rows of the table, largest lag first.
        groups_count: the total number of groups, including those not in `groups`.
        groups_behind: the number of groups with a lag.
        lag: the total lag of all groups in all partitions.
        lag_frame: the time axis of commits; None if there are none.
        lags: the history: group, topic, time, and the sum of the last known lags in all partitions.
        losses: rows of the table, largest first.
        gaps: rows of the table, unknown causes first.
        duplicates: rows of the table.
        transactions: rows of the table, for aborted and open transactions.
        corrupt: rows of the table.
    """

    partitions: Sequence[Row] = ()
    frame: TimeFrame | None = None
    rates: Sequence[Row] = ()
    compression: Sequence[Row] = ()
    lateness: Sequence[Row] = ()
    key_counts: Sequence[Row] = ()
    top_keys: Sequence[Row] = ()
    groups: Sequence[Row] = ()
    groups_count: int = 0
    groups_behind: int = 0
    lag: int = 0
    lag_frame: TimeFrame | None = None
    lags: Sequence[Row] = ()
    losses: Sequence[Row] = ()
    gaps: Sequence[Row] = ()
    duplicates: Sequence[Row] = ()
    transactions: Sequence[Row] = ()
    corrupt: Sequence[Row] = ()

    @property
    def topics(self) -> list[str]:
        """The topics to show: largest first, with internal topics last."""
        return shown_topics(self.partitions)


def shown_topics(partitions: Iterable[Row]) -> list[str]:
    """Return the topics with plots of their own."""
    sizes: dict[str, int] = {}
    for row in partitions:
        sizes[row["topic"]] = sizes.get(row["topic"], 0) + row["sizeBytes"]
    ordered = sorted(sizes, key=lambda topic: (topic in INTERNAL_TOPICS, -sizes[topic], topic))
    return ordered[:TOPICS_SHOWN]


def summary_of(table: Callable[[str], DataFrame]) -> Summary:
    """Return the content of the report.

    Args:
        table: returns a table by its name.
    """
    from pyspark.sql import functions as f

    partitions = _rows(table("partitions").orderBy("topic", "partition"))
    topics = shown_topics(partitions)
    rates = table("rates").where(f.col("minute").isNotNull())
    frame = _frame(rates, "minute", f.col("records"))
    history = table("group_commits").where(f.col("lag").isNotNull() & f.col("timestamp").isNotNull())
    lag_frame = _frame(history, "timestamp", f.lit(1))

    by_lag = (f.desc_nulls_last("lag"), "group", "topic", "partition")
    groups_count, groups_behind, lag = _group_sums(table("groups"))
    return Summary(
        partitions=partitions,
        frame=frame,
        rates=[] if frame is None else _rates(rates, frame, topics),
        compression=_rows(
            table("compression")
            .where(f.col("topic").isin(topics))
            .groupBy("topic", "compression")
            .agg(*(f.sum(name).alias(name) for name in ("batches", "records", "sizeBytes", "plainBytes")))
            .orderBy("topic", "compression")
        ),
        lateness=_rows(
            table("lateness")
            .where(f.col("topic").isin(topics))
            .groupBy("topic", "lateMs")
            .agg(f.sum("batches").alias("batches"), f.max("maxLateMs").alias("maxLateMs"))
            .orderBy("topic", "lateMs")
        ),
        key_counts=_key_counts(table("key_counts").where(f.col("topic").isin(topics))),
        top_keys=_rows(table("top_keys").where(f.col("topic").isin(topics)).orderBy("topic", "rank")),
        groups=_rows(table("groups").orderBy(*by_lag).limit(_ROWS_READ)),
        groups_count=groups_count,
        groups_behind=groups_behind,
        lag=lag,
        lag_frame=lag_frame,
        lags=[] if lag_frame is None else _lags(history, lag_frame),
        losses=_rows(table("losses").orderBy(f.desc("offsets"), "topic", "partition", "startOffset").limit(_ROWS_READ)),
        gaps=_rows(
            table("gaps")
            .orderBy(f.col("cause") != "unknown", f.col("cause") != "damage", "topic", "partition", "startOffset")
            .limit(_ROWS_READ)
        ),
        duplicates=_rows(table("duplicates").orderBy("topic", "partition", "baseOffset").limit(_ROWS_READ)),
        transactions=_rows(
            table("transactions")
            .where("outcome != 'COMMIT'")
            .orderBy(f.desc("outcome"), "topic", "partition", "firstOffset", "producerId")
            .limit(_ROWS_READ)
        ),
        corrupt=_rows(
            table("corrupt").orderBy("topic", "partition", "path", "position", "expectedOffset").limit(_ROWS_READ)
        ),
    )


def _rows(table: DataFrame) -> list[Row]:
    """Return all rows of a small table, with times in ms, whatever the session's time zone."""
    from pyspark.sql import functions as f

    columns = [f.unix_millis(name).alias(name) if kind == "timestamp" else f.col(name) for name, kind in table.dtypes]
    return [row.asDict() for row in table.select(*columns).collect()]


def _frame(table: DataFrame, time: str, count: Column) -> TimeFrame | None:
    """Return the time range of nearly all rows of a table, in common time units."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    ms = f.unix_millis(time)
    minutes = table.groupBy((ms - f.pmod(ms, f.lit(60_000))).alias("ms")).agg(f.sum(count).alias("records"))
    everything = Window.partitionBy(f.lit(0))
    upwards = everything.orderBy("ms").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    placed = minutes.select(
        "ms",
        "records",
        f.sum("records").over(upwards).alias("reached"),
        f.sum("records").over(everything).alias("total"),
    )
    inside = placed.where(
        (f.col("reached") > f.col("total") * _OUTSIDE)
        & (f.col("reached") - f.col("records") < f.col("total") * (1 - _OUTSIDE))
    )
    (row,) = inside.agg(f.min("ms").alias("low"), f.max("ms").alias("high")).collect()
    return None if row["low"] is None else frame_of(row["low"], row["high"])


def frame_of(low_ms: int, high_ms: int) -> TimeFrame:
    """Return a frame around two minutes, in common time units."""
    span = high_ms - low_ms + 60_000
    step = next((each for each in _STEPS_MS if span / each <= _STEPS_MAX - 1), _STEPS_MS[-1])
    return TimeFrame(low_ms // step * step, (high_ms // step + 1) * step, step)


def _key_counts(counts: DataFrame) -> list[Row]:
    """Return counts of keys, with similar ones merged: at most a thousand rows per topic."""
    from pyspark.sql import functions as f

    more_bits = f.greatest(f.length(f.bin("recordsOfKey")) - _COUNT_BITS, f.lit(0)).alias("moreBits")
    return _rows(
        counts.select("*", more_bits)
        .groupBy("topic", "moreBits", f.call_function("shiftright", "recordsOfKey", "moreBits").alias("leading"))
        .agg(f.sum("keys").alias("keys"), f.sum(f.col("recordsOfKey") * f.col("keys")).alias("records"))
        .orderBy("topic", "moreBits", "leading")
        .select("topic", "keys", "records")
    )


def _group_sums(groups: DataFrame) -> tuple[int, int, int]:
    """Return the number of groups, the number of groups with a lag, and the total lag."""
    from pyspark.sql import functions as f

    lag = f.sum(f.col("lag").cast("decimal(38)"))  # committed offsets may have any value, so 64 bits could overflow
    behind = f.count_distinct(f.when(f.col("lag") > 0, f.col("group")))
    (row,) = groups.agg(f.count_distinct("group"), behind, lag).collect()
    return row[0], row[1], int(row[2] or 0)


def _rates(rates: DataFrame, frame: TimeFrame, topics: Sequence[str]) -> list[Row]:
    from pyspark.sql import functions as f

    ms = f.unix_millis("minute")
    step = f.lit(frame.step_ms)
    start = (ms - f.lit(frame.start_ms)) - f.pmod(ms - f.lit(frame.start_ms), step) + f.lit(frame.start_ms)
    others = f.when(f.col("topic").isin(list(topics)), f.col("topic"))  # null for the other topics
    return _rows(
        rates.where((ms >= frame.start_ms) & (ms < frame.end_ms))
        .groupBy(others.alias("topic"), start.alias("time"))
        .agg(f.sum("records").alias("records"), f.sum("recordBytes").alias("recordBytes"))
        .orderBy("topic", "time")
    )


def _lags(commits: DataFrame, frame: TimeFrame) -> list[Row]:
    """Return the lag at the end of each step with a commit, for the groups and topics with the largest lag."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    ms = f.unix_millis("timestamp")
    known = commits.where((ms >= frame.start_ms) & (ms < frame.end_ms))
    worst = (
        known.groupBy("group", "topic")
        .agg(f.max("lag").alias("worst"))
        .orderBy(f.desc("worst"), "group", "topic")
        .limit(GROUPS_SHOWN)
    )
    step = f.lit(frame.step_ms)
    last = (
        known.join(worst, ["group", "topic"], "left_semi")
        .groupBy("group", "topic", "partition", (ms - f.pmod(ms, step)).alias("time"))
        .agg(f.max_by("lag", f.struct("timestamp", "logOffset")).cast("decimal(38)").alias("lag"))
    )
    # The change that a partition makes to the total lag; its latest lag applies until its next one.
    before = f.lag("lag", 1, 0).over(Window.partitionBy("group", "topic", "partition").orderBy("time"))
    changes = last.select("group", "topic", "time", (f.col("lag") - before).alias("change"))
    upwards = Window.partitionBy("group", "topic").orderBy("time")
    return _rows(
        changes.groupBy("group", "topic", "time")
        .agg(f.sum("change").alias("change"))
        .select("group", "topic", "time", f.sum("change").over(upwards).cast("double").alias("lag"))
        .orderBy("group", "topic", "time")
    )
