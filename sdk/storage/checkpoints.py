"""Kafka's checkpoint files: an offset for each partition of a data directory, and the leader epochs of a partition.

Source: `CheckpointFile`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from kafkawire.sdk.records.java_integers import INT32_MAX, OFFSET_MAX

__all__ = [
    "CLEANER_OFFSETS",
    "HIGH_WATERMARKS",
    "LEADER_EPOCHS",
    "LOG_START_OFFSETS",
    "RECOVERY_POINTS",
    "DamagedCheckpoint",
    "checkpoint_content",
    "parse_epochs",
    "parse_offsets",
]

#: Of a data directory. Up to where each compacted partition was cleaned.
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
#: Up to where all replicas in sync have the records of each partition: no log of this broker ends before that.
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
#: Where partitions begin whose first segment holds deleted records, too; of tiered ones, where the remote part begins.
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
#: Up to where each partition was written to the disk.
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"

#: Of a partition: each leader epoch, with the first offset that was written in it. Where the log begins, the first one
#: begins, too: brokers note that whenever they remove records.
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"

#: In the first line.
_VERSION: Final = "0"

_DIGITS_MAX: Final = 20


class DamagedCheckpoint(ValueError):
    """The content is not that of a checkpoint; the text says why."""


def parse_offsets(content: bytes) -> dict[tuple[str, int], int]:
    """Return the offset of each partition, by topic and number.

    Raises:
        DamagedCheckpoint: it is not a checkpoint.
    """
    return {
        (topic, _number(number, INT32_MAX)): _number(offset, OFFSET_MAX + 1)
        for topic, number, offset in _entries(content, 3)
    }


def parse_epochs(content: bytes) -> list[tuple[int, int]]:
    """Return (leader epoch, start offset) pairs of a partition.

    Raises:
        DamagedCheckpoint: it is not a checkpoint, or its pairs are not in order.
    """
    epochs = [(_number(epoch, INT32_MAX), _number(start, OFFSET_MAX + 1)) for epoch, start in _entries(content, 2)]
    if any(a[0] >= b[0] or a[1] > b[1] for a, b in pairwise(epochs)):
        raise DamagedCheckpoint("its epochs are not in order")
    return epochs


def checkpoint_content(entries: Sequence[Sequence[object]]) -> bytes:
    """Return the content of a file with these lines."""
    lines = [_VERSION, str(len(entries)), *(" ".join(map(str, entry)) for entry in entries)]
    return "".join(f"{line}\n" for line in lines).encode()


def _entries(content: bytes, columns: int) -> list[list[str]]:
    """Return the lines, each with this number of columns."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise DamagedCheckpoint(str(error)) from None
    lines = text.splitlines()
    if len(lines) < 2 or lines[0] != _VERSION:
        raise DamagedCheckpoint(f"it begins with {text[:20]!r}, not with version {_VERSION}")
    if not text.endswith("\n"):
        raise DamagedCheckpoint("its last line has no end, and may have lost digits")
    entries = [line.split(" ") for line in lines[2:]]
    if lines[1] != str(len(entries)):
        raise DamagedCheckpoint(f"{len(entries)} entries, {lines[1]} announced")
    for entry in entries:
        if len(entry) != columns:
            raise DamagedCheckpoint(f"{' '.join(entry)!r}, {columns} columns expected")
    return entries


def _number(text: str, highest: int) -> int:
    if not text.isascii() or not text.isdigit():
        raise DamagedCheckpoint(f"{text!r} is not a number")
    # More digits than Python converts are too many in any case.
    if len(text) > _DIGITS_MAX or int(text) > highest:
        raise DamagedCheckpoint(f"{text:.{_DIGITS_MAX}} is too high, {highest} is the limit")
    return int(text)
