"""Acquiring fetched records for a member of a share group.

A fetch from the log returns whole batches; so does an acquisition, unless the member asked for a limited number of
records. Records that have been delivered several times may be what makes consumers fail: they are delivered in ever
smaller parts, and alone for the last time, so that one bad record does not cause others to be given up.

Source: `SharePartition.acquire`, `ShareFetchUtils.accumulateAcquiredRecords` in Apache Kafka; KIP-932, KIP-1206.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kafkawire.reference_broker.shares.delivery import Batch, Delivery, Lock, SetLock
from kafkawire.reference_broker.shares.fetched_batches import FetchedBatch, aborted_batches
from kafkawire.reference_broker.shares.in_flight import InFlight
from kafkawire.sdk.protocol.tables.enums import DeliveryState
from kafkawire.sdk.storage.transaction_index import AbortedTransaction

__all__ = ["AcquiredRange", "Acquisition", "Fetched", "Wanted"]

#: Records are acquired in smaller parts after half of the maximum number of deliveries, but not before the third one.
_SMALLER_PARTS_AFTER_MIN = 2


class Wanted(NamedTuple):
    """What a member wants to acquire from one partition.

    Attributes:
        member_id: the member.
        records_max: the maximum number of records; without `is_limited`, the last batch may exceed it.
        is_limited: whether to acquire no more than `records_max`, even if that divides a batch.
        batch_size: the number of records from which a range of new records is divided, at the boundaries of batches.
    """

    member_id: str
    records_max: int
    is_limited: bool
    batch_size: int


class Fetched(NamedTuple):
    """What was read from the log.

    Attributes:
        offset: the offset from which the log was read.
        batches: the batches.
        aborted: the aborted transactions that may have records in them; empty if they do not matter.
    """

    offset: int
    batches: Sequence[FetchedBatch]
    aborted: Sequence[AbortedTransaction] = ()


class AcquiredRange(NamedTuple):
    """Acquired offsets with the same number of deliveries; both ends are inclusive."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acquisition:
    """One acquisition.

    Args:
        flight: the offsets in delivery.
        wanted: see `Wanted`.
        fetched: see `Fetched`.
        count_max: the maximum number of deliveries.
        lock: locks a range of offsets for the member, for the group's duration.
        set_lock: see `Batch.split`.
    """

    def __init__(
        self,
        flight: InFlight,
        wanted: Wanted,
        fetched: Fetched,
        count_max: int,
        lock: Callable[[str, int, int], Lock],
        set_lock: SetLock,
    ) -> None:
        self._flight = flight
        self._wanted = wanted
        self._fetched = fetched
        self._count_max = count_max
        self._lock = lock
        self._set_lock = set_lock
        self._smaller_parts_from = max(_SMALLER_PARTS_AFTER_MIN, -(-count_max // 2))
        self._ranges: list[AcquiredRange] = []
        self._count = 0
        self._left = 0

    def run(self, locks_max: int) -> tuple[list[AcquiredRange], int]:
        """Acquire what is available; return the acquired ranges and the number of their offsets.

        Args:
            locks_max: how many offsets may be in delivery.
        """
        batches, wanted, flight = self._fetched.batches, self._wanted, self._flight
        if not batches or wanted.records_max <= 0 or batches[-1].last_offset < flight.start_offset:
            return [], 0
        last_offset = batches[-1].last_offset
        self._left = min(wanted.records_max, locks_max - len(flight))
        if self._left <= 0:
            if self._fetched.offset > flight.end_offset:
                return [], 0
            # There is no room for further offsets, but some in between are available again.
            self._left = min(wanted.records_max, flight.end_offset - self._fetched.offset + 1)
            last_offset = min(last_offset, flight.end_offset)
        self._acquire(last_offset)
        if self._fetched.aborted and self._ranges:
            self._drop_aborted()
        return self._ranges, self._count

    def _acquire(self, last_offset: int) -> None:
        flight = self._flight
        first_offset = base_offset = self._fetched.batches[0].base_offset
        self._archive_missing(base_offset)
        floor = flight.batches.floor(base_offset)
        if floor is not None and floor.last_offset >= base_offset:
            base_offset = floor.first_offset
        else:
            base_offset = max(base_offset, flight.start_offset)
        known = flight.batches.between(min(first_offset, base_offset), last_offset)
        if not known:
            self._acquire_new(base_offset, last_offset)
            return
        gap = base_offset
        may_add = True
        for batch in known:
            if self._left <= 0:
                break
            if flight.gaps is not None:
                if gap < batch.first_offset:
                    self._acquire_new(gap, batch.first_offset - 1)
                gap = batch.last_offset + 1
                if self._left <= 0:
                    break
            is_repeated = self._is_repeated(batch, first_offset, last_offset)
            if is_repeated and self._count:
                may_add = False
                break
            if self._acquire_again(batch, first_offset, last_offset, is_repeated=is_repeated) and is_repeated:
                may_add = False
                break
        if may_add and self._left > 0 and known[-1].last_offset < last_offset:
            self._acquire_new(known[-1].last_offset + 1, last_offset)
        if self._ranges:
            flight.fetched_to(self._ranges[-1].last_offset + 1)

    def _archive_missing(self, base_offset: int) -> None:
        """Archive available batches that should have been fetched, but are no longer in the log."""
        offset, batches = self._fetched.offset, self._flight.batches
        if not batches or offset >= base_offset:
            return
        floor = batches.floor(offset)
        begin = floor.first_offset if floor is not None and floor.last_offset >= offset else offset
        gone = batches.between(begin, base_offset - 1)
        if gone:
            self._flight.archive(offset, base_offset, gone, DeliveryState.AVAILABLE, self._set_lock, is_counted=True)

    def _add(self, ranges: Iterable[AcquiredRange], count: int) -> None:
        self._ranges.extend(ranges)
        self._count += count
        self._left -= count

    # New offsets.

    def _acquire_new(self, first_offset: int, last_offset: int) -> None:
        """Acquire offsets that are not in delivery yet, except those before the start offset."""
        flight, wanted = self._flight, self._wanted
        first_offset = max(first_offset, flight.start_offset)
        if first_offset > last_offset:
            return
        if not flight.batches:
            first_offset = max(first_offset, flight.end_offset)
        end = last_offset
        if self._left < last_offset - first_offset + 1:
            end = self._end_of_batch(first_offset + self._left - 1)
            if flight.gaps is not None:
                end = min(end, last_offset)
        ranges = [AcquiredRange(first_offset, end, 1)]
        if wanted.is_limited:
            limit = first_offset + self._left - 1
            batch = self._new_batch(first_offset, end)
            if end > limit:
                batch.split(self._set_lock, limit)
                flight.has_available = True
                ranges = [AcquiredRange(first_offset, limit, 1)]
        else:
            ranges = self._divided(first_offset, end)
            for part in ranges:
                self._new_batch(part.first_offset, part.last_offset)
        if flight.batches.first.first_offset == first_offset:
            flight.start_offset = first_offset
        flight.end_offset = max(flight.end_offset, end)
        last_acquired = ranges[-1].last_offset
        flight.fetched_to(last_acquired + 1)
        self._add(ranges, last_acquired - first_offset + 1)

    def _end_of_batch(self, offset: int) -> int:
        """Return the last offset of the fetched batch that contains an offset; the offset itself if none does."""
        found = offset
        for batch in self._fetched.batches:
            if batch.base_offset > offset:
                break
            found = max(batch.last_offset, offset)
        return found

    def _divided(self, first_offset: int, last_offset: int) -> list[AcquiredRange]:
        """Divide a range at the boundaries of fetched batches, into parts of at least the wanted size."""
        parts = []
        if last_offset - first_offset + 1 > self._wanted.batch_size:
            for batch in self._fetched.batches:
                if batch.base_offset > last_offset:
                    break
                if batch.base_offset - first_offset >= self._wanted.batch_size:
                    parts.append(AcquiredRange(first_offset, batch.base_offset - 1, 1))
                    first_offset = batch.base_offset
        return [*parts, AcquiredRange(first_offset, last_offset, 1)]

    def _new_batch(self, first_offset: int, last_offset: int) -> Batch:
        member_id = self._wanted.member_id
        lock = self._lock(member_id, first_offset, last_offset)
        batch = Batch(first_offset, last_offset, Delivery(DeliveryState.ACQUIRED, 1, member_id, lock))
        self._flight.batches.add(batch)
        return batch

    # Offsets in delivery that are available again.

    def _is_repeated(self, batch: Batch, first_offset: int, last_offset: int) -> bool:
        """Return whether a batch's available records have been delivered so often that it must be acquired in parts."""
        if batch.whole is not None:
            counts = [batch.whole.count] if batch.whole.is_available else []
        else:
            counts = [
                delivery.count
                for offset, delivery in batch.each.items()
                if first_offset <= offset <= last_offset and delivery.is_available
            ]
        return max(counts, default=0) >= self._smaller_parts_from

    def _acquire_again(self, batch: Batch, first_offset: int, last_offset: int, *, is_repeated: bool) -> int:
        """Acquire what is available of a batch; return the number of offsets."""
        whole = batch.whole
        if whole is not None:
            if not whole.is_available:
                return 0
            is_within = first_offset <= batch.first_offset and batch.last_offset <= last_offset
            has_too_many = self._wanted.is_limited and len(batch) > self._left
            if is_within and not has_too_many and not is_repeated:
                self._deliver(whole, batch.first_offset, batch.last_offset)
                self._add([AcquiredRange(batch.first_offset, batch.last_offset, whole.count)], len(batch))
                return len(batch)
            batch.split(self._set_lock)
        ranges = self._acquire_offsets(batch, first_offset, last_offset)
        count = sum(last - first + 1 for first, last, _ in ranges)
        self._add(ranges, count)
        return count

    def _acquire_offsets(self, batch: Batch, first_offset: int, last_offset: int) -> list[AcquiredRange]:
        """Acquire available offsets of a batch, one by one; return them as ranges."""
        count_max = self._count_max
        is_last_alone = count_max > 2
        count = 0
        part_max: int | None = None
        ranges: list[AcquiredRange] = []
        for offset, delivery in batch.each.items():
            if offset < first_offset or not delivery.is_available:
                continue
            if offset > last_offset:
                break
            if is_last_alone and delivery.count == count_max - 1 and count:
                break
            if part_max is None and delivery.count >= self._smaller_parts_from:
                part_max = max(1, len(batch.each) >> delivery.count - self._smaller_parts_from + 1)
            self._deliver(delivery, offset, offset)
            _extend(ranges, offset, delivery.count)
            count += 1
            if is_last_alone and delivery.count == count_max:
                break
            if count == part_max or (self._wanted.is_limited and count == self._left):
                break
        return ranges

    def _deliver(self, delivery: Delivery, first_offset: int, last_offset: int) -> None:
        delivery.acquire(self._wanted.member_id)
        delivery.lock = self._lock(self._wanted.member_id, first_offset, last_offset)

    # Aborted transactions.

    def _drop_aborted(self) -> None:
        """Archive the acquired records of aborted transactions, and take them out of the acquired ranges."""
        for aborted in aborted_batches(self._fetched.batches, self._fetched.aborted):
            floor = self._flight.batches.floor(aborted.base_offset)
            begin = aborted.base_offset if floor is None else floor.first_offset
            self._flight.archive(
                aborted.base_offset,
                aborted.last_offset + 1,
                self._flight.batches.between(begin, aborted.last_offset),
                DeliveryState.ACQUIRED,
                self._set_lock,
                is_counted=True,
            )
            self._ranges = [
                part for known in self._ranges for part in _without(known, aborted.base_offset, aborted.last_offset)
            ]
        self._count = sum(last - first + 1 for first, last, _ in self._ranges)


def _extend(ranges: list[AcquiredRange], offset: int, delivery_count: int) -> None:
    """Add an offset to ranges, of which the last one may be adjacent to it."""
    if ranges and ranges[-1].last_offset + 1 == offset and ranges[-1].delivery_count == delivery_count:
        ranges[-1] = ranges[-1]._replace(last_offset=offset)
    else:
        ranges.append(AcquiredRange(offset, offset, delivery_count))


def _without(known: AcquiredRange, first_offset: int, last_offset: int) -> list[AcquiredRange]:
    """Return the parts of a range that are outside another range."""
    if last_offset < known.first_offset or known.last_offset < first_offset:
        return [known]
    parts = []
    if known.first_offset < first_offset:
        parts.append(known._replace(last_offset=first_offset - 1))
    if last_offset < known.last_offset:
        parts.append(known._replace(first_offset=last_offset + 1))
    return parts
