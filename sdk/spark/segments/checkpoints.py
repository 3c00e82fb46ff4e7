"""What a broker notes about its partitions in a file beside their folders: an offset for each; does not need Spark.

Source: `OffsetCheckpointFile` in Apache Kafka.
"""

from __future__ import annotations

import logging

from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.storage.checkpoints import parse_offsets
from kafkawire.sdk.storage.damage import DamagedContent

__all__ = ["data_folder", "offsets_in"]

_log = logging.getLogger("kafkawire.spark")


def data_folder(path: str) -> str:
    """Return the folder that has the folder of a segment's partition.

    Args:
        path: of the segment.
    """
    return path.rpartition("/")[0].rpartition("/")[0]


def offsets_in(content: bytes, path: str) -> dict[TopicPartition, int]:
    """Return what a file says; nothing if it is missing or damaged. Damage is logged.

    Args:
        content: of the file; nothing if it is missing.
        path: of the file.
    """
    if not content:
        return {}
    try:
        return {TopicPartition(*partition): offset for partition, offset in parse_offsets(content)}
    except DamagedContent as damage:
        _log.warning("%s is damaged, and says nothing: %s", path, damage)
        return {}
