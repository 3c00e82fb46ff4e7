"""What a producer keeps of a topic, beside the open batches that its appender writes into."""

from __future__ import annotations

import itertools
from collections import deque

from kafkawire.sdk.producer.contents import Held
from kafkawire.sdk.producer.engine import Topic
from kafkawire.sdk.producer.partition_queue import PartitionQueue

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
