"""A place in a partition: an offset and the leader epoch of the record before it.

The epoch lets a consumer notice that the log was truncated (KIP-320): records with the same offset may differ from one
leader to the next.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition

__all__ = ["Located", "Place", "Position"]


class Position(NamedTuple):
    """A place in a partition.

    Attributes:
        offset: of the next record.
        leader_epoch: of the record before it, -1 if not known.
    """

    offset: int
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH

    def to_commit(self) -> OffsetAndMetadata:
        """Return what a group commits."""
        return OffsetAndMetadata(self.offset, leader_epoch=self.leader_epoch)


#: Where to begin: a position; a time, in ms since the epoch, or an `OffsetTimestamp`; None for the committed offset
#: and, without one, what the reset policy says.
Place = Position | int | None


class Located(Protocol):
    """Takes positions that were looked up, and what is known of the ends of partitions."""

    def located(self, partition: TopicPartition, epoch: int, position: Position) -> bool:
        """Take a position; return whether the partition had none."""
        ...

    def observed(self, partition: TopicPartition, epoch: int, end_offset: int) -> None:
        """Take the first offset that is not readable yet."""
        ...

    def renewed(self, partition: TopicPartition, epoch: int, place: Place) -> None:
        """Begin anew at a place: the topic is another one now, of the same name."""
        ...
