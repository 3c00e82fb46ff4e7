"""Which partitions have something to send, to which leader, and when to look at the others.

The work of an event grows with what is ready, not with the partitions: those that linger or pause are in a heap, those
without a leader wait for other metadata, and those with nothing to send are nowhere.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heappop, heappush
from itertools import count

from kafkawire.sdk.producer.partition_queue import PartitionQueue

__all__ = ["Schedule"]


class Schedule:
    """Where the partitions of a producer wait.

    Attributes:
        ready: by leader, the partitions that have a batch for it, in order of service.
        homeless: the partitions that have a batch and no leader.
    """

    def __init__(self) -> None:
        self.ready: dict[int, OrderedDict[PartitionQueue, None]] = {}
        self.homeless: dict[PartitionQueue, None] = {}
        self._later: list[tuple[int, int, PartitionQueue]] = []
        self._entries = count()

    def put_ready(self, queue: PartitionQueue, node_id: int | None) -> None:
        """Have a partition served by its leader, after those that wait for it already."""
        self.take_out(queue)
        if node_id is None:
            self.homeless[queue] = None
            return
        queue.node_id = node_id
        queues = self.ready.get(node_id)
        if queues is None:
            queues = self.ready[node_id] = OrderedDict()
        queues[queue] = None

    @property
    def placed(self) -> list[PartitionQueue]:
        """The partitions that have a batch to send now, whether or not they have a leader."""
        return [*self.homeless, *(queue for queues in self.ready.values() for queue in queues)]

    def first(self, node_id: int) -> PartitionQueue | None:
        """Return the partition that a leader serves next, None if there is none."""
        queues = self.ready.get(node_id)
        return next(iter(queues)) if queues else None

    def put_later(self, queue: PartitionQueue, due_ms: int) -> None:
        """Look at a partition again at a time."""
        self.take_out(queue)
        if queue.due_ms != due_ms:
            queue.due_ms = due_ms
            heappush(self._later, (due_ms, next(self._entries), queue))

    def take_out(self, queue: PartitionQueue) -> None:
        """Forget a partition that has nothing to send, or goes elsewhere."""
        if queue.node_id is not None:
            queues = self.ready[queue.node_id]
            del queues[queue]
            if not queues:
                del self.ready[queue.node_id]
            queue.node_id = None
        elif self.homeless:
            self.homeless.pop(queue, None)

    def due(self, now_ms: int) -> list[PartitionQueue]:
        """Return the partitions whose time has come."""
        found: list[PartitionQueue] = []
        while self._later and self._later[0][0] <= now_ms:
            due_ms, _, queue = heappop(self._later)
            if queue.due_ms == due_ms:
                queue.due_ms = -1
                found.append(queue)
        return found

    def due_ms(self) -> int | None:
        """Return when the next one is due."""
        while self._later and self._later[0][2].due_ms != self._later[0][0]:
            heappop(self._later)
        return self._later[0][0] if self._later else None
