"""Unique producer ids, reserved on disk in blocks before use.

The rest of a block is lost when the broker ends; there are 2^63 ids.

Source: `RPCProducerIdManager`, `ProducerIdControlManager` in Apache Kafka, where the controller keeps the reservations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kafkawire.reference_broker.storage.services import LogServices

__all__ = ["BLOCK_IDS", "ProducerIds"]

#: Ids reserved at once, as in Kafka: one disk write for each thousand producers.
BLOCK_IDS = 1000

#: When only this many are left, the next block is reserved in advance.
_RESERVE_BELOW = BLOCK_IDS // 10

Reserve = Callable[[int], int]
#: Receives an id, or the error.
Then = Callable[[int | OSError], None]


class ProducerIds:
    """Assigns producer ids.

    Args:
        reserve: reserves a number of ids and returns the first; it blocks, and raises OSError.
        services: run `reserve` in the background, and log failures.
    """

    def __init__(self, reserve: Reserve, services: LogServices) -> None:
        self._reserve = reserve
        self._services = services
        self._blocks: deque[range] = deque()
        # At most one for each open connection, since a connection has one request at a time.
        self._waiting: deque[Then] = deque()
        self._is_reserving = False

    def take(self, then: Then) -> None:
        """Call `then` with an unused id, at once or when the next block is reserved."""
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
