"""Kafka's small text files: checkpoints, partition metadata, properties.

What cannot be read raises `DamagedFile`; the caller decides whether the content can be restored from elsewhere.

Source: `CheckpointFile`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile`, `PartitionMetadataFile`,
`CleanShutdownFileHandler`, `MetaProperties` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import pairwise

from kafkawire.reference_broker.disk.disk import Disk, read_file, replace_file, write_file
from kafkawire.reference_broker.log.file_names import Partition
from kafkawire.reference_broker.log.properties import parse_properties
from kafkawire.sdk.protocol.uuids import format_uuid
from kafkawire.sdk.records.java_integers import INT32_MAX, OFFSET_MAX

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

CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
#: The highest epoch of all partitions when the broker started last.
LAST_EPOCH = "last-leader-epoch"
LEADER_EPOCHS = "leader-epoch-checkpoint"
LOCK = ".lock"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
PRODUCER_IDS = "producer-ids"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"

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

#: Version of the checkpoint files, in their first line.
_CHECKPOINT_VERSION = "0"

_DIGITS_MAX = 20

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
    return {
        (topic, _number(disk, path, number, INT32_MAX)): _number(disk, path, offset, OFFSET_MAX + 1)
        for topic, number, offset in _read(disk, path, 3) or []
    }


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
    replace_file(disk, path, _checkpoint(entries))


def read_epochs(disk: Disk, path: str) -> list[tuple[int, int]] | None:
    """Return (leader epoch, start offset) pairs of a partition, None for a missing file.

    Raises:
        DamagedFile: it is not a checkpoint, or its pairs are not in order.
    """
    lines = _read(disk, path, 2)
    if lines is None:
        return None
    entries = [
        (_number(disk, path, epoch, INT32_MAX), _number(disk, path, start, OFFSET_MAX + 1)) for epoch, start in lines
    ]
    if any(a[0] >= b[0] or a[1] > b[1] for a, b in pairwise(entries)):
        raise DamagedFile(disk.describe(path), "its epochs are not in order")
    return entries


def write_epochs(disk: Disk, path: str, epochs: Sequence[tuple[int, int]]) -> None:
    """Write (leader epoch, start offset) pairs of a partition."""
    write_file(disk, path, _checkpoint(epochs))


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


def _text(disk: Disk, path: str) -> str | None:
    content = read_file(disk, path, _TEXT_BYTES_MAX + 1)
    if content is not None and len(content) > _TEXT_BYTES_MAX:
        raise DamagedFile(disk.describe(path), f"it has more than {_TEXT_BYTES_MAX} bytes")
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError as error:
        raise DamagedFile(disk.describe(path), str(error)) from None


def _read(disk: Disk, path: str, columns: int) -> list[list[str]] | None:
    """Return the lines of a checkpoint, each with this number of columns; None if there is no file."""
    text = _text(disk, path)
    if text is None:
        return None
    lines = text.splitlines()
    if len(lines) < 2 or lines[0] != _CHECKPOINT_VERSION:
        raise DamagedFile(disk.describe(path), f"it begins with {text[:20]!r}, not with version {_CHECKPOINT_VERSION}")
    if not text.endswith("\n"):
        raise DamagedFile(disk.describe(path), "its last line has no end, and may have lost digits")
    entries = [line.split(" ") for line in lines[2:]]
    if lines[1] != str(len(entries)):
        raise DamagedFile(disk.describe(path), f"{len(entries)} entries, {lines[1]} announced")
    for entry in entries:
        if len(entry) != columns:
            raise DamagedFile(disk.describe(path), f"{' '.join(entry)!r}, {columns} columns expected")
    return entries


def _number(disk: Disk, path: str, text: str, highest: int) -> int:
    if not text.isascii() or not text.isdigit():
        raise DamagedFile(disk.describe(path), f"{text!r} is not a number")
    # More digits than Python converts are too many in any case.
    if len(text) > _DIGITS_MAX or int(text) > highest:
        raise DamagedFile(disk.describe(path), f"{text:.{_DIGITS_MAX}} is too high, {highest} is the limit")
    return int(text)


def _checkpoint(entries: Sequence[Sequence[object]]) -> bytes:
    lines = [_CHECKPOINT_VERSION, str(len(entries)), *(" ".join(map(str, entry)) for entry in entries)]
    return "".join(f"{line}\n" for line in lines).encode()
