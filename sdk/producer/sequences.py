"""The sequence numbers of one partition, which allow its leader to store each batch only once and in order.

A batch gets its number when it is first sent, and keeps it through retries. If a number may be permanently missing, the
partition restarts with a higher epoch, and the remaining batches are renumbered.

Source: Apache Kafka, `TransactionManager`, `TxnPartitionEntry`; KIP-98, KIP-360.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from kafkawire.sdk.producer.identity import ProducerId
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import BatchBuilder

__all__ = ["SequencedBatch", "Sequences", "following"]

#: Sequence numbers run from 0 to 2^31 - 1 and then wrap to 0.
_MODULUS: Final = 1 << 31

#: If two numbers are further apart than this, the numbering has wrapped between them.
_HALF: Final = 1 << 30


def following(sequence: int, count: int) -> int:
    """Return the sequence number `count` records after another."""
    return (sequence + count) % _MODULUS


class SequencedBatch(Protocol):
    """What this module uses of a batch."""

    @property
    def builder(self) -> BatchBuilder:
        """The builder, which holds the number of records."""
        ...

    @property
    def producer(self) -> ProducerId | None:
        """The producer id to which the sequence number belongs; None before there is one."""
        ...

    @property
    def sequence(self) -> int:
        """The sequence number of the first record; -1 before there is one."""
        ...

    def stamp(self, producer: ProducerId, sequence: int) -> None:
        """Set the batch's number, or change it."""
        ...


class Sequences:
    """The sequence numbers of one partition.

    Attributes:
        producer: the producer id to which the numbers belong; None before the first.
        batches: the batches that have a number and no outcome yet, oldest first.
        needs_epoch: whether the numbers must restart with a new epoch.
        is_forgotten: whether the leader has forgotten the producer, which means that the numbers may restart in the
            same epoch.
    """

    __slots__ = (
        "_acknowledged",
        "_acknowledged_offset",
        "_next",
        "_unresolved",
        "batches",
        "is_forgotten",
        "needs_epoch",
        "producer",
    )

    def __init__(self) -> None:
        self.producer: ProducerId | None = None
        self.batches: list[SequencedBatch] = []
        self.needs_epoch = self.is_forgotten = False
        self._next = 0
        self._acknowledged = NO_SEQUENCE
        self._acknowledged_offset = -1
        self._unresolved = False

    def may_send(self, batch: SequencedBatch, current: ProducerId) -> bool:
        """Return whether the oldest waiting batch may be sent now."""
        if self.needs_epoch:
            return False
        if batch.sequence != NO_SEQUENCE:  # a retry: one at a time, in order
            return self.batches[0] is batch
        if self._unresolved:
            return False
        # A leader that does not know the producer accepts any first number, so only one batch may be in flight.
        return not self.batches or (self.producer == current and self._acknowledged != NO_SEQUENCE)

    def assign(self, batch: SequencedBatch, current: ProducerId) -> None:
        """Number a batch that is sent for the first time."""
        if self.producer != current:
            self._begin(current)
        batch.stamp(current, self._next)
        self._next = following(self._next, batch.builder.count)
        self.batches.append(batch)

    def restart(self, current: ProducerId) -> None:
        """Restart with another epoch: number the remaining batches from 0."""
        self._begin(current)
        for batch in self.batches:
            batch.stamp(current, self._next)
            self._next = following(self._next, batch.builder.count)

    def acknowledged(self, batch: SequencedBatch, offset: int = -1) -> None:
        """Record that the leader has a batch, even if its outcome is already settled.

        Args:
            batch: the stored batch.
            offset: the offset of its first record; -1 if unknown.
        """
        if offset >= 0:
            self._acknowledged_offset = max(self._acknowledged_offset, offset + batch.builder.count - 1)
        self._forget(batch)
        if batch.producer == self.producer:
            last = following(batch.sequence, batch.builder.count - 1)
            if self._acknowledged == NO_SEQUENCE or (last - self._acknowledged) % _MODULUS < _HALF:
                self._acknowledged = last
        self._resolve()

    def failed(self, batch: SequencedBatch) -> None:
        """Record that a batch has failed permanently; either the leader has it anyway, or its number is missing.

        The leader's answers to batches in flight, or its acknowledgement of the last one, will show which is the case.
        """
        if batch.sequence != NO_SEQUENCE:
            self._forget(batch)
            self._unresolved = True
            self._resolve()

    def divide(self, batch: SequencedBatch, parts: Sequence[SequencedBatch]) -> None:
        """Assign the numbers of a batch to the batches that now hold its records."""
        if batch.sequence == NO_SEQUENCE or batch.producer is None:
            return
        sequence = batch.sequence
        for part in parts:
            part.stamp(batch.producer, sequence)
            sequence = following(sequence, part.builder.count)
        place = self.batches.index(batch)
        self.batches[place : place + 1] = parts

    def mends(self, batch: SequencedBatch, code: ErrorCode, log_start_offset: int, *, raises_epoch: bool) -> bool:
        """Return whether the next attempt may succeed after an error about a batch's sequence number.

        Args:
            batch: the rejected batch.
            code: the error code.
            log_start_offset: the partition's log start offset; -1 if the leader did not report it.
            raises_epoch: whether the client may raise the epoch. In a transaction, it may not: the transaction
                continues if the leader has forgotten the producer along with its records, and is aborted if the records
                still exist, since the batch may be among them.
        """
        if batch.sequence == NO_SEQUENCE:
            return False
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:  # from brokers before 2.5
            if log_start_offset < 0:  # only another attempt can show that
                return True
            self.needs_epoch = self.is_forgotten = True
            return raises_epoch or self._acknowledged_offset < log_start_offset
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # The oldest batch follows a gap that nothing will fill; ahead of any other batch, an earlier one is still
            # in flight.
            if self.batches[0] is batch:
                self.needs_epoch = True
            return raises_epoch or not self.needs_epoch
        return False

    def _begin(self, producer: ProducerId) -> None:
        self.producer = producer
        self.needs_epoch = self.is_forgotten = self._unresolved = False
        self._next = 0
        self._acknowledged = NO_SEQUENCE

    def _forget(self, batch: SequencedBatch) -> None:
        if batch in self.batches:
            self.batches.remove(batch)

    def _resolve(self) -> None:
        """Find out whether a batch that was given up was stored: it was if the last assigned number is acknowledged."""
        if self._unresolved and not self.batches:
            self._unresolved = False
            if following(self._acknowledged, 1) != self._next:
                self.needs_epoch = True
