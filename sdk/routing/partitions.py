"""Partitions and offsets, as producers, consumers and admins exchange them with the application."""

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
    """An offset that a group commits.

    Attributes:
        offset: of the next record to read.
        metadata: any text; the application's own.
        leader_epoch: of the last record read, -1 if not known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a point in time.

    Attributes:
        offset: of the record; -1 if no record is that recent.
        timestamp_ms: of the record, milliseconds since the epoch; -1 when the offset is not a record's.
    """

    offset: int
    timestamp_ms: int
