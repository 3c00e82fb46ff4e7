"""The batches of one partition that are not settled: waiting, or on their way to its leader.

Any thread opens batches, and links each to the one before; the sender gathers them from there. Everything else here
belongs to the sender.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from operator import attrgetter
from typing import Final

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.producer.batch import Link, ProducerBatch
from kafkawire.sdk.producer.sequences import Sequences

__all__ = ["PartitionQueue"]

#: Batches that the sender has not gathered yet and that still count for the choice of a partition: beyond that a
#: partition is busy in any case.
_COUNTED_MAX: Final = 32


class PartitionQueue:
    """The batches of one partition.

    Args:
        partition: their destination.

    Attributes:
        waiting: to be sent, oldest first; the last one may be open.
        sequences: of the partition.
        on_wire: batches whose request has no response yet.
        due_ms: when it is to be looked at again, -1 if only an event can change anything.
        usual_bytes: size of the last batch that was closed, its limit if it was full; the next one will probably have
            it too.
        node_id: the leader that it is ready for, None while it is not.
    """

    __slots__ = (
        "_first",
        "_gathered",
        "_latest",
        "due_ms",
        "node_id",
        "on_wire",
        "partition",
        "sequences",
        "usual_bytes",
        "waiting",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.waiting: deque[ProducerBatch] = deque()
        self.sequences = Sequences()
        self.on_wire = 0
        self.due_ms = -1
        self.usual_bytes = 0
        self.node_id: int | None = None
        self._first = Link()
        self._gathered = self._first
        self._latest: ProducerBatch | None = None

    def latest(self) -> ProducerBatch | None:
        """Return the last batch that was opened, the only one that may be open; from any thread.

        None if there was none, or it is closed and was let go.
        """
        latest = known = self._latest
        following = self._first.next if known is None else known.link.next
        while following is not None:
            latest, following = following, following.link.next
        if latest is not known:
            self._latest = latest  # only where the next search begins: another thread may have found a later one
        return latest

    def follow(self, former: ProducerBatch | None, opened: ProducerBatch) -> bool:
        """Have a batch follow the latest one, None if there is none; return False if another one does already."""
        link = self._first if former is None else former.link
        return link.lead_to(opened) is opened

    def gather(self) -> list[ProducerBatch]:
        """Add the batches that were opened since the last call to `waiting`, and return them."""
        opened = []
        while (batch := self._gathered.next) is not None:
            opened.append(batch)
            self._gathered = batch.link
        if opened:
            self.waiting += opened
            self._first.skip_to(opened[-1])
        return opened

    def let_go(self, batch: ProducerBatch) -> None:
        """Drop a closed batch, and with it its records; the next batch is linked to it all the same."""
        if self._gathered is batch.link:
            self._first = batch.link
            self._latest = None

    @property
    def load(self) -> int:
        """How many batches are not settled, roughly; from any thread."""
        following, not_gathered = self._gathered.next, 0
        while following is not None and not_gathered < _COUNTED_MAX:
            following, not_gathered = following.link.next, not_gathered + 1
        return len(self.waiting) + self.on_wire + not_gathered

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
