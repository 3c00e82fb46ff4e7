"""The names of a partition and of its folder in a data directory.

Source: `UnifiedLog.parseTopicPartitionName`, `LocalLog.logDirNameWithSuffix` in Apache Kafka.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kafkawire.sdk.records.java_integers import INT32_MAX

__all__ = ["FOLDER_PATTERN", "Partition", "PartitionFolder", "folder_of", "has_folder_name", "partition_folder"]

#: A partition: its topic and its number.
Partition = tuple[str, int]

#: A regular expression for the folder of a partition in use, with the groups `topic` and `partition`.
FOLDER_PATTERN: Final = r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)"

#: The folder of a partition that is being deleted or moved, or that was left behind, has a suffix.
_FOLDER: Final = re.compile(rf"{FOLDER_PATTERN}(?:\.[0-9a-f]{{32}}-(?P<set_aside>delete|future|stray))?", re.ASCII)

#: Maximum number of digits of an int32; a number with that many digits can still be too large.
_DIGITS_MAX: Final = 10


class PartitionFolder(NamedTuple):
    """The parts of a folder's name.

    Attributes:
        partition: the partition whose files are in the folder.
        set_aside: `delete`, `future` or `stray`; empty if the folder is in use.
    """

    partition: Partition
    set_aside: str


def folder_of(topic: str, number: int) -> str:
    """Return the folder of a partition."""
    return f"{topic}-{number}"


def has_folder_name(topic: str, number: int) -> bool:
    """Return whether a partition's folder has a name that can be parsed, and thus lies inside the data directory."""
    found = partition_folder(folder_of(topic, number))
    return found == PartitionFolder((topic, number), "")


def partition_folder(name: str) -> PartitionFolder | None:
    """Return the parts of a folder's name, or None if it is not a partition's folder."""
    found = _FOLDER.fullmatch(name)
    if found is None or len(found["partition"]) > _DIGITS_MAX or int(found["partition"]) > INT32_MAX:
        return None
    return PartitionFolder((found["topic"], int(found["partition"])), found["set_aside"] or "")
