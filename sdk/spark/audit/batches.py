"""The batches in log segments as a DataFrame: from their headers alone, or also from their records."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_batches"]


def read_batches(
    spark: SparkSession,
    path: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    reads_records: bool = False,
    **options: object,
) -> DataFrame:
    """Return the batches in log segments as a DataFrame with one row per batch, including control batches.

    Args:
        spark: the session; its workers need `kafkawire` and `pyarrow`.
        path: a folder with segments anywhere below it, a segment, or a list of either.
        reads_records: whether to also read the records, for `plainBytes`, `minTimestampMs` and `backwards`.
        options: the options of the data source `kafka_segments`; see docs/spark_segments.md. With `startingTimestamp`
            and `endingTimestamp`, batches outside that time range are included, with `isCounted` false.

    Returns:
        topic, partition; baseOffset, lastOffset, position, sizeBytes, plainBytes (without compression), records,
        magic, compression, timestampType, minTimestampMs, maxTimestampMs, backwards (records that are older than an
        earlier one in the batch), producerId, producerEpoch, baseSequence, isTransactional, isControl, controlType
        (such as ABORT), leaderEpoch, isCounted, lacksRecords (because of compaction), path; and in mode PERMISSIVE
        reason: why bytes are not a valid batch. `records` excludes deleted records; `tail` is for the audit.

    Raises:
        ConfigurationError: an option is refused.
    """
    from kafkawire.sdk.spark.audit.segment_facts import KafkaBatches, OpenedBatches, read_source
    from kafkawire.sdk.spark.segments.options import option_texts

    source = OpenedBatches if reads_records else KafkaBatches
    return read_source(spark, source, option_texts(path, options))
