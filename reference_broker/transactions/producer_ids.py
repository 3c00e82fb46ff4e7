"""Unique producer ids, taken from blocks that are reserved before use.

Source: `RPCProducerIdManager` in Apache Kafka.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from kafkawire.reference_broker.metadata.producer_id_blocks import ProducerIdBlocks
from kafkawire.sdk.errors import BrokerError

__all__ = ["ProducerIds", "Then"]

#: The next block is reserved when one in this many ids of the current block is left, as in Kafka.
_REFILL_PART: Final = 10

#: Receives an id, or the error to send to the client.
Then = Callable[[int | BrokerError], None]


class ProducerIds:
    """Assigns producer ids.

    Args:
        blocks: reserves blocks of ids.
    """

    def __init__(self, blocks: ProducerIdBlocks) -> None:
        self._source = blocks
        self._blocks: deque[range] = deque()
        self._refill_below = 1
        # At most one callback per open connection, since a connection handles one request at a time.
        self._waiting: deque[Then] = deque()
        self._is_reserving = False

    def take(self, then: Then) -> None:
        """Call `then` with an unused id, immediately or once the next block is reserved."""
        self._waiting.append(then)
        self._give()

    def _give(self) -> None:
        while self._waiting and self._blocks:
            block = self._blocks.popleft()
            if len(block) > 1:
                self._blocks.appendleft(block[1:])
            self._waiting.popleft()(block[0])
        if not self._is_reserving and (self._waiting or sum(map(len, self._blocks)) < self._refill_below):
            self._is_reserving = True
            self._source.reserve(self._reserved)

    def _reserved(self, block: range | BrokerError) -> None:
        self._is_reserving = False
        if not isinstance(block, BrokerError):
            self._blocks.append(block)
            self._refill_below = max(len(block) // _REFILL_PART, 1)
            self._give()
            return
        waiting, self._waiting = self._waiting, deque()
        for then in waiting:
            then(block.again())
