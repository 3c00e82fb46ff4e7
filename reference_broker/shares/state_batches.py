"""State batches: ranges of offsets whose records are in the same delivery state, as a share coordinator stores them.

Where a stored batch and a new one overlap, the higher delivery count wins, and among equal counts the later state.

Source: `PersisterStateBatch`, `PersisterStateBatchCombiner` in Apache Kafka.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from kafkawire.sdk.protocol.tables.enums import UNKNOWN_OFFSET

__all__ = ["StateBatch", "combined"]


class StateBatch(NamedTuple):
    """A range of offsets; the order of the fields is the order in which Kafka sorts batches.

    Attributes:
        first_offset, last_offset: the range, inclusive.
        delivery_count: how many times the records have been delivered.
        delivery_state: see `DeliveryState`; a share coordinator stores any number.
    """

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int

    @property
    def rank(self) -> tuple[int, int]:
        """Of two overlapping batches, the one with the higher rank wins."""
        return self.delivery_count, self.delivery_state


def combined(stored: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Return batches without overlaps, in order; adjacent batches of the same rank are merged.

    As in Kafka, a batch that only comes to be adjacent to its predecessor while others are cut is not merged with it.

    Args:
        stored, new: the batches.
        start_offset: offsets before it are dropped; `UNKNOWN_OFFSET` to keep all.
    """
    batches = [*stored, *new]
    if start_offset != UNKNOWN_OFFSET:
        batches = [
            batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
            for batch in batches
            if batch.last_offset >= start_offset
        ]
    if len(batches) < 2:
        return batches
    heapq.heapify(batches)
    done = []
    batch = heapq.heappop(batches)
    while batches:
        following = batches[0]
        is_adjacent = batch.last_offset + 1 == following.first_offset and batch.rank == following.rank
        if following.first_offset <= batch.last_offset or is_adjacent:
            heapq.heappop(batches)
            for part in _resolved(batch, following):
                heapq.heappush(batches, part)
        else:
            done.append(batch)
        batch = heapq.heappop(batches)
    done.append(batch)
    return done


def _resolved(batch: StateBatch, following: StateBatch) -> list[StateBatch]:
    """Return what remains of two batches that overlap, or that are adjacent and of the same rank."""
    if batch.rank == following.rank:
        return [batch._replace(last_offset=max(batch.last_offset, following.last_offset))]
    if following.rank < batch.rank:
        if following.last_offset <= batch.last_offset:
            return [batch]
        return [batch, following._replace(first_offset=batch.last_offset + 1)]
    parts = [following]
    if batch.first_offset < following.first_offset:
        parts.append(batch._replace(last_offset=following.first_offset - 1))
    if batch.last_offset > following.last_offset:
        parts.append(batch._replace(first_offset=following.last_offset + 1))
    return parts
