"""The persister: where the leader of a partition, and the group coordinator, keep the state of a share partition.

The share coordinator that stores the state may be on another broker, as everywhere in Kafka; this interface hides
where it is. Every callback is called exactly once.

Source: `Persister` in Apache Kafka.
"""

from __future__ import annotations

from typing import Protocol

from kafkawire.reference_broker.coordinators.shard import Done
from kafkawire.reference_broker.shares.shard import Write
from kafkawire.reference_broker.shares.share_state import SharePartitionKey, ShareState

__all__ = ["Persister"]


class Persister(Protocol):
    """Stores the state of share partitions; see `ShareShard` for the meaning of the operations."""

    def initialize(self, share: SharePartitionKey, state_epoch: int, start_offset: int, done: Done[None]) -> None:
        """Begin a new state; see `ShareShard.initialize`."""

    def read(self, share: SharePartitionKey, leader_epoch: int, done: Done[ShareState]) -> None:
        """Read a state as the leader of the partition; see `ShareShard.read`."""

    def write(self, share: SharePartitionKey, write: Write, done: Done[None]) -> None:
        """Store a change as the leader of the partition; see `ShareShard.write`."""

    def delete(self, share: SharePartitionKey, done: Done[None]) -> None:
        """Delete a state; see `ShareShard.delete`."""

    def summary(self, share: SharePartitionKey, done: Done[ShareState | None]) -> None:
        """Read a state for an overview; see `ShareShard.summary`."""
