"""What a producer keeps of a topic, beside the open batches that its appender writes into."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from kafkawire.sdk.producer.arguments import Held
from kafkawire.sdk.producer.arrivals import Arrivals, End
from kafkawire.sdk.producer.engine import Topic
from kafkawire.sdk.producer.partition_queue import PartitionQueue

if TYPE_CHECKING:
    from kafkawire.sdk.producer.partition_queue import ProducerBatch

__all__ = ["ProducerTopic"]


class ProducerTopic(Topic):
    """A topic that records are sent to.

    Attributes:
        queues: by partition, of those that batches were made for.
        arrivals: takes records that must wait until the topic, or their partition, is known.
        held: those that the sender has taken from there, oldest first.
        turns: counts the records that went to one partition after the other.
        used_ms: when the last batch was made.
    """

    __slots__ = ("arrivals", "held", "queues", "turns", "used_ms")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.queues: dict[int, PartitionQueue] = {}
        self.arrivals = Arrivals()
        self.held: deque[Held] = deque()
        self.turns = itertools.count()
        self.used_ms = 0

    @property
    def holds(self) -> bool:
        """Whether records wait."""
        return bool(self.held or len(self.arrivals))

    def gather(self) -> None:
        """Take the records that have arrived; others may arrive meanwhile."""
        if len(self.arrivals):
            arrivals, self.arrivals = self.arrivals, Arrivals()
            self.held += arrivals.close(End(self.partitions, self.arrivals))

    def shown_open(self, batch: ProducerBatch, *, is_sticky: bool) -> None:
        """Show the engine a batch that is open, also as the one for records without a key if it is that.

        Another thread may close it, and take it away, before it is shown: so a closed batch is taken away again.
        """
        self.show(batch.queue.partition.partition, batch)
        if is_sticky:
            self.sticky = batch
        if batch.is_closed:
            self.shown_closed(batch)

    def shown_closed(self, batch: ProducerBatch) -> None:
        """Show no more that a batch is open; it is closed, whatever is shown."""
        number = batch.queue.partition.partition
        if self.open_batch(number) is batch:
            self.show(number, None)
        if self.sticky is batch:
            self.sticky = None

    def show(self, number: int, batch: ProducerBatch | None) -> None:
        """Show the engine which batch of a partition is open."""
        with suppress(IndexError):  # the topic has fewer partitions by now
            self.open[number] = batch

    def open_batch(self, number: int) -> ProducerBatch | None:
        """Return the batch of a partition that takes records, None if there is none."""
        batch: ProducerBatch | None = None
        with suppress(IndexError):
            batch = self.open[number]
        return batch

    def less_busy(self, fraction: Callable[[], float], has_leader: Callable[[str, int], bool]) -> int:
        """Return the less busy of two partitions that have a leader: that takes no look at all of them.

        Args:
            fraction: returns a random number in [0, 1).
            has_leader: returns whether a partition of a topic has one.
        """
        count = len(self.open)
        if count == 1:
            return 0
        start = int(fraction() * count)
        chosen = [start, int(fraction() * count)]
        led = [number for number in chosen if has_leader(self.name, number)]
        if led:
            return min(led, key=self._load)
        others = ((start + step) % count for step in range(count))
        return next((number for number in others if has_leader(self.name, number)), start)

    def _load(self, number: int) -> int:
        queue = self.queues.get(number)
        return 0 if queue is None else queue.load
