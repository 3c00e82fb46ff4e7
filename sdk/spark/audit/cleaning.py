"""How far the log cleaner came in each partition, from a file beside a broker's partitions; does not need Spark.

Segments show cleaning only where a part of a batch is left: where each batch has one record, it removes whole batches.

Source: `OffsetCheckpointFile`, `LogCleanerManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.spark.segments.storage import SegmentFiles

__all__ = ["cleaned_offsets"]

#: In each folder of a broker's data. A backup may lack it.
_CHECKPOINT: Final = "cleaner-offset-checkpoint"
_VERSION: Final = "0"

#: Lines before those of partitions: the version, and how many partitions there are.
_HEADER_LINES: Final = 2


def cleaned_offsets(files: SegmentFiles, segments: Iterable[FoundSegment]) -> dict[TopicPartition, int]:
    """Return up to which offset partitions were cleaned; those about which nothing is known are left out.

    Args:
        files: where the segments are.
        segments: all of them.

    Raises:
        OSError: a file cannot be read.
    """
    found: dict[TopicPartition, int] = {}
    for folder in sorted({segment.path.rpartition("/")[0].rpartition("/")[0] for segment in segments}):
        for partition, offset in _read(files.read(f"{folder}/{_CHECKPOINT}")).items():
            found[partition] = max(offset, found.get(partition, 0))
    return found


def _read(content: bytes) -> dict[TopicPartition, int]:
    """Return what a file says; nothing if it is damaged, as for a broker."""
    lines = content.decode("ascii", "replace").splitlines()
    try:
        if lines[0] != _VERSION or int(lines[1]) != len(lines) - _HEADER_LINES:
            return {}
        rows = [line.split() for line in lines[_HEADER_LINES:]]
        return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    except (IndexError, ValueError):
        return {}
