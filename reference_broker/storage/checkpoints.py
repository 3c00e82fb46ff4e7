"""Read and write small files on the broker's disk; `sdk/storage/` defines their formats.

A file that cannot be parsed raises `DamagedFile`; the caller decides whether the content can be restored from
elsewhere.

Source: `CleanShutdownFileHandler` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kafkawire.reference_broker.storage.disk.disk import Disk, read_file, replace_file, write_file
from kafkawire.sdk.storage.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    checkpoint_content,
    parse_epochs,
    parse_offsets,
)
from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.meta_properties import META_PROPERTIES
from kafkawire.sdk.storage.partitions import Partition
from kafkawire.sdk.storage.properties import stored_properties

__all__ = [
    "ACLS",
    "CLEAN_SHUTDOWN",
    "DELEGATION_TOKENS",
    "DIRECTORY_FILES",
    "DYNAMIC_CONFIGS",
    "ENTITY_CONFIGS",
    "LAST_EPOCH",
    "LOCK",
    "PRODUCER_IDS",
    "TOPICS",
    "DamagedFile",
    "clean_shutdown_text",
    "offsets_if_sound",
    "read_epochs",
    "read_offsets",
    "read_parsed",
    "read_properties",
    "write_epochs",
    "write_offsets",
]

logger = logging.getLogger("kafkawire.broker")

#: The ACLs of a standalone broker.
ACLS = "acls"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
#: Delegation tokens, without what clients log in with.
DELEGATION_TOKENS = "delegation-tokens"
#: Dynamic configurations.
DYNAMIC_CONFIGS = "dynamic-configs"
#: Quotas and SCRAM credentials.
ENTITY_CONFIGS = "entity-configs"
#: The highest epoch of all partitions at the last startup.
LAST_EPOCH = "last-leader-epoch"
LOCK = ".lock"
PRODUCER_IDS = "producer-ids"
#: The folder where a single broker stores its topics.
TOPICS = "topics"

#: Names in the data directory itself.
DIRECTORY_FILES = frozenset(
    {
        ACLS,
        CLEANER_OFFSETS,
        CLEAN_SHUTDOWN,
        DELEGATION_TOKENS,
        DYNAMIC_CONFIGS,
        ENTITY_CONFIGS,
        HIGH_WATERMARKS,
        LAST_EPOCH,
        LOCK,
        LOG_START_OFFSETS,
        META_PROPERTIES,
        PRODUCER_IDS,
        RECOVERY_POINTS,
        TOPICS,
    }
)

_Parsed = TypeVar("_Parsed")

#: The maximum file size. It exceeds the size of a checkpoint for 400,000 partitions with the longest names, and that of
#: the largest request, which limits the size of a topic's configuration. Reading more would waste time and memory.
_TEXT_BYTES_MAX = 128 * 1024 * 1024


class DamagedFile(ValueError):
    """A file has invalid content.

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
    """Return the offset of each partition in a checkpoint; an empty mapping for a missing file.

    Raises:
        DamagedFile: the file is not a checkpoint.
    """
    return read_parsed(disk, path, lambda content: dict(parse_offsets(content))) or {}


def offsets_if_sound(disk: Disk, path: str, otherwise: str) -> dict[Partition, int] | None:
    """Return the result of `read_offsets`; for a damaged file, log the consequence and return None."""
    try:
        return read_offsets(disk, path)
    except DamagedFile as error:
        logger.warning("%s; %s", error, otherwise)
        return None


def write_offsets(disk: Disk, path: str, offsets: Mapping[Partition, int]) -> None:
    """Replace a checkpoint that has a topic, a partition and an offset in each line."""
    entries = [(topic, number, offset) for (topic, number), offset in sorted(offsets.items())]
    replace_file(disk, path, checkpoint_content(entries))


def read_epochs(disk: Disk, path: str) -> list[tuple[int, int]] | None:
    """Return the (leader epoch, start offset) pairs of a partition, or None for a missing file.

    Raises:
        DamagedFile: the file is not a checkpoint, or its pairs are out of order.
    """
    return read_parsed(disk, path, lambda content: list(parse_epochs(content)))


def write_epochs(disk: Disk, path: str, epochs: Sequence[tuple[int, int]], *, is_durable: bool = False) -> None:
    """Write the (leader epoch, start offset) pairs of a partition, durably or not."""
    (replace_file if is_durable else write_file)(disk, path, checkpoint_content(epochs))


def read_properties(disk: Disk, path: str) -> dict[str, str]:
    """Return the entries of a properties file; an empty mapping for a missing file.

    Raises:
        DamagedFile: the file is not text, or a line is not a name and a value.
    """
    return read_parsed(disk, path, stored_properties) or {}


def read_parsed(disk: Disk, path: str, parse: Callable[[bytes], _Parsed]) -> _Parsed | None:
    """Return the parsed content of a file, or None if it is missing.

    Args:
        disk: holds the file.
        path: path of the file.
        parse: parses the content, or raises `DamagedContent`.

    Raises:
        DamagedFile: the content is damaged, or too large.
    """
    content = read_file(disk, path, _TEXT_BYTES_MAX + 1)
    try:
        if content is not None and len(content) > _TEXT_BYTES_MAX:
            raise DamagedContent(f"the file is larger than {_TEXT_BYTES_MAX} bytes")
        return None if content is None else parse(content)
    except DamagedContent as damage:
        raise DamagedFile(disk.describe(path), damage.reason) from None


def clean_shutdown_text() -> str:
    """Return the content of the file that marks a clean shutdown."""
    return '{"version":0,"brokerEpoch":-1}'
