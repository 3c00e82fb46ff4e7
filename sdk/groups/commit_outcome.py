"""The outcomes of a commit: everything was committed, or partitions were given up or lost along with the membership."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition

__all__ = ["CommitWaiter", "Committed", "Fenced", "OnDone", "Outcome", "Rebalanced"]


class Committed(NamedTuple):
    """Every offset has been committed.

    Attributes:
        offsets: the stored offset of each partition, either the requested one or a later one.
    """

    offsets: Mapping[TopicPartition, OffsetAndMetadata]


class Rebalanced(NamedTuple):
    """Some partitions no longer belong to this member; their new owners resume from the last commit.

    Attributes:
        offsets: the stored offsets.
        partitions: the partitions whose offsets were not committed.
    """

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    partitions: frozenset[TopicPartition]


class Fenced(NamedTuple):
    """The group has moved on without this member, so partitions were lost along with their uncommitted offsets.

    Attributes:
        offsets: the stored offsets.
        partitions: the partitions whose offsets were not committed.
        cause: the coordinator's error.
    """

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    partitions: frozenset[TopicPartition]
    cause: KafkaWireError


Outcome = Committed | Rebalanced | Fenced
OnDone = Callable[[Outcome | KafkaWireError, int], None]


class CommitWaiter:
    """A commit that a caller is waiting for."""

    __slots__ = ("cause", "error", "left", "offsets", "on_done", "rebalanced")

    def __init__(self, partitions: Collection[TopicPartition], on_done: OnDone) -> None:
        self.left = set(partitions)
        self.on_done = on_done
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.rebalanced: set[TopicPartition] = set()
        self.cause: KafkaWireError | None = None
        self.error: KafkaWireError | None = None

    def outcome(self) -> Outcome | KafkaWireError:
        if self.error is not None:
            return self.error
        if self.cause is not None:
            return Fenced(self.offsets, frozenset(self.rebalanced), self.cause)
        if self.rebalanced:
            return Rebalanced(self.offsets, frozenset(self.rebalanced))
        return Committed(self.offsets)
