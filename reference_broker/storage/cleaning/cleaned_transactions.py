"""Aborted transactions and obsolete markers, as seen by compaction.

A marker stays until all batches of its transaction are gone, and then until its delete horizon.

Source: `CleanedTransactionMetadata` in Apache Kafka.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kafkawire.sdk.protocol.tables.enums import ControlRecordType
from kafkawire.sdk.records import RecordBatch
from kafkawire.sdk.records.control import control_type
from kafkawire.sdk.storage.transaction_index import AbortedTransaction

__all__ = ["CleanedTransactions"]


class CleanedTransactions:
    """The transactions of a log, starting at the first batch to compact.

    Args:
        aborted: all aborted transactions whose markers are in or after that batch.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        #: The aborted transactions of which a batch has been seen, ordered by their markers.
        self._kept: list[AbortedTransaction] = []
        self._coming = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        #: Keyed by producer id: the open aborted transaction, and whether one of its batches has been seen.
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        #: Producers whose open transaction commits later, and of which a batch has been seen.
        self._committed: set[int] = set()

    def is_aborted(self, batch: RecordBatch) -> bool:
        """Return whether a batch of records belongs to an aborted transaction."""
        self._begin(batch.last_offset)
        if not batch.is_transactional:
            return False
        found = self._aborted.get(batch.producer_id)
        if found is None:
            self._committed.add(batch.producer_id)
            return False
        self._aborted[batch.producer_id] = found[0], True
        return True

    def is_needless(self, batch: RecordBatch) -> bool:
        """Return whether a control batch ends a transaction whose batches are all gone."""
        self._begin(batch.last_offset)
        if not batch.records_count:
            return True  # its marker has been removed
        kind = control_type(next(batch.views())).type
        if kind == ControlRecordType.ABORT:
            transaction, was_met = self._aborted.pop(batch.producer_id, (None, False))
            if transaction is not None and was_met:
                self._kept.append(transaction)
                return False
            return True
        if kind == ControlRecordType.COMMIT:
            was_met = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not was_met
        return False

    def take_kept(self) -> list[AbortedTransaction]:
        """Return the aborted transactions with a needed marker that have been seen since the last call."""
        kept, self._kept = self._kept, []
        return kept

    def _begin(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            transaction = self._coming.popleft()
            self._aborted.setdefault(transaction.producer_id, (transaction, False))
