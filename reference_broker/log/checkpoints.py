"""Kafka's small text files: checkpoints, partition metadata, properties.

Source: `CheckpointFile`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile`, `PartitionMetadataFile`,
`CleanShutdownFileHandler`, `MetaProperties` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kafkawire.reference_broker.log.file import replace_file
from kafkawire.sdk.protocol.uuids import format_uuid

__all__ = [
    "CLEAN_SHUTDOWN",
    "LEADER_EPOCHS",
    "LOG_START_OFFSETS",
    "META_PROPERTIES",
    "PARTITION_METADATA",
    "RECOVERY_POINTS",
    "clean_shutdown_text",
    "partition_metadata_text",
    "properties_text",
    "read_epochs",
    "read_offsets",
    "read_properties",
    "write_epochs",
    "write_offsets",
]

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LEADER_EPOCHS = "leader-epoch-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"

#: Version of the checkpoint files, in their first line.
_CHECKPOINT_VERSION = 0

#: A partition: topic and number.
Partition = tuple[str, int]


def read_offsets(path: Path) -> dict[Partition, int]:
    """Return the offset of each partition in a checkpoint; none for a missing file."""
    offsets: dict[Partition, int] = {}
    for line in _read_checkpoint(path):
        topic, number, offset = line
        offsets[topic, int(number)] = int(offset)
    return offsets


def write_offsets(path: Path, offsets: Mapping[Partition, int]) -> None:
    """Write a checkpoint: topic, partition and offset in each line."""
    _write_checkpoint(path, [(topic, number, offset) for (topic, number), offset in sorted(offsets.items())])


def read_epochs(path: Path) -> list[tuple[int, int]]:
    """Return (leader epoch, start offset) pairs of a partition."""
    return [(int(epoch), int(start)) for epoch, start in _read_checkpoint(path)]


def write_epochs(path: Path, epochs: Sequence[tuple[int, int]]) -> None:
    """Write (leader epoch, start offset) pairs of a partition."""
    _write_checkpoint(path, epochs)


def read_properties(path: Path) -> dict[str, str]:
    """Return the entries of a properties file; none for a missing file."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    lines = (line.strip() for line in text.splitlines())
    entries = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in entries}


def properties_text(properties: Mapping[str, object]) -> str:
    """Return the content of a properties file."""
    return "".join(f"{name}={value}\n" for name, value in sorted(properties.items()))


def partition_metadata_text(topic_id: bytes) -> str:
    """Return the content of `partition.metadata`."""
    return f"version: 0\ntopic_id: {format_uuid(topic_id)}"


def clean_shutdown_text() -> str:
    """Return the content of the file that marks a clean shutdown."""
    return '{"version":0,"brokerEpoch":-1}'


def _read_checkpoint(path: Path) -> list[list[str]]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [line.split() for line in lines[2:] if line.strip()]


def _write_checkpoint(path: Path, entries: Sequence[Sequence[object]]) -> None:
    lines = [str(_CHECKPOINT_VERSION), str(len(entries)), *(" ".join(map(str, entry)) for entry in entries)]
    replace_file(path, "".join(f"{line}\n" for line in lines))
