"""What a producer keeps of a topic, beside the open batches that its appender writes into."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkawire.sdk.producer.contents import Held
from kafkawire.sdk.producer.engine import Topic
from kafkawire.sdk.producer.partition_queue import PartitionQueue

if TYPE_CHECKING:
    from kafkawire.sdk.producer.batch import ProducerBatch

__all__ = ["ProducerTopic"]


class ProducerTopic(Topic):
    """A topic that records are sent to.

    Attributes:
        queues: by partition, of those that batches were made for.
        held: records that wait until the topic is known, oldest first.
        turns: counts the records that went to one partition after the other.
        used_ms: when the last batch was made.
    """

    __slots__ = ("held", "queues", "turns", "used_ms")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.queues: dict[int, PartitionQueue] = {}
        self.held: deque[Held] = deque()
        self.turns = itertools.count()
        self.used_ms = 0

    def open_batch(self, number: int) -> ProducerBatch | None:
        """Return the batch of a partition that takes records, None if there is none."""
        batch: ProducerBatch | None = self.open[number] if number < len(self.open) else None
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
        return 0 if queue is None else len(queue.waiting) + queue.on_wire
