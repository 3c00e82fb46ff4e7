"""The batches of one partition that are not settled: waiting, or on their way to its leader."""

from __future__ import annotations

from bisect import insort
from collections import deque
from operator import attrgetter

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.producer.batch import ProducerBatch
from kafkawire.sdk.producer.sequences import Sequences

__all__ = ["PartitionQueue"]


class PartitionQueue:
    """The batches of one partition.

    Args:
        partition: their destination.

    Attributes:
        waiting: to be sent, oldest first; the last one may be open. Other threads append, under the accumulator's lock.
        sequences: of the partition.
        on_wire: batches whose request has no response yet.
        due_ms: when it is to be looked at again, -1 if only an event can change anything.
        usual_bytes: size of the last batch that was closed, its limit if it was full; the next one will probably have
            it too.
        node_id: the leader that it is ready for, None while it is not.
    """

    __slots__ = ("due_ms", "node_id", "on_wire", "partition", "sequences", "usual_bytes", "waiting")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.waiting: deque[ProducerBatch] = deque()
        self.sequences = Sequences()
        self.on_wire = 0
        self.due_ms = -1
        self.usual_bytes = 0
        self.node_id: int | None = None

    def put_back(self, batch: ProducerBatch) -> None:
        """Put a batch in its place among those that wait."""
        if not self.waiting or batch.order < self.waiting[0].order:
            self.waiting.appendleft(batch)
        else:
            batches = list(self.waiting)
            insort(batches, batch, key=attrgetter("order"))
            self.waiting = deque(batches)

    def remove(self, batch: ProducerBatch) -> None:
        """Remove a batch if it waits."""
        if self.waiting and self.waiting[0] is batch:
            self.waiting.popleft()
        elif batch in self.waiting:
            self.waiting.remove(batch)
