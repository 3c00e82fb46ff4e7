"""How far the log cleaner came in each partition, from a file beside a broker's partitions; does not need Spark.

Segments show cleaning only where a part of a batch is left: where each batch has one record, it removes whole batches.

Source: `LogCleanerManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.spark.segments.checkpoints import data_folder
from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from kafkawire.sdk.storage.checkpoints import CLEANER_OFFSETS

__all__ = ["cleaned_offsets"]


def cleaned_offsets(files: SegmentFiles, segments: Iterable[FoundSegment]) -> dict[TopicPartition, int]:
    """Return up to which offset partitions were cleaned; those about which nothing is known are left out.

    Args:
        files: where the segments are.
        segments: all of them.

    Raises:
        OSError: a file cannot be read.
    """
    found: dict[TopicPartition, int] = {}
    for folder in sorted({data_folder(segment.path) for segment in segments}):
        # A backup may lack it.
        for partition, offset in files.offsets(f"{folder}/{CLEANER_OFFSETS}").items():
            found[partition] = max(offset, found.get(partition, 0))
    return found
