"""What a broker notes about its partitions in a file beside their folders: an offset for each; does not need Spark.

Source: `OffsetCheckpointFile` in Apache Kafka.
"""

from __future__ import annotations

from typing import Final

from kafkawire.sdk.client.partitions import TopicPartition

__all__ = ["CLEANER_CHECKPOINT", "LOG_START_CHECKPOINT", "data_folder", "parse_checkpoint"]

#: Up to which offset partitions were compacted.
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"

#: From which offset on partitions are read, where that is not their first one: somebody deleted records.
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"

_VERSION: Final = "0"

#: Lines before those of partitions: the version, and how many partitions there are.
_HEADER_LINES: Final = 2


def data_folder(path: str) -> str:
    """Return the folder that has the folder of a segment's partition.

    Args:
        path: of the segment.
    """
    return path.rpartition("/")[0].rpartition("/")[0]


def parse_checkpoint(content: bytes) -> dict[TopicPartition, int]:
    """Return what a file says; nothing if it is damaged, as for a broker."""
    lines = content.decode("ascii", "replace").splitlines()
    try:
        if lines[0] != _VERSION or int(lines[1]) != len(lines) - _HEADER_LINES:
            return {}
        rows = [line.split() for line in lines[_HEADER_LINES:]]
        return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    except (IndexError, ValueError):
        return {}
