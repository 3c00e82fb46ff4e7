"""The types that represent partitions and offsets in the APIs of producers, consumers and admins."""

from typing import NamedTuple

__all__ = ["OffsetAndMetadata", "OffsetAndTimestamp", "TopicIdPartition", "TopicPartition"]


class TopicPartition(NamedTuple):
    """One partition of one topic.

    The values are not checked when it is created, which clients do for every record that is finished, but by every
    method that takes a partition.

    Attributes:
        topic: the topic's name.
        partition: the partition's number, from 0.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """One partition of one topic, which is not a topic of the same name that was created later.

    Attributes:
        topic_id: 16 bytes.
        topic: the topic's name.
        partition: the partition's number, from 0.
    """

    topic_id: bytes
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition without the id of its topic."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndMetadata(NamedTuple):
    """An offset that a group commits.

    Attributes:
        offset: the offset of the next record to read.
        metadata: any text that the application chooses.
        leader_epoch: the leader epoch of the last record read; -1 if unknown.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a point in time.

    Attributes:
        offset: the record's offset; -1 if no record is that recent.
        timestamp_ms: the record's timestamp, milliseconds since the epoch; -1 if the offset does not belong to a
            record.
        leader_epoch: the record's leader epoch; -1 if unknown.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1
