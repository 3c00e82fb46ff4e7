"""The part of a batch that survives compaction: the whole batch, some records, only its header, or nothing.

Source: `Cleaner.cleanInto`, `shouldRetainRecord`, `MemoryRecords.filterTo` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkawire.reference_broker.storage.cleaning.cleaned_transactions import CleanedTransactions
from kafkawire.reference_broker.storage.cleaning.key_offsets import KeyOffsets
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.records import Record, RecordBatch, rewrite
from kafkawire.sdk.records.java_integers import int64

__all__ = ["Cleaning", "LastRecord"]


class LastRecord(NamedTuple):
    """The last record or marker of a producer; the batch that contains it must be kept.

    Attributes:
        epoch: epoch of the producer.
        offset: offset of its last record; None if only a marker is known.
    """

    epoch: int
    offset: int | None


class Cleaning:
    """One compaction of a log.

    Args:
        keys: the latest offset of each key.
        transactions: see `CleanedTransactions`.
        producers: the last record of each known producer.
        end_offset: end of the part being compacted; the last batch before it is kept.
        delete_retention_ms: how long tombstones and markers are kept after their first compaction.
        now_ms: the current time.
    """

    def __init__(
        self,
        keys: KeyOffsets,
        transactions: CleanedTransactions,
        producers: Mapping[int, LastRecord],
        end_offset: int,
        delete_retention_ms: int,
        now_ms: int,
    ) -> None:
        self.transactions = transactions
        self._keys = keys
        self._producers = producers
        self._end_offset = end_offset
        horizon_ms = int64(now_ms + delete_retention_ms)
        #: None if the sum overflows: batches then get no delete horizon, and batches without one are kept.
        self._horizon_ms = horizon_ms if horizon_ms >= 0 else None
        self._now_ms = now_ms

    def left_of(self, batch: RecordBatch) -> Buffer | None:
        """Return what remains of the next batch, or None if nothing does.

        Raises:
            DecodeError: the batch is damaged.
            EncodeError: the batch cannot be rewritten.
        """
        horizon_ms = batch.delete_horizon_ms
        is_over = horizon_ms is not None and horizon_ms <= self._now_ms
        if batch.is_control:
            is_needless = self.transactions.is_needless(batch)
            kept = [] if is_needless and is_over else list(batch.views())
            needs_horizon = is_needless
        elif self.transactions.is_aborted(batch):
            kept, needs_horizon = [], False
        else:
            kept = [record for record in batch.views() if self._is_kept(record, is_over=is_over)]
            needs_horizon = any(record.value is None for record in kept)
        if not kept and not self._keeps_place(batch):
            return None
        if needs_horizon and horizon_ms is None and self._horizon_ms is not None and kept:
            return rewrite(batch, kept, delete_horizon_ms=self._horizon_ms)
        return batch.data if len(kept) == batch.records_count else rewrite(batch, kept)

    def _is_kept(self, record: Record, *, is_over: bool) -> bool:
        if record.offset >= self._keys.end_offset:
            return True
        if record.key is None or (record.value is None and is_over):
            return False
        return self._keys.is_latest(record.key, record.offset)

    def _keeps_place(self, batch: RecordBatch) -> bool:
        """Return whether a batch is kept without records, for its producer's state or to mark the end of the log."""
        last = self._producers.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is not None and (
            batch.last_offset == last.offset
            if last.offset is not None
            else batch.is_control and batch.producer_epoch == last.epoch
        ):
            return True
        return batch.next_offset == self._end_offset
