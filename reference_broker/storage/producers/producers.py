"""The state of a log's idempotent and transactional producers, without I/O.

A batch is checked before it is appended, and noted afterwards. When a log is opened, its batches are noted again. An
unknown producer may begin with any sequence number, since its earlier records may have been removed.
UNKNOWN_PRODUCER_ID is no longer used.

Source: `ProducerStateManager`, `ProducerAppendInfo`, `ProducerStateEntry`, `VerificationStateEntry` in Apache Kafka.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import takewhile
from typing import NamedTuple

from kafkawire.reference_broker.storage.batches import BatchHeader
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records.java_integers import INT32_MAX, sequence_after

__all__ = [
    "BATCHES_KEPT",
    "NO_COORDINATOR_EPOCH",
    "AppendedBatch",
    "CompletedTransaction",
    "Marker",
    "Producer",
    "Producers",
    "Verification",
]

#: How many of a producer's batches are checked for duplicates, which is how many a client may have in flight.
BATCHES_KEPT = 5

NO_COORDINATOR_EPOCH = -1

_INT16_MAX = 2**15 - 1

#: The first transaction version in which markers have a new epoch (KIP-890).
_EPOCH_PER_TRANSACTION = 2


class AppendedBatch(NamedTuple):
    """A batch that a producer has appended.

    Attributes:
        last_sequence: sequence number of its last record.
        last_offset: offset of its last record.
        offset_delta: the number of its records minus one.
        timestamp: its highest timestamp.
    """

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The sequence number of its first record; sequence numbers wrap from 2147483647 to 0."""
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 else first + INT32_MAX + 1

    @property
    def first_offset(self) -> int:
        """The offset of its first record."""
        return self.last_offset - self.offset_delta


class Producer:
    """The state of one producer.

    Attributes:
        producer_id: 0 or higher.
        epoch: epoch of its last batch or marker; -1 if there is none.
        coordinator_epoch: epoch of the coordinator that wrote its last marker; -1 if there is none.
        last_timestamp: timestamp of its last batch or marker.
        transaction_start: the first offset of its open transaction; None if none is open.
        batches: its last batches in this epoch, oldest first.
    """

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "transaction_start")

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        transaction_start: int | None = None,
        batches: Iterable[AppendedBatch] = (),
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.transaction_start = transaction_start
        self.batches = deque(batches, BATCHES_KEPT)

    @property
    def last_sequence(self) -> int:
        """The sequence number of its last record; -1 if there is none in this epoch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def begin(self, epoch: int) -> None:
        """Begin a new epoch, without batches."""
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch


class Marker(NamedTuple):
    """A marker with which a coordinator ends a transaction.

    Attributes:
        producer_id: the producer whose transaction ends.
        producer_epoch: the epoch of the producer after the marker.
        is_commit: whether the transaction is committed rather than aborted.
        coordinator_epoch: epoch of the coordinator.
    """

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has ended.

    Attributes:
        producer_id: the producer of the transaction.
        first_offset: offset of its first record.
        last_offset: offset of the marker.
        is_aborted: whether it belongs in the transaction index.
        last_stable_offset: the last stable offset once the high watermark has passed the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int


class Verification:
    """A pending check with the coordinator that a transaction is open.

    Only the batch in the request being verified may begin a transaction in this log.

    Attributes:
        epoch: the epoch of the producer.
        lowest_sequence: the lowest sequence number among the batches verified in this epoch.
        has_epoch_per_transaction: whether the producer's epoch increases with each transaction (KIP-890).
        since_ms: when the first request arrived.
    """

    __slots__ = ("epoch", "has_epoch_per_transaction", "lowest_sequence", "since_ms")

    def __init__(self, epoch: int, sequence: int, has_epoch_per_transaction: bool, now_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.has_epoch_per_transaction = has_epoch_per_transaction
        self.since_ms = now_ms


class Producers:
    """The producers of one log.

    Args:
        end_offset: the offset after the last noted batch.

    Attributes:
        end_offset: see above.
    """

    def __init__(self, end_offset: int = 0) -> None:
        self.end_offset = end_offset
        self._producers: dict[int, Producer] = {}
        self._verifications: dict[int, Verification] = {}
        # Transactions, keyed by first offset. Open transactions map to their producers, and are in that order. Ended
        # transactions map to the offsets of their markers, are in the order of the markers, and stay until the high
        # watermark passes the marker. There may be thousands while a follower is away, and each batch needs the first
        # of them.
        self._open: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        #: A heap of the first offsets of ended transactions, including some that have been dropped.
        self._first_ended: list[int] = []

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> Producer | None:
        """Return the state of a producer."""
        return self._producers.get(producer_id)

    def restore(self, producers: Iterable[Producer], end_offset: int) -> None:
        """Restore the state of producers from a snapshot of the log before `end_offset`."""
        self._producers = {producer.producer_id: producer for producer in producers}
        starts = [(found.transaction_start, found.producer_id) for found in self if found.transaction_start is not None]
        self._open = dict(sorted(starts))
        self._ended.clear()
        self._first_ended.clear()
        self.end_offset = end_offset

    # Batches.

    def check(
        self, batch: BatchHeader, *, is_client: bool = True, verification: Verification | None = None
    ) -> AppendedBatch | None:
        """Check a batch of records before it is appended.

        Args:
            batch: its header; only a batch with a producer id can be rejected.
            is_client: whether a client produced it; coordinators write batches without sequence numbers.
            verification: what `begin_verification` returned for the request, once the coordinator has confirmed the
                transaction.

        Returns:
            The earlier batch, if this one is a duplicate and must not be appended again; otherwise None.

        Raises:
            BrokerError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE.
        """
        if batch.producer_id < 0:
            return None
        producer = self._producers.get(batch.producer_id)
        if is_client and producer is not None and (found := _duplicate(producer, batch)) is not None:
            return found
        epoch = NO_PRODUCER_EPOCH if producer is None else producer.epoch
        if batch.producer_epoch < epoch:
            reason = f"producer {batch.producer_id} has epoch {epoch}, but the batch has epoch {batch.producer_epoch}"
            raise BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH, reason)
        start = None if producer is None else producer.transaction_start
        if batch.is_transactional and (start is None or batch.producer_epoch != epoch):
            known = self._verifications.get(batch.producer_id)
            if verification is None or verification is not known:
                reason = f"producer {batch.producer_id} has no open transaction in this log"
                raise BrokerError(ErrorCode.INVALID_TXN_STATE, reason)
        if is_client:
            self._check_sequence(producer, batch)
        if start is not None and not batch.is_transactional:
            reason = f"producer {batch.producer_id} has an open transaction that begins at offset {start}"
            raise BrokerError(ErrorCode.INVALID_TXN_STATE, reason)
        return None

    def _check_sequence(self, producer: Producer | None, batch: BatchHeader) -> None:
        first, epoch = batch.base_sequence, batch.producer_epoch
        verification = self._verifications.get(batch.producer_id)
        if verification is not None:
            is_unknown = producer is None or not producer.batches
            if verification.has_epoch_per_transaction and is_unknown and first != 0:
                raise _out_of_order(batch, "0 (the producer has no state)")
            if first > verification.lowest_sequence:
                raise _out_of_order(batch, f"{verification.lowest_sequence} or lower")
        if producer is None or producer.epoch == NO_PRODUCER_EPOCH:
            return
        if epoch != producer.epoch:
            if first != 0:
                raise _out_of_order(batch, f"0 (the epoch changed from {producer.epoch} to {epoch})")
        elif first != (expected := sequence_after(producer.last_sequence, 1)):
            raise _out_of_order(batch, str(expected))

    def note(self, batch: BatchHeader, base_offset: int) -> None:
        """Apply a batch of records that has been appended, or read from the log.

        Args:
            batch: its header.
            base_offset: the offset of its first record.
        """
        last_offset = base_offset + batch.last_offset_delta
        self.end_offset = last_offset + 1
        if batch.producer_id < 0:
            return
        producer = self._known(batch.producer_id)
        producer.begin(batch.producer_epoch)
        # Coordinators write batches without sequence numbers, so their batches have no duplicates.
        last_sequence = NO_SEQUENCE
        if batch.base_sequence != NO_SEQUENCE:
            last_sequence = sequence_after(batch.base_sequence, batch.last_offset_delta)
        timestamp = batch.max_timestamp
        producer.batches.append(AppendedBatch(last_sequence, last_offset, batch.last_offset_delta, timestamp))
        producer.last_timestamp = timestamp
        if batch.is_transactional:
            if producer.transaction_start is None:
                producer.transaction_start = base_offset
                self._open[base_offset] = producer.producer_id
            self._verifications.pop(batch.producer_id, None)

    def _known(self, producer_id: int) -> Producer:
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id)
        return producer

    # Transactions.

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, has_epoch_per_transaction: bool
    ) -> Verification | None:
        """Begin to verify with the coordinator that a transaction is open, on behalf of a request.

        Args:
            producer_id: the producer that wants to append.
            epoch: the epoch of its batch.
            sequence: the sequence number of the first record in its batch.
            now_ms: the current time.
            has_epoch_per_transaction: see `Verification`.

        Returns:
            The verification that the request must pass to `check`; None if the transaction is already open here.

        Raises:
            BrokerError: INVALID_PRODUCER_EPOCH.
        """
        producer = self._producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            reason = f"producer {producer_id} has epoch {producer.epoch}, but the batch has epoch {epoch}"
            raise BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH, reason)
        if self.has_open_transaction(producer_id, epoch):
            return None
        found = self._verifications.get(producer_id)
        if found is None:
            found = Verification(epoch, sequence, has_epoch_per_transaction, now_ms)
            self._verifications[producer_id] = found
        elif epoch > found.epoch:
            found.epoch, found.lowest_sequence = epoch, sequence
        elif epoch == found.epoch:
            found.lowest_sequence = min(found.lowest_sequence, sequence)
        return found

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether a producer with this epoch has an open transaction in the log."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.transaction_start is not None and producer.epoch == epoch

    def has_transaction_from(self, first_offset: int) -> bool:
        """Return whether an open transaction begins at an offset."""
        return first_offset in self._open

    def check_marker(self, marker: Marker, transaction_version: int) -> None:
        """Check a marker before it is appended.

        Args:
            marker: the marker that the coordinator wants to write.
            transaction_version: the coordinator's transaction version; from version 2 on, each transaction has a new
                epoch.

        Raises:
            BrokerError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        producer = self._producers.get(marker.producer_id) or Producer(marker.producer_id)
        is_late = marker.producer_epoch < producer.epoch
        if transaction_version >= _EPOCH_PER_TRANSACTION and marker.producer_epoch == producer.epoch:
            # For a repeated marker, no transaction is open. An epoch at its maximum cannot increase.
            is_late = producer.transaction_start is not None and marker.producer_epoch != _INT16_MAX
        if is_late:
            known = f"producer {marker.producer_id} has epoch {producer.epoch}"
            reason = f"{known}, but the marker has epoch {marker.producer_epoch}"
            raise BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH, reason)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            reason = (
                f"the marker has coordinator epoch {marker.coordinator_epoch}, "
                f"but the last marker had epoch {producer.coordinator_epoch}"
            )
            raise BrokerError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, reason)

    def note_marker(self, marker: Marker, offset: int, timestamp: int) -> CompletedTransaction | None:
        """Apply a marker that has been appended, or read from the log.

        Args:
            marker: the marker.
            offset: its offset.
            timestamp: when the marker was written.

        Returns:
            The transaction that the marker ends; None if no transaction is open.
        """
        self.end_offset = offset + 1
        producer = self._known(marker.producer_id)
        producer.begin(marker.producer_epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = timestamp
        start, producer.transaction_start = producer.transaction_start, None
        verification = self._verifications.get(marker.producer_id)
        if verification is not None and not (
            verification.has_epoch_per_transaction and verification.epoch == marker.producer_epoch
        ):  # verification of the next transaction may have begun
            del self._verifications[marker.producer_id]
        if start is None:
            return None
        del self._open[start]
        self._ended[start] = offset
        heappush(self._first_ended, start)
        stable = next(iter(self._open), offset + 1)
        return CompletedTransaction(marker.producer_id, start, offset, not marker.is_commit, stable)

    def note_high_watermark(self, high_watermark: int) -> list[int]:
        """Drop the transactions whose markers are below the high watermark, and return their first offsets."""
        if not self._ended:
            return []
        decided = [first for first, _ in takewhile(lambda ended: ended[1] < high_watermark, self._ended.items())]
        for first in decided:
            del self._ended[first]
        while self._first_ended and self._first_ended[0] not in self._ended:
            heappop(self._first_ended)
        return decided

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open, or whose marker is not yet committed."""
        first_open = next(iter(self._open), None)
        first_ended = self._first_ended[0] if self._first_ended else None
        if first_open is None or first_ended is None:
            return first_ended if first_open is None else first_open
        return min(first_open, first_ended)

    # Expiry.

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Drop idle producers without an open transaction.

        Args:
            now_ms: the current time.
            expiration_ms: `producer.id.expiration.ms`, which also applies to verifications.
        """
        idle = [
            producer.producer_id
            for producer in self
            if producer.transaction_start is None and now_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in idle:
            del self._producers[producer_id]
        stale = [key for key, found in self._verifications.items() if now_ms - found.since_ms >= expiration_ms]
        for producer_id in stale:
            del self._verifications[producer_id]


def _duplicate(producer: Producer, batch: BatchHeader) -> AppendedBatch | None:
    """Return the batch with the same sequence numbers, if it is among the producer's last batches."""
    if batch.producer_epoch != producer.epoch:
        return None
    last_sequence = sequence_after(batch.base_sequence, batch.last_offset_delta)
    for appended in producer.batches:
        if appended.last_sequence == last_sequence and appended.first_sequence == batch.base_sequence:
            return appended
    return None


def _out_of_order(batch: BatchHeader, expected: str) -> BrokerError:
    reason = f"producer {batch.producer_id}: expected sequence {expected}, got {batch.base_sequence}"
    return BrokerError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, reason)
