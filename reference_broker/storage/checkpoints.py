"""Kafka's small text files on the broker's disk: checkpoints, partition metadata, properties.

What cannot be read raises `DamagedFile`; the caller decides whether the content can be restored from elsewhere. The
format of checkpoints is in `sdk/storage/checkpoints.py`.

Source: `PartitionMetadataFile`, `CleanShutdownFileHandler`, `MetaProperties` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kafkawire.reference_broker.config.properties import parse_properties
from kafkawire.reference_broker.storage.disk.disk import Disk, read_file, replace_file, write_file
from kafkawire.sdk.protocol.uuids import format_uuid
from kafkawire.sdk.storage.checkpoints import (
    CLEANER_OFFSETS,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    DamagedCheckpoint,
    checkpoint_content,
    parse_epochs,
    parse_offsets,
)
from kafkawire.sdk.storage.partitions import Partition

__all__ = [
    "CLEANER_OFFSETS",
    "CLEAN_SHUTDOWN",
    "DIRECTORY_FILES",
    "LAST_EPOCH",
    "LEADER_EPOCHS",
    "LOCK",
    "LOG_START_OFFSETS",
    "META_PROPERTIES",
    "PARTITION_METADATA",
    "PRODUCER_IDS",
    "RECOVERY_POINTS",
    "DamagedFile",
    "clean_shutdown_text",
    "offsets_if_sound",
    "partition_metadata_text",
    "read_epochs",
    "read_offsets",
    "read_properties",
    "write_epochs",
    "write_offsets",
]

logger = logging.getLogger("kafkawire.broker")

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
#: The highest epoch of all partitions when the broker started last.
LAST_EPOCH = "last-leader-epoch"
LOCK = ".lock"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
PRODUCER_IDS = "producer-ids"

#: In the data directory itself.
DIRECTORY_FILES = frozenset(
    {
        CLEANER_OFFSETS,
        CLEAN_SHUTDOWN,
        LAST_EPOCH,
        LOCK,
        LOG_START_OFFSETS,
        META_PROPERTIES,
        PRODUCER_IDS,
        RECOVERY_POINTS,
    }
)

_Parsed = TypeVar("_Parsed")

#: More than the checkpoint of 400,000 partitions with the longest names, and than the largest request: no
#: configuration of a topic is larger. What is in a larger file is not worth the time and memory to look at it.
_TEXT_BYTES_MAX = 128 * 1024 * 1024


class DamagedFile(ValueError):
    """A file does not have the content it should have.

    Args:
        path: the file.
        reason: what is wrong.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)

    def __str__(self) -> str:
        path, reason = self.args
        return f"{path} is damaged: {reason}"


def read_offsets(disk: Disk, path: str) -> dict[Partition, int]:
    """Return the offset of each partition in a checkpoint; none for a missing file.

    Raises:
        DamagedFile: it is not a checkpoint.
    """
    return _parsed(disk, path, parse_offsets) or {}


def offsets_if_sound(disk: Disk, path: str, otherwise: str) -> dict[Partition, int] | None:
    """Return what `read_offsets` does; if the file is damaged, None, with a log line that says what happens then."""
    try:
        return read_offsets(disk, path)
    except DamagedFile as error:
        logger.warning("%s; %s", error, otherwise)
        return None


def write_offsets(disk: Disk, path: str, offsets: Mapping[Partition, int]) -> None:
    """Replace a checkpoint: topic, partition and offset in each line."""
    entries = [(topic, number, offset) for (topic, number), offset in sorted(offsets.items())]
    replace_file(disk, path, checkpoint_content(entries))


def read_epochs(disk: Disk, path: str) -> list[tuple[int, int]] | None:
    """Return (leader epoch, start offset) pairs of a partition, None for a missing file.

    Raises:
        DamagedFile: it is not a checkpoint, or its pairs are not in order.
    """
    return _parsed(disk, path, parse_epochs)


def write_epochs(disk: Disk, path: str, epochs: Sequence[tuple[int, int]]) -> None:
    """Write (leader epoch, start offset) pairs of a partition."""
    write_file(disk, path, checkpoint_content(epochs))


def read_properties(disk: Disk, path: str) -> dict[str, str]:
    """Return the entries of a properties file; none for a missing file.

    Raises:
        DamagedFile: it is not text, or a line has no name and value.
    """
    text = _text(disk, path)
    try:
        properties = [] if text is None else parse_properties(text)
    except ValueError as error:
        raise DamagedFile(disk.describe(path), str(error)) from None
    for entry in properties:
        if not entry.name or not entry.separator:
            raise DamagedFile(disk.describe(path), f"no name and value in the line {entry.name!r}")
    return {entry.name: entry.value for entry in properties}


def partition_metadata_text(topic_id: bytes) -> str:
    """Return the content of `partition.metadata`."""
    return f"version: 0\ntopic_id: {format_uuid(topic_id)}"


def clean_shutdown_text() -> str:
    """Return the content of the file that marks a clean shutdown."""
    return '{"version":0,"brokerEpoch":-1}'


def _parsed(disk: Disk, path: str, parse: Callable[[bytes], _Parsed]) -> _Parsed | None:
    """Return what a checkpoint says; None if there is no file."""
    content = _content(disk, path)
    try:
        return None if content is None else parse(content)
    except DamagedCheckpoint as error:
        raise DamagedFile(disk.describe(path), str(error)) from None


def _text(disk: Disk, path: str) -> str | None:
    content = _content(disk, path)
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError as error:
        raise DamagedFile(disk.describe(path), str(error)) from None


def _content(disk: Disk, path: str) -> bytes | None:
    content = read_file(disk, path, _TEXT_BYTES_MAX + 1)
    if content is not None and len(content) > _TEXT_BYTES_MAX:
        raise DamagedFile(disk.describe(path), f"it has more than {_TEXT_BYTES_MAX} bytes")
    return content
