"""The offsets of a share partition that are in delivery: from its start offset (SPSO) to its end offset (SPEO).

Batches keep the boundaries with which they were first acquired. After the state has been read from the persister, there
may be gaps between them, which earlier members fetched but never acknowledged; they have to be fetched again, up to the
last batch that was read. Later gaps are offsets without records.

Source: `SharePartition` in Apache Kafka.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkawire.reference_broker.shares.delivery import COMPLETE, Batch, Delivery, SetLock
from kafkawire.reference_broker.shares.state_batches import StateBatch
from kafkawire.sdk.protocol.tables.enums import DeliveryState

__all__ = ["Batches", "Gaps", "InFlight"]


class Batches:
    """Batches without overlaps, in order."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._batches: dict[int, Batch] = {}

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __len__(self) -> int:
        return len(self._firsts)

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches in order; they may not change in the meantime."""
        return map(self._batches.__getitem__, self._firsts)

    @property
    def first(self) -> Batch:
        """The first batch; there must be one."""
        return self._batches[self._firsts[0]]

    @property
    def last(self) -> Batch:
        """The last batch; there must be one."""
        return self._batches[self._firsts[-1]]

    def floor(self, offset: int) -> Batch | None:
        """Return the last batch that begins at an offset or before it."""
        at = bisect_right(self._firsts, offset)
        return self._batches[self._firsts[at - 1]] if at else None

    def after(self, offset: int) -> Batch | None:
        """Return the first batch that begins after an offset."""
        at = bisect_right(self._firsts, offset)
        return self._batches[self._firsts[at]] if at < len(self._firsts) else None

    def between(self, first_offset: int, last_offset: int) -> list[Batch]:
        """Return the batches that begin within a range of offsets, inclusive."""
        begin, end = bisect_left(self._firsts, first_offset), bisect_right(self._firsts, last_offset)
        return [self._batches[first] for first in self._firsts[begin:end]]

    def add(self, batch: Batch) -> None:
        """Add a batch, which must not overlap with others."""
        if batch.first_offset not in self._batches:
            self._firsts.insert(bisect_left(self._firsts, batch.first_offset), batch.first_offset)
        self._batches[batch.first_offset] = batch

    def drop_before(self, batch: Batch | None) -> None:
        """Drop the batches before another one; all of them if it is None."""
        at = len(self._firsts) if batch is None else bisect_left(self._firsts, batch.first_offset)
        for first in self._firsts[:at]:
            del self._batches[first]
        del self._firsts[:at]


class Gaps(NamedTuple):
    """The window in which gaps between the batches that the persister returned have to be fetched.

    Attributes:
        first_offset: the first offset that may be in a gap.
        last_offset: the end offset when the state was read; the window ends as soon as the end offset moves.
    """

    first_offset: int
    last_offset: int


class InFlight:
    """The offsets in delivery.

    Attributes:
        batches: their batches.
        start_offset: the first offset whose delivery is not complete.
        end_offset: the last offset that was fetched; without batches, the next one to fetch.
        complete_count: the number of offsets from the start on whose delivery is complete, or pending to be.
        has_available: whether some records may be available again.
    """

    def __init__(self) -> None:
        self.batches = Batches()
        self.start_offset = 0
        self.end_offset = 0
        self.complete_count = 0
        self.has_available = False
        self._gaps: Gaps | None = None

    def __len__(self) -> int:
        """The number of offsets in delivery."""
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    def load(self, start_offset: int, stored: Iterable[StateBatch]) -> None:
        """Begin with the stored state.

        Args:
            start_offset: the start offset.
            stored: the batches in order.

        Raises:
            ValueError: a batch is before the start offset, ends before it begins, or has an unknown state.
        """
        self.start_offset = self.end_offset = start_offset
        gap: int | None = None
        next_offset = start_offset
        for first, last, count, state in stored:
            if not start_offset <= first <= last:
                raise ValueError(f"the batch {first} to {last} does not fit the start offset {start_offset}")
            if gap is None and first > next_offset:
                gap = next_offset
            next_offset = last + 1
            batch = Batch(first, last, Delivery(DeliveryState(state), count))
            self.batches.add(batch)
            if state in COMPLETE:
                self.complete_count += len(batch)
        if self.batches:
            self.has_available = True
            self.end_offset = self.batches.last.last_offset
            if gap is not None:
                self._gaps = Gaps(gap, self.end_offset)
            self.advance()

    # Gaps.

    @property
    def gaps(self) -> Gaps | None:
        """The window of gaps, or None once the end offset has moved."""
        return self._gaps if self._gaps is not None and self._gaps.last_offset == self.end_offset else None

    def fetched_to(self, next_offset: int) -> None:
        """Record that the offsets before `next_offset` have been acquired, whether or not they have records.

        The window shrinks to the next gap. Kafka widens it when earlier records are acquired again, and keeps it while
        no gap is left in it; the start offset then stays where it is until the end offset moves.
        """
        gaps = self.gaps
        if gaps is None:
            self._gaps = None
            return
        offset = max(next_offset, gaps.first_offset)
        batch = self.batches.floor(offset)
        while batch is not None and batch.last_offset >= offset:
            offset = batch.last_offset + 1
            batch = self.batches.floor(offset)
        self._gaps = gaps._replace(first_offset=offset) if offset <= gaps.last_offset else None

    # What to fetch.

    def next_fetch_offset(self) -> int:
        """Return the next offset to fetch: the first available record or gap, or the end."""
        if not self.batches or self.start_offset > self.batches.last.last_offset:
            self.has_available = False
            return self.end_offset
        if not self.has_available:
            return self.end_offset + 1
        gaps = self.gaps
        gap = None if gaps is None else gaps.first_offset
        for batch in self.batches:
            if gap is not None:
                if batch.first_offset > gap:
                    return gap
                gap = max(batch.last_offset + 1, gap)
            if batch.whole is not None:
                if batch.whole.is_available:
                    return batch.first_offset
            else:
                for offset, delivery in batch.each.items():
                    if delivery.is_available:
                        return offset
        self.has_available = False
        return self.end_offset + 1

    # Moving on.

    def advance(self) -> bool:
        """Move the start offset past complete deliveries; return whether some were.

        Only whole batches are dropped; while part of the first one is in delivery, the start offset is within it. A gap
        at the start that has turned out to have no records is passed over, where Kafka would stay there.
        """
        if self.batches and self.gaps is None:
            self.start_offset = max(self.start_offset, self.batches.first.first_offset)
        if not self._may_advance():
            return False
        last_complete, count = self._last_complete()
        if last_complete is None:
            return False
        batches = self.batches
        if last_complete == batches.last.last_offset:
            # The start may have followed that of the log beyond the last batch.
            self.start_offset = self.end_offset = max(self.start_offset, last_complete + 1)
            batches.drop_before(None)
            self.complete_count = 0
            return True
        batch = batches.floor(last_complete)
        following = batches.after(last_complete)
        if batch is None:
            return False
        if batch.last_offset == last_complete and following is not None:
            self.start_offset = max(self.start_offset, following.first_offset)
            if self.gaps is not None:
                self.start_offset = min(self.gaps.first_offset, self.start_offset)
            batches.drop_before(following)
        else:
            self.start_offset = max(self.start_offset, last_complete + 1)
            batches.drop_before(batch)
        self.complete_count -= count
        return True

    def _may_advance(self) -> bool:
        """Return whether the delivery of the start offset itself is complete, or the start is in no batch."""
        batch = self.batches.floor(self.start_offset)
        if batch is None or batch.last_offset < self.start_offset:
            return bool(self.batches)
        delivery = batch.whole or batch.each.get(self.start_offset)
        return delivery is not None and delivery.is_complete

    def _last_complete(self) -> tuple[int | None, int]:
        """Return the last offset up to which all deliveries are complete, and their number, counted from the start."""
        last, count, gaps = None, 0, self.gaps
        for batch in self.batches:
            if gaps is not None and batch.last_offset >= gaps.first_offset:
                break
            if batch.whole is not None:
                if not batch.whole.is_complete:
                    break
                last = batch.last_offset
                count += self.count_within(batch.first_offset, last)
                continue
            for offset, delivery in batch.each.items():
                if not delivery.is_complete:
                    return last, count
                last = offset
                count += offset >= self.start_offset
        return last, count

    def count_within(self, first_offset: int, last_offset: int) -> int:
        """Return how many offsets of a range are at or after the start offset."""
        return max(last_offset - max(self.start_offset, first_offset) + 1, 0)

    def begin_at(self, log_start_offset: int, set_lock: SetLock) -> None:
        """Move the start offset up to that of the log.

        Available records before it are archived. Acquired records stay acquired until their locks expire; they can no
        longer be acknowledged.

        Args:
            log_start_offset: the first offset of the log.
            set_lock: see `Batch.split`.
        """
        if log_start_offset <= self.start_offset:
            return
        if not self.batches:
            self.start_offset = self.end_offset = log_start_offset
            self.complete_count = 0
            return
        gone = self._complete_before(log_start_offset)
        self.archive(self.start_offset, log_start_offset, self.batches, DeliveryState.AVAILABLE, set_lock)
        self.start_offset = log_start_offset
        self.complete_count -= gone
        self.end_offset = max(self.end_offset, self.start_offset)
        self.fetched_to(self.start_offset)

    def _complete_before(self, offset: int) -> int:
        """Return the number of complete or pending deliveries from the start offset up to another offset."""
        count = 0
        for batch in self.batches:
            if batch.first_offset >= offset:
                break
            if batch.whole is not None:
                if batch.whole.state in COMPLETE:
                    count += self.count_within(batch.first_offset, min(offset - 1, batch.last_offset))
            else:
                count += sum(
                    self.start_offset <= at < offset and delivery.state in COMPLETE
                    for at, delivery in batch.each.items()
                )
        return count

    def archive(
        self,
        first_offset: int,
        end_offset: int,
        batches: Iterable[Batch],
        state: DeliveryState,
        set_lock: SetLock,
        *,
        is_counted: bool = False,
    ) -> None:
        """Archive records that are in a given state.

        Args:
            first_offset, end_offset: the range; the end is exclusive.
            batches: the batches that may overlap with it; a batch in a pending transition is not divided.
            state: the state of the records to archive.
            set_lock: see `Batch.split`.
            is_counted: whether to count the records as complete.
        """
        found = False
        for batch in batches:
            if batch.first_offset >= end_offset:
                break
            if batch.whole is not None and batch.whole.state is not state:
                continue
            if batch.first_offset < first_offset or batch.last_offset >= end_offset:
                if batch.whole is not None and batch.whole.is_pending:
                    continue
                batch.split(set_lock)
            if batch.whole is not None:
                batch.whole.archive()
                self.complete_count += len(batch) * is_counted
                found = True
                continue
            for offset, delivery in batch.each.items():
                if first_offset <= offset < end_offset and delivery.state is state:
                    delivery.archive()
                    self.complete_count += is_counted
                    found = True
        self.has_available |= found
