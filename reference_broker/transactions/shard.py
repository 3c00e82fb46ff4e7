"""The transactions of one partition of `__transaction_state`: a state machine for the coordinator's runtime.

Each operation returns a `Result`; a transaction changes once its record is in the log. The listener performs the
actions outside the shard, such as writing markers.

Source: `TransactionStateManager`, `TransactionCoordinator` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Protocol, TypeVar

from kafkawire.reference_broker.coordinators.records import decode
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord, Result, ShardTimers
from kafkawire.reference_broker.transactions.limits import TransactionLimits
from kafkawire.reference_broker.transactions.records import (
    RECORD_TYPES,
    stored_transaction,
    transaction_record,
    transaction_tombstone,
)
from kafkawire.reference_broker.transactions.transaction import NeedsProducerId, ProducerIdAndEpoch, Transaction
from kafkawire.reference_broker.work.timers import Timer
from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.protocol.messages.coordinator.transaction_state.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
)
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_ID, TransactionState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["TransactionListener", "TransactionShard"]

R = TypeVar("R")

#: Maximum number of transactional ids checked in one step; removing that many takes 5 ms. The rest are checked in
#: further steps; each shard has its own steps.
_STEP_IDS = 500


class TransactionListener(Protocol):
    """Performs actions outside the shard."""

    def prepared(self, transaction: Transaction, now_ms: int) -> None:
        """Write the markers of a transaction, once its record is committed."""

    def timed_out(self, transaction: Transaction, now_ms: int) -> None:
        """Abort a transaction that has been open for too long."""


class TransactionShard:
    """The transactional ids that belong to one partition.

    Args:
        timers: timers for deadlines.
        limits: see `TransactionLimits`.
        listener: see `TransactionListener`.

    Attributes:
        transactions: the transactions, keyed by transactional id.
    """

    def __init__(self, timers: ShardTimers, limits: TransactionLimits, listener: TransactionListener) -> None:
        self._timers = timers
        self._limits = limits
        self._listener = listener
        self._is_loaded = False
        #: The open transactions, which can time out.
        self._open: dict[str, Transaction] = {}
        self._abort_timer: Timer | None = None
        self._expiry_timer: Timer | None = None
        #: The new state of a transaction whose record is being appended, since the record does not contain all of it.
        self._next: Transaction | None = None
        self._expired: list[CoordinatorRecord] = []
        self.transactions: dict[str, Transaction] = {}

    # Called by the runtime (see `Shard`).

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        record = decode(RECORD_TYPES, key, value)
        if record is not None and isinstance(record.value, TransactionLogValue):
            known = TransactionState._value2member_map_
            if record.value.transaction_status not in known:
                reason = f"unknown state {record.value.transaction_status}; supported values: {list(known)}"
                raise DecodeError("transaction_status", 0, reason)
        return record

    def replay(self, record: CoordinatorRecord, offset: int = 0, producer_id: int = NO_PRODUCER_ID) -> None:
        key, value = record.key, record.value
        if not isinstance(key, TransactionLogKey):
            return
        if not isinstance(value, TransactionLogValue):
            self.transactions.pop(key.transactional_id, None)
            return
        transaction, self._next = self._next, None
        if transaction is None:
            transaction = stored_transaction(key.transactional_id, value)
        self.transactions[key.transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self._open[key.transactional_id] = transaction
        else:
            self._open.pop(key.transactional_id, None)
        if self._is_loaded:
            self._follow(transaction, transaction.updated_ms)

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """Do nothing, since no record in this topic is part of a transaction."""

    def loaded(self, now_ms: int) -> None:
        self._is_loaded = True
        self._expire_later(now_ms)
        for transaction in list(self.transactions.values()):
            self._follow(transaction, now_ms)

    def unloaded(self) -> None:
        for timer in (self._abort_timer, self._expiry_timer):
            if timer is not None:
                timer.cancel()

    def fire(self, action: Callable[[int], None], now_ms: int) -> Result[None]:
        action(now_ms)
        expired, self._expired = self._expired, []
        return Result(None, expired)

    def _follow(self, transaction: Transaction, now_ms: int) -> None:
        if transaction.is_prepared:
            self._listener.prepared(transaction, now_ms)
        elif self._open and (self._abort_timer is None or not self._abort_timer.is_pending):
            self._abort_timer = self._timers.at(now_ms + self._limits.abort_interval_ms, self._abort)

    # Producers.

    def initialize(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        fresh_id: int | None,
        now_ms: int,
    ) -> Result[ProducerIdAndEpoch | BrokerError]:
        """Give a producer its id and epoch; see `Transaction.initialized`.

        An open transaction is aborted first, and the producer has to retry.

        Raises:
            BrokerError: the previous transaction is not complete, or the producer is fenced.
            NeedsProducerId: the transactional id is new, or its epochs are exhausted.
        """
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            if fresh_id is None:
                raise NeedsProducerId
            transaction = Transaction(transactional_id, fresh_id)
        transaction.check_not_prepared()
        if transaction.state is TransactionState.ONGOING:
            transaction.check_expected(expected)
            reason = f"the open transaction of {transactional_id!r} must be aborted first"
            return self._write(
                transaction.aborted(fresh_id, now_ms), BrokerError(ErrorCode.CONCURRENT_TRANSACTIONS, reason)
            )
        begun = transaction.initialized(timeout_ms, expected, fresh_id, now_ms)
        return self._write(begun, begun.producer)

    # Transactions.

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[Partition],
        client_version: int,
        now_ms: int,
    ) -> Result[None]:
        """Add partitions to the transaction, which begins if none is open.

        Raises:
            BrokerError: the previous transaction is not complete, or the producer is not the current one.
        """
        transaction = self._find(transactional_id)
        transaction.check_not_prepared()
        transaction.check_producer(producer)
        if transaction.state is TransactionState.ONGOING and transaction.partitions.issuperset(partitions):
            return Result(None)
        return self._write(transaction.with_partitions(partitions, client_version, now_ms), None)

    def check_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[Partition]
    ) -> Result[Mapping[Partition, BrokerError]]:
        """Return the partitions that are not in the transaction, with TRANSACTION_ABORTABLE for each.

        Raises:
            BrokerError: the transaction is no longer open, or the producer is not the current one.
        """
        transaction = self._find(transactional_id)
        transaction.check_producer(producer)
        transaction.check_not_prepared()
        error = BrokerError(
            ErrorCode.TRANSACTION_ABORTABLE, f"the partition is not in the transaction of {transactional_id!r}"
        )
        return Result({partition: error for partition in partitions if partition not in transaction.partitions})

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        is_commit: bool,
        client_version: int,
        fresh_id: int | None,
        now_ms: int,
    ) -> Result[ProducerIdAndEpoch]:
        """End the transaction; return the producer of the next one. See `Transaction.end`.

        Raises:
            BrokerError: see `Transaction.end`.
        """
        transaction = self._find(transactional_id)
        prepared = transaction.end(producer, is_commit, client_version, fresh_id, now_ms)
        if prepared is None:
            return Result(transaction.producer)
        return self._write(prepared, prepared.completed(now_ms).producer)

    def abort(self, transaction: Transaction, fresh_id: int | None, now_ms: int) -> Result[None]:
        """Abort a transaction that has been open for too long, unless it has changed since.

        Raises:
            NeedsProducerId: the epochs of its producer id are exhausted.
        """
        current = self.transactions.get(transaction.transactional_id)
        if current is None or current.producer != transaction.producer or not current.has_timed_out(now_ms):
            return Result(None)
        return self._write(current.aborted(fresh_id, now_ms), None)

    def prepared(self, transaction: Transaction) -> Result[bool]:
        """Return whether a transaction is prepared; the result is available once its record is committed."""
        return Result(self._is_still(transaction))

    def complete(self, transaction: Transaction, now_ms: int) -> Result[None]:
        """Record that all markers of a prepared transaction are written."""
        if not self._is_still(transaction):
            return Result(None)
        return self._write(self.transactions[transaction.transactional_id].completed(now_ms), None)

    def describe(self, transactional_id: str) -> Result[Transaction | None]:
        """Return a transaction, or None if the id is unknown."""
        return Result(self.transactions.get(transactional_id))

    def _is_still(self, transaction: Transaction) -> bool:
        """Return whether a prepared transaction is current, not replaced by a later step."""
        current = self.transactions.get(transaction.transactional_id)
        return current is not None and current.is_same_step(transaction)

    def _find(self, transactional_id: str) -> Transaction:
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            reason = f"unknown transactional id {transactional_id!r}"
            raise BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, reason)
        return transaction

    def _write(self, transaction: Transaction, reply: R) -> Result[R]:
        self._next = transaction
        return Result(reply, [transaction_record(transaction)])

    # Timeouts and expiry.

    def _abort(self, now_ms: int) -> None:
        """Abort transactions that have been open for too long; check again later while any is open."""
        late = [transaction for transaction in self._open.values() if transaction.has_timed_out(now_ms)]
        if self._open:
            self._abort_timer = self._timers.at(now_ms + self._limits.abort_interval_ms, self._abort)
        for transaction in late:
            self._listener.timed_out(transaction, now_ms)

    def _expire_later(self, now_ms: int) -> None:
        deadline_ms = now_ms + self._limits.id_expiration_interval_ms
        self._expiry_timer = self._timers.at(
            deadline_ms, lambda now_ms: self._expire_in_turn(iter(list(self.transactions)), now_ms)
        )

    def _expire_in_turn(self, transactional_ids: Iterator[str], now_ms: int) -> None:
        self._timers.in_turn(now_ms, lambda now_ms: self._expire(transactional_ids, now_ms))

    def _expire(self, transactional_ids: Iterator[str], now_ms: int) -> None:
        """Remove ids that have been unused for too long, a limited number in each step."""
        for seen, transactional_id in enumerate(transactional_ids, 1):
            transaction = self.transactions.get(transactional_id)
            if (
                transaction is not None
                and transaction.can_expire
                and transaction.updated_ms <= now_ms - self._limits.id_expiration_ms
            ):
                self._expired.append(transaction_tombstone(transactional_id))
            if seen == _STEP_IDS:
                self._expire_in_turn(transactional_ids, now_ms)
                return
        self._expire_later(now_ms)
