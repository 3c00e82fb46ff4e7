"""Read and write checkpoint files: the offsets of a data directory's partitions, or the leader epochs of one partition.

Source: `CheckpointFile`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from kafkawire.sdk.records.java_integers import INT32_MAX, OFFSET_MAX
from kafkawire.sdk.storage.damage import DamagedContent, OnDamage, refuse, stored_text
from kafkawire.sdk.storage.partitions import Partition

__all__ = [
    "CLEANER_OFFSETS",
    "HIGH_WATERMARKS",
    "LEADER_EPOCHS",
    "LOG_START_OFFSETS",
    "RECOVERY_POINTS",
    "checkpoint_content",
    "parse_epochs",
    "parse_offsets",
]

#: In a data directory: the offset up to which each compacted partition was cleaned.
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
#: The high watermark of each partition. All in-sync replicas have the records before it, and this broker's log always
#: reaches it.
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
#: The start offset of each partition whose first segment still holds deleted records; for tiered partitions, the start
#: offset of the remote part.
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
#: The offset up to which each partition has been synced to disk.
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"

#: In a partition's folder: each leader epoch with its first offset. The first epoch starts where the log starts;
#: brokers update this offset whenever they remove records.
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"

#: The version, which is on the first line.
_VERSION: Final = "0"

_DIGITS_MAX: Final = 20

_Entry = TypeVar("_Entry")


def parse_offsets(content: bytes, on_damage: OnDamage = refuse) -> Iterator[tuple[Partition, int]]:
    """Yield the offset of each partition.

    Args:
        content: the content of the file.
        on_damage: called for malformed lines.

    Raises:
        DamagedContent: the content is not a checkpoint, and `on_damage` raises this error.
    """
    return _entries(content, 3, _partition_offset, on_damage)


def parse_epochs(content: bytes, on_damage: OnDamage = refuse) -> Iterator[tuple[int, int]]:
    """Yield (leader epoch, start offset) pairs of a partition.

    Args:
        content: the content of the file.
        on_damage: called for malformed lines and for pairs that are out of order.

    Raises:
        DamagedContent: the content is not a checkpoint, or its pairs are out of order, and `on_damage` raises this
            error.
    """
    before = (-1, -1)
    for epoch, start in _entries(content, 2, _epoch_start, on_damage):
        if epoch <= before[0] or start < before[1]:
            on_damage(DamagedContent(f"its epochs are out of order: {epoch}, {start} follows {before[0]}, {before[1]}"))
        before = epoch, start
        yield before


def checkpoint_content(entries: Sequence[Sequence[object]]) -> bytes:
    """Return the content of a checkpoint with these lines."""
    lines = [_VERSION, str(len(entries)), *(" ".join(map(str, entry)) for entry in entries)]
    return "".join(f"{line}\n" for line in lines).encode()


def _entries(
    content: bytes, columns: int, parsed: Callable[[list[str]], _Entry], on_damage: OnDamage
) -> Iterator[_Entry]:
    """Yield the values of each line; every line must have this many columns."""
    try:
        text = stored_text(content)
        announced, *lines = _lines_after_version(text)
    except DamagedContent as damage:
        on_damage(damage)
        return
    has_end = text.endswith("\n")
    for line in lines if has_end else lines[:-1]:
        texts = line.split(" ")
        try:
            if len(texts) != columns:
                raise DamagedContent(f"{line!r} does not have {columns} columns")
            entry = parsed(texts)
        except DamagedContent as damage:
            on_damage(damage)
        else:
            yield entry
    if not has_end:
        on_damage(DamagedContent("its last line is incomplete, and may have lost digits"))
    elif announced != str(len(lines)):
        on_damage(DamagedContent(f"there are {len(lines)} entries, but the header says {announced}"))


def _lines_after_version(text: str) -> list[str]:
    """Return the line with the number of entries, and the lines of the entries themselves.

    Raises:
        DamagedContent: the content does not begin as a checkpoint does.
    """
    lines = text.splitlines()
    if len(lines) < 2 or lines[0] != _VERSION:
        raise DamagedContent(f"expected version {_VERSION} on the first line, got {text[:20]!r}")
    return lines[1:]


def _partition_offset(texts: list[str]) -> tuple[Partition, int]:
    topic, number, offset = texts
    return (topic, _number(number, INT32_MAX)), _number(offset, OFFSET_MAX + 1)


def _epoch_start(texts: list[str]) -> tuple[int, int]:
    epoch, start = texts
    return _number(epoch, INT32_MAX), _number(start, OFFSET_MAX + 1)


def _number(text: str, highest: int) -> int:
    if not text.isascii() or not text.isdigit():
        raise DamagedContent(f"{text!r} is not a number")
    # A number with more digits than Python can convert is always too high.
    if len(text) > _DIGITS_MAX or int(text) > highest:
        raise DamagedContent(f"{text:.{_DIGITS_MAX}} is too high; the limit is {highest}")
    return int(text)
