"""What producers, consumers and admins say of partitions: which one, how far, since when."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["OffsetAndMetadata", "OffsetAndTimestamp", "TopicPartition"]


class TopicPartition(NamedTuple):
    """One partition of one topic.

    Attributes:
        topic: its name.
        partition: its number, from 0.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndMetadata(NamedTuple):
    """A position that a group commits.

    Attributes:
        offset: of the next record to read.
        metadata: any text of the application.
        leader_epoch: of the last record read, -1 if not known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a point in time.

    Attributes:
        offset: of the record.
        timestamp_ms: its own time, since the epoch.
    """

    offset: int
    timestamp_ms: int
