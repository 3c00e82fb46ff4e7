"""What a producer has not settled yet, by outcome and by deadline."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count

from kafkawire.sdk.producer.arguments import Held
from kafkawire.sdk.producer.outcome import Outcome
from kafkawire.sdk.producer.partition_queue import ProducerBatch

__all__ = ["UnsettledBatches", "outcome_of"]


class UnsettledBatches:
    """The batches of a producer, and its records without a batch, that are not settled.

    Attributes:
        items: by outcome, in the order in which they came.
    """

    def __init__(self) -> None:
        self.items: dict[Outcome, ProducerBatch | Held] = {}
        #: What has ended before its deadline stays here until then: its outcome, which holds no records.
        self._deadlines: list[tuple[int, int, Outcome]] = []
        self._entries = count()

    def add(self, item: ProducerBatch | Held) -> None:
        """Take what is new."""
        outcome = outcome_of(item)
        self.items[outcome] = item
        heappush(self._deadlines, (item.deadline_ms, next(self._entries), outcome))

    def discard(self, outcome: Outcome) -> None:
        """Forget what has ended."""
        self.items.pop(outcome, None)

    def overdue(self, now_ms: int) -> Iterator[ProducerBatch | Held]:
        """Yield what is past its deadline; the caller ends it."""
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            item = self.items.get(heappop(self._deadlines)[2])
            if item is not None:
                yield item

    def due_ms(self) -> int | None:
        """Return the next deadline."""
        while self._deadlines and self._deadlines[0][2] not in self.items:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None


def outcome_of(item: ProducerBatch | Held) -> Outcome:
    """Return the outcome of what a producer sends."""
    assert item.outcome is not None
    return item.outcome
