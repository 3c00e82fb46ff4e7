"""The transaction coordinator, as the handlers in `apis/` use it.

It finds the shard of a transactional id, assigns producer ids, and starts the writing of markers.

Every callback is called exactly once, with the outcome once it is committed, or with the error that prevented it.

Source: `TransactionCoordinator`, `AddPartitionsToTxnManager`, `ReplicaManager.handleProduceAppend` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from kafkawire.reference_broker.coordinators.runtime import CoordinatorRuntime
from kafkawire.reference_broker.coordinators.shard import CoordinatorLog, Done, Result, ShardTimers
from kafkawire.reference_broker.transactions.limits import TransactionLimits
from kafkawire.reference_broker.transactions.markers import Markers, WriteMarker
from kafkawire.reference_broker.transactions.producer_ids import ProducerIds
from kafkawire.reference_broker.transactions.shard import TransactionShard
from kafkawire.reference_broker.transactions.transaction import NeedsProducerId, ProducerIdAndEpoch, Transaction
from kafkawire.reference_broker.transactions.transaction_verification import told_to_producer
from kafkawire.reference_broker.work.timers import Timer, Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import TRANSACTION_STATE_TOPIC, TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["TransactionCoordinator"]

R = TypeVar("R")

#: Pause before retrying a step that failed only because of an unfinished write or a full queue.
_RETRY_MS = 100


class _WithoutId:
    """An operation waiting for a producer id.

    Attributes:
        number: the partition of the operation's transactional id.
        refuse: called with an error if the partition is no longer served.
    """

    __slots__ = ("number", "refuse")

    def __init__(self, number: int, refuse: Callable[[BrokerError], None]) -> None:
        self.number = number
        self.refuse = refuse


class _Endings(NamedTuple):
    """The `TransactionListener` of one shard.

    A step that has begun continues in the partition that holds the transaction. This partition is stored, since a
    broker may lead it before its image contains the topic, whose size determines the partition of an id.

    Attributes:
        coordinator: performs the steps.
        number: the partition's number.
    """

    coordinator: TransactionCoordinator
    number: int

    def prepared(self, transaction: Transaction, now_ms: int) -> None:
        self.coordinator.end_prepared(self.number, transaction, now_ms)

    def timed_out(self, transaction: Transaction, now_ms: int) -> None:
        self.coordinator.abort_late(self.number, transaction, now_ms)


class TransactionCoordinator:
    """The transactional ids that this broker coordinates.

    Args:
        timers: the broker's timers.
        limits: see `TransactionLimits`.
        size_of: returns the number of partitions of `__transaction_state`, or 0 if the topic does not exist.
        producer_ids: assigns new ids.
        write_marker: see `WriteMarker`.
    """

    def __init__(
        self,
        timers: Timers,
        limits: TransactionLimits,
        size_of: Callable[[], int],
        producer_ids: ProducerIds,
        write_marker: WriteMarker,
    ) -> None:
        self._timers = timers
        self._limits = limits
        self._producer_ids = producer_ids
        self._markers = Markers(timers, write_marker)
        #: The timers of steps to retry, keyed by transactional id.
        self._retries: dict[str, Timer] = {}
        #: Operations waiting for a producer id.
        self._without_id: dict[_WithoutId, None] = {}

        def new_shard(number: int, shard_timers: ShardTimers) -> TransactionShard:
            return TransactionShard(shard_timers, limits, _Endings(self, number))

        self._runtime = CoordinatorRuntime(TRANSACTION_STATE_TOPIC, timers, new_shard, size_of)

    # Partitions of the topic.

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return TRANSACTION_STATE_TOPIC

    def elected(self, number: int, log: CoordinatorLog, leader_epoch: int, now_ms: int) -> None:
        """Serve a partition of the topic; see `CoordinatorRuntime.elected`.

        Earlier work on its transactions is dropped, since loading the partition resumes those that are unfinished.
        """
        transactional_ids = self._ending_in(number)
        if self._runtime.elected(number, log, leader_epoch, now_ms):
            self._leave(transactional_ids)

    def resigned(self, number: int, epoch: int | None = None) -> None:
        """Stop serving a partition of the topic, and stop writing markers for its transactional ids.

        See `CoordinatorRuntime.resigned`.
        """
        transactional_ids = self._ending_in(number)
        if self._runtime.resigned(number, epoch):
            self._leave(transactional_ids)
            for waiting in [each for each in self._without_id if each.number == number]:
                self._refuse(waiting)

    def unload(self) -> None:
        """Stop serving, and answer all waiting operations with NOT_COORDINATOR."""
        self._runtime.unload()
        self._leave([*self._markers.ids(), *self._retries])
        for waiting in list(self._without_id):
            self._refuse(waiting)

    def _ending_in(self, number: int) -> list[str]:
        """Return a partition's transactional ids whose transactions are ending or waiting for a retry."""
        shard = self._runtime.shard(number)
        known = () if shard is None else shard.transactions
        return [each for each in dict.fromkeys((*self._markers.ids(), *self._retries)) if each in known]

    def _leave(self, transactional_ids: Iterable[str]) -> None:
        """Stop writing markers for transactional ids, and drop the pending retries of their steps."""
        for transactional_id in transactional_ids:
            self._markers.cancel(transactional_id)
            retry = self._retries.pop(transactional_id, None)
            if retry is not None:
                retry.cancel()

    def _refuse(self, waiting: _WithoutId) -> None:
        """Answer an operation whose partition is no longer served."""
        del self._without_id[waiting]
        reason = f"{TRANSACTION_STATE_TOPIC}-{waiting.number} has been unloaded"
        waiting.refuse(BrokerError(ErrorCode.NOT_COORDINATOR, reason))

    @property
    def is_loading(self) -> bool:
        """Whether a partition is being loaded, in which case not all transactional ids are known yet."""
        return self._runtime.is_loading

    def _submit_by_id(
        self,
        transactional_id: str,
        operation: Callable[[TransactionShard, int | None], Result[R]],
        done: Done[R],
        now_ms: int,
    ) -> None:
        """Run an operation on the partition of a transactional id; see `_submit_with_id`."""
        if self._runtime.size:
            self._submit_with_id(self._runtime.partition_of(transactional_id), operation, done, now_ms)
        else:
            done(self._runtime.no_topic())

    def _submit_with_id(
        self,
        number: int,
        operation: Callable[[TransactionShard, int | None], Result[R]],
        done: Done[R],
        now_ms: int,
        fresh_id: int | None = None,
    ) -> None:
        """Run an operation, and retry it once with a new producer id if it needs one."""

        def answered(outcome: R | BrokerError) -> None:
            if isinstance(outcome, NeedsProducerId):
                waiting = _WithoutId(number, done)
                self._without_id[waiting] = None
                self._producer_ids.take(self._timers.as_of_now(partial(given, waiting)))
            else:
                done(outcome)

        def given(waiting: _WithoutId, found: int | BrokerError) -> None:
            if waiting not in self._without_id:
                return  # the operation has been refused, so the id stays unused
            del self._without_id[waiting]
            if isinstance(found, BrokerError):
                done(found)
            else:
                self._submit_with_id(number, operation, done, now_ms, found)

        self._runtime.submit_to(number, lambda shard: operation(shard, fresh_id), answered, now_ms)

    # Producers.

    def initialize(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        done: Done[ProducerIdAndEpoch],
        now_ms: int,
    ) -> None:
        """Give a producer its id and epoch, and fence earlier producers.

        Args:
            transactional_id: the id; not empty.
            timeout_ms: how long its transactions may be open.
            expected: the producer's current id and epoch, if it just wants a higher epoch.
            done: called once with the producer or the error.
            now_ms: the current time.
        """
        if not 0 < timeout_ms <= self._limits.max_timeout_ms:
            reason = f"the timeout must be from 1 to {self._limits.max_timeout_ms} ms, got {timeout_ms}"
            done(BrokerError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, reason))
            return

        def operation(shard: TransactionShard, fresh_id: int | None) -> Result[ProducerIdAndEpoch | BrokerError]:
            return shard.initialize(transactional_id, timeout_ms, expected, fresh_id, now_ms)

        self._submit_by_id(transactional_id, operation, done, now_ms)

    # Transactions.

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[Partition],
        client_version: int,
        done: Done[None],
        now_ms: int,
    ) -> None:
        """Add partitions to the transaction, which begins if none is open.

        Args:
            transactional_id: the id.
            producer: the requesting producer.
            partitions: the partitions, including those of internal topics.
            client_version: the level of transaction.version that the client uses.
            done: called once with None or the error.
            now_ms: the current time.
        """
        if not transactional_id:
            done(_empty_id())
            return
        self._runtime.submit(
            transactional_id,
            lambda shard: shard.add_partitions(transactional_id, producer, partitions, client_version, now_ms),
            done,
            now_ms,
        )

    def check_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[Partition],
        done: Done[Mapping[Partition, BrokerError]],
        now_ms: int,
    ) -> None:
        """Find the partitions that are not in the transaction; `done` is called once with them or with the error."""
        if not transactional_id:
            done(_empty_id())
            return
        self._runtime.submit(
            transactional_id, lambda shard: shard.check_partitions(transactional_id, producer, partitions), done, now_ms
        )

    def ensure_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        topic_partitions: Sequence[Partition],
        transaction_version: int,
        done: Callable[[Mapping[Partition, BrokerError]], None],
        now_ms: int,
    ) -> None:
        """Ensure that partitions are in a transaction before an append to them.

        Args:
            transactional_id: the id.
            producer_id: producer id of the batches.
            epoch: epoch of the batches.
            topic_partitions: the partitions to append to.
            transaction_version: the features that the request's sender supports. With 2, the partitions are added. With
            1 and 0, they are only checked; the error is TRANSACTION_ABORTABLE with 1, and INVALID_TXN_STATE with 0.
            done: called once with the refused partitions and the errors.
            now_ms: the current time.
        """
        producer = ProducerIdAndEpoch(producer_id, epoch)

        def checked(outcome: Mapping[Partition, BrokerError] | BrokerError) -> None:
            if isinstance(outcome, BrokerError):
                outcome = dict.fromkeys(topic_partitions, outcome)
            done({each: told_to_producer(error, transaction_version) for each, error in outcome.items()})

        if transaction_version < TransactionVersion.TV_2:
            self.check_partitions(transactional_id, producer, topic_partitions, checked, now_ms)
            return
        last_try_ms = now_ms + self._limits.retry_backoff_max_ms - self._timers.jumped_ms

        def attempt(now_ms: int) -> None:
            def added(error: BrokerError | None) -> None:
                if error is None:
                    done({})
                elif error.code is ErrorCode.CONCURRENT_TRANSACTIONS and now_ms - self._timers.jumped_ms < last_try_ms:
                    self._timers.at(now_ms + self._limits.retry_backoff_ms, attempt)
                else:
                    checked(error)

            self.add_partitions(transactional_id, producer, topic_partitions, TransactionVersion.TV_2, added, now_ms)

        attempt(now_ms)

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        is_commit: bool,
        client_version: int,
        done: Done[ProducerIdAndEpoch],
        now_ms: int,
    ) -> None:
        """End the transaction; `done` is called once with the producer of the next one, or with the error."""
        if not transactional_id:
            done(_empty_id())
            return

        def operation(shard: TransactionShard, fresh_id: int | None) -> Result[ProducerIdAndEpoch]:
            return shard.end(transactional_id, producer, is_commit, client_version, fresh_id, now_ms)

        self._submit_by_id(transactional_id, operation, done, now_ms)

    # The ends of transactions, for `_Endings`.

    def end_prepared(self, number: int, transaction: Transaction, now_ms: int) -> None:
        """Write the markers once the prepare record is committed, no matter how long that takes."""

        def answered(outcome: bool | BrokerError) -> None:
            if isinstance(outcome, BrokerError):
                self._again(transaction, self.end_prepared, number, now_ms)
            elif outcome:
                epoch = self._runtime.leader_epoch(number)
                self._markers.send(transaction, epoch, partial(self._complete, number, transaction), now_ms)

        self._runtime.submit_to(number, lambda shard: shard.prepared(transaction), answered, now_ms)

    def _complete(self, number: int, transaction: Transaction, now_ms: int) -> None:
        def answered(error: BrokerError | None) -> None:
            if error is not None:
                self._again(transaction, self._complete, number, now_ms)

        self._runtime.submit_to(number, lambda shard: shard.complete(transaction, now_ms), answered, now_ms)

    def abort_late(self, number: int, transaction: Transaction, now_ms: int) -> None:
        """Abort a transaction that has been open for too long; after an error, the next check will find it again."""
        self._submit_with_id(
            number,
            lambda shard, fresh_id: shard.abort(transaction, fresh_id, now_ms),
            lambda _: None,
            now_ms,
        )

    def _again(
        self, transaction: Transaction, step: Callable[[int, Transaction, int], None], number: int, now_ms: int
    ) -> None:
        """Take a step again after an error, unless another broker continues, or this one does after loading."""
        if not self._runtime.is_active(number):
            return
        transactional_id = transaction.transactional_id

        def retry(now_ms: int) -> None:
            del self._retries[transactional_id]
            step(number, transaction, now_ms)

        if (before := self._retries.pop(transactional_id, None)) is not None:
            before.cancel()
        self._retries[transactional_id] = self._timers.at(now_ms + _RETRY_MS, retry)

    # Inspection.

    def describe(self, transactional_id: str, done: Done[Transaction | None], now_ms: int) -> None:
        """Call `done` with a transaction, or with None if the id is unknown.

        If the transaction is prepared, its partitions are those that still lack a marker.
        """

        def answered(outcome: Transaction | BrokerError | None) -> None:
            done(self._with_remaining(outcome) if isinstance(outcome, Transaction) else outcome)

        self._runtime.submit(transactional_id, lambda shard: shard.describe(transactional_id), answered, now_ms)

    def _with_remaining(self, transaction: Transaction) -> Transaction:
        remaining = self._markers.remaining(transaction.transactional_id) if transaction.is_prepared else None
        return transaction if remaining is None else transaction.without_others(remaining)

    def transactions(self) -> Iterator[Transaction]:
        """Yield the transactions of all served partitions."""
        for shard in self._runtime.shards():
            yield from shard.transactions.values()


def _empty_id() -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
