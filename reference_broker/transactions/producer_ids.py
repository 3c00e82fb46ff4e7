"""Producer ids, none of which is given twice: they are reserved on the disk in blocks, before the first is given.

What is left of a block when the broker ends is lost; there are 2^63.

Source: `RPCProducerIdManager`, `ProducerIdControlManager` in Apache Kafka, where the controller keeps the reservations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kafkawire.reference_broker.storage.services import LogServices

__all__ = ["BLOCK_IDS", "ProducerIds"]

#: How many ids are reserved at once, as in Kafka: a write to the disk for each thousand producers.
BLOCK_IDS = 1000

#: With so few left, the next block is reserved in advance.
_RESERVE_BELOW = BLOCK_IDS // 10

Reserve = Callable[[int], int]
#: Gets an id, or why there is none.
Then = Callable[[int | OSError], None]


class ProducerIds:
    """Gives producer ids.

    Args:
        reserve: reserves as many ids as asked for and returns the first; it blocks, and raises OSError.
        services: run it in the background, and write the lines about failures.
    """

    def __init__(self, reserve: Reserve, services: LogServices) -> None:
        self._reserve = reserve
        self._services = services
        self._blocks: deque[range] = deque()
        # One for each open connection at most: a connection has one request at a time.
        self._waiting: deque[Then] = deque()
        self._is_reserving = False

    def take(self, then: Then) -> None:
        """Call `then` with an id that nobody has had, at once or when the next block is reserved."""
        self._waiting.append(then)
        self._give()

    def _give(self) -> None:
        while self._waiting and self._blocks:
            block = self._blocks.popleft()
            if len(block) > 1:
                self._blocks.appendleft(block[1:])
            self._waiting.popleft()(block[0])
        if not self._is_reserving and (self._waiting or sum(map(len, self._blocks)) < _RESERVE_BELOW):
            self._reserve_block()

    def _reserve_block(self) -> None:
        self._is_reserving = True
        reserved: list[int] = []

        def done(error: Exception | None) -> None:
            self._is_reserving = False
            if error is None:
                self._blocks.append(range(reserved[0], reserved[0] + BLOCK_IDS))
                self._give()
                return
            now_ms = self._services.clock()
            self._services.lines.error("producer ids", now_ms, "no producer ids could be reserved: %s", error)
            waiting, self._waiting = self._waiting, deque()
            for then in waiting:
                then(error if isinstance(error, OSError) else OSError(str(error)))

        self._services.background(lambda: reserved.append(self._reserve(BLOCK_IDS)), done)
