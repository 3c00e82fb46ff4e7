"""A place in a partition: an offset and the leader epoch of the record before it.

The epoch lets a consumer notice that the log was truncated (KIP-320), since records at the same offset can differ
between leaders.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition

__all__ = ["Located", "Place", "Position"]


class Position(NamedTuple):
    """A place in a partition.

    Attributes:
        offset: the offset of the next record.
        leader_epoch: the leader epoch of the record before it; -1 if unknown.
    """

    offset: int
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH

    def to_commit(self) -> OffsetAndMetadata:
        """Return the offset and metadata that a group commits."""
        return OffsetAndMetadata(self.offset, leader_epoch=self.leader_epoch)


#: Where to start: a position, a time in ms since the epoch, an `OffsetTimestamp`, or None for the committed offset or,
#: without one, the place given by the reset policy.
Place = Position | int | None


class Located(Protocol):
    """Receives the positions found by lookups, and the known end offsets of partitions."""

    def located(self, partition: TopicPartition, epoch: int, position: Position) -> bool:
        """Accept a position; return whether the partition had none before."""
        ...

    def observed(self, partition: TopicPartition, epoch: int, end_offset: int) -> None:
        """Record the first offset that is not readable yet."""
        ...

    def renewed(self, partition: TopicPartition, epoch: int, place: Place) -> None:
        """Restart at a place, because the topic was replaced by another one with the same name."""
        ...
