"""A transactional id and its current transaction: the allowed steps, and the checks of requests.

Transactions are immutable: each step returns a new transaction, which takes effect once it is in the log. With
    transaction.version 2 (KIP-890), a producer gets a higher epoch for each transaction, in the step that prepares the
    end of the previous one. When the epochs of a producer id are exhausted, a new producer id takes over once the
    markers are written.

Source: `TransactionMetadata`, `TransactionCoordinator` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TransactionState, TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.states import Edges
from kafkawire.sdk.storage.partitions import Partition

__all__ = [
    "LAST_EPOCH",
    "NO_START",
    "TRANSACTION_EDGES",
    "NeedsProducerId",
    "ProducerIdAndEpoch",
    "Transaction",
    "state_name",
]

#: The last epoch that a producer gets; the next epoch is reserved for fencing the producer.
LAST_EPOCH: Final = 2**15 - 2

#: Start time of a transaction that has not begun.
NO_START: Final = -1

_ENDED = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
_PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

#: In version 2, a producer aborts an empty transaction if it cannot know whether its partitions were added. Dead and
#: PrepareEpochFence are never stored. As in Kafka, every step is refused for an id loaded in one of these states.
TRANSACTION_EDGES: Final = Edges(
    "a transactional id",
    (TransactionState.EMPTY,),
    {
        TransactionState.EMPTY: {
            TransactionState.EMPTY: "a producer begins again",
            TransactionState.ONGOING: "the first partition or group is added",
            TransactionState.PREPARE_ABORT: "in version 2, an empty transaction is aborted",
        },
        TransactionState.ONGOING: {
            TransactionState.ONGOING: "another partition or group is added",
            TransactionState.PREPARE_COMMIT: "the producer commits",
            TransactionState.PREPARE_ABORT: "the producer aborts, another one begins, or the timeout has passed",
        },
        TransactionState.PREPARE_COMMIT: {TransactionState.COMPLETE_COMMIT: "all markers are written"},
        TransactionState.PREPARE_ABORT: {TransactionState.COMPLETE_ABORT: "all markers are written"},
        **{
            ended: {
                TransactionState.EMPTY: "a producer begins",
                TransactionState.ONGOING: "the next transaction begins",
                TransactionState.PREPARE_ABORT: "in version 2, an empty transaction is aborted",
            }
            for ended in _ENDED
        },
    },
)


class ProducerIdAndEpoch(NamedTuple):
    """A producer's id and epoch."""

    producer_id: int
    epoch: int


class NeedsProducerId(BrokerError):
    """The step needs an unused producer id; retry it with one."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the transactional id needs an unused producer id")


def state_name(state: TransactionState) -> str:
    """Return the name that Kafka's APIs use for a state, for example `PrepareCommit`."""
    return "".join(word.title() for word in state.name.split("_"))


@dataclass(frozen=True, slots=True)
class Transaction:
    """The coordinator's state for a transactional id.

    Attributes:
        transactional_id: the id.
        producer_id: the current producer id.
        epoch: the producer's epoch; -1 before the first one is assigned.
        last_epoch: the previous epoch if its owner may request the current one again; otherwise, and after a restart,
            -1.
        previous_producer_id: the producer id before the last step.
        next_producer_id: the producer id that takes over once the markers are written; -1 to keep the current id.
        timeout_ms: how long a transaction may be open.
        state: Kafka's state; Dead and PrepareEpochFence are never stored.
        partitions: the partitions in the open transaction.
        start_ms: when the transaction began; `NO_START` before the first one.
        updated_ms: the time of the last step.
        client_version: level of transaction.version that the client uses.
    """

    transactional_id: str
    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    last_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[Partition] = frozenset()
    start_ms: int = NO_START
    updated_ms: int = 0
    client_version: int = TransactionVersion.TV_0

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The current producer."""
        return ProducerIdAndEpoch(self.producer_id, self.epoch)

    @property
    def is_prepared(self) -> bool:
        """Whether the markers are being written."""
        return self.state in _PREPARED

    @property
    def is_commit(self) -> bool:
        """Whether a prepared transaction is committed rather than aborted."""
        return self.state is TransactionState.PREPARE_COMMIT

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left."""
        return self.epoch >= LAST_EPOCH

    @property
    def can_expire(self) -> bool:
        """Whether the id is removed once it has been unused for long enough."""
        return self.state is TransactionState.EMPTY or self.state in _ENDED

    def is_same_step(self, other: Transaction) -> bool:
        """Return whether this is the same step of the same transaction, for which equal epochs are not enough."""
        mine = self.state, self.producer, self.start_ms, self.updated_ms, self.partitions
        return mine == (other.state, other.producer, other.start_ms, other.updated_ms, other.partitions)

    def has_timed_out(self, now_ms: int) -> bool:
        """Return whether the transaction has been open for too long."""
        return self.state is TransactionState.ONGOING and self.start_ms + self.timeout_ms < now_ms

    # Producers.

    def check_not_prepared(self) -> None:
        """Check that no markers are being written.

        Raises:
            BrokerError: CONCURRENT_TRANSACTIONS.
        """
        if self.is_prepared:
            raise BrokerError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{self.transactional_id!r} is {self.state.name}")

    def check_producer(self, producer: ProducerIdAndEpoch) -> None:
        """Check that a producer is the current one.

        Raises:
            BrokerError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
        """
        if producer.producer_id != self.producer_id:
            raise self._other_id(producer)
        if producer.epoch != self.epoch:
            raise self._fenced(producer)

    def initialized(
        self, timeout_ms: int, expected: ProducerIdAndEpoch | None, fresh_id: int | None, now_ms: int
    ) -> Transaction:
        """Return the state after a producer is initialized, possibly again.

        Args:
            timeout_ms: how long its transactions may be open.
            expected: the producer's current id and epoch, if it was initialized before and just wants a higher epoch.
            fresh_id: an unused producer id, if one is needed.
            now_ms: the current time.

        Raises:
            BrokerError: PRODUCER_FENCED.
            NeedsProducerId: the epochs are exhausted.
        """
        self.check_expected(expected)
        begun = replace(
            self._moved(TransactionState.EMPTY, now_ms),
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_START,
        )
        if self.is_exhausted and (expected is None or expected.epoch == self.epoch):
            if fresh_id is None:
                raise NeedsProducerId
            last_epoch = NO_PRODUCER_EPOCH if expected is None else self.epoch
            return replace(begun, producer_id=fresh_id, epoch=0, last_epoch=last_epoch)
        epoch, last_epoch = self.epoch + 1, NO_PRODUCER_EPOCH
        if expected is not None and (self.epoch == NO_PRODUCER_EPOCH or expected.epoch == self.epoch):
            last_epoch = self.epoch
        elif expected is not None and not self.is_exhausted and expected.epoch == self.last_epoch:
            epoch, last_epoch = self.epoch, self.last_epoch  # the response with the current epoch was lost
        elif expected is not None:
            raise self._fenced(expected)
        return replace(begun, epoch=epoch, last_epoch=last_epoch)

    def check_expected(self, expected: ProducerIdAndEpoch | None) -> None:
        """Refuse a producer that was initialized earlier but has since been replaced.

        The producer's epoch is not checked, so an open transaction is aborted even for a producer that is refused
        later.

        Raises:
            BrokerError: PRODUCER_FENCED.
        """
        if expected is None or self.epoch == NO_PRODUCER_EPOCH or expected.producer_id == self.producer_id:
            return
        # The response that carried the new id may have been lost.
        if expected.producer_id != self.previous_producer_id or expected.epoch < LAST_EPOCH:
            raise self._fenced(expected)

    # The transaction.

    def with_partitions(self, partitions: Iterable[Partition], client_version: int, now_ms: int) -> Transaction:
        """Return the state after adding partitions to the transaction, which begins if none is open."""
        start_ms = self.start_ms if self.state is TransactionState.ONGOING else now_ms
        return replace(
            self._moved(TransactionState.ONGOING, now_ms),
            partitions=self.partitions.union(partitions),
            start_ms=start_ms,
            client_version=client_version,
        )

    def end(
        self, producer: ProducerIdAndEpoch, is_commit: bool, client_version: int, fresh_id: int | None, now_ms: int
    ) -> Transaction | None:
        """Return the state after the producer ends the transaction; None if the transaction has already ended.

        Args:
            producer: the requesting producer.
            is_commit: whether to commit or abort.
            client_version: the level of transaction.version of the request.
            fresh_id: an unused producer id, if one is needed.
            now_ms: the current time.

        Raises:
            BrokerError: the request does not fit the state, or is not from the current producer.
            NeedsProducerId: the epochs are exhausted.
        """
        if client_version >= TransactionVersion.TV_2:
            return self._end(producer, is_commit, fresh_id, now_ms)
        self.check_producer(producer)
        self.check_not_prepared()
        if self.state is TransactionState.ONGOING:
            return self._prepared(is_commit, client_version, fresh_id, now_ms)
        if self._has_ended(is_commit):
            return None
        raise self._invalid(is_commit)

    def _end(
        self, producer: ProducerIdAndEpoch, is_commit: bool, fresh_id: int | None, now_ms: int
    ) -> Transaction | None:
        """End a transaction in version 2; its epoch tells a repeated request from the end of the next transaction."""
        self.check_not_prepared()
        is_rotated = (
            self.previous_producer_id == producer.producer_id and producer.epoch == LAST_EPOCH and self.epoch == 0
        )
        is_repeated = is_rotated or self.epoch == producer.epoch + 1
        if self.producer_id != producer.producer_id and not is_rotated:
            raise self._other_id(producer)
        has_ended = self.state in _ENDED
        if producer.epoch != self.epoch and not (has_ended and is_repeated):
            raise self._fenced(producer)
        if self.state is TransactionState.ONGOING:
            return self._prepared(is_commit, TransactionVersion.TV_2, fresh_id, now_ms)
        if has_ended and is_repeated:
            if self._has_ended(is_commit):
                return None
        elif not is_commit:
            # The producer cannot know whether its partitions were added.
            return self._prepared(is_commit, TransactionVersion.TV_2, fresh_id, now_ms)
        raise self._invalid(is_commit)

    def aborted(self, fresh_id: int | None, now_ms: int) -> Transaction:
        """Return the state after an abort that the producer did not request, which fences the producer.

        Raises:
            NeedsProducerId: the epochs are exhausted.
        """
        return self._prepared(False, TransactionVersion.TV_2, fresh_id, now_ms)

    def _prepared(self, is_commit: bool, client_version: int, fresh_id: int | None, now_ms: int) -> Transaction:
        epoch, last_epoch, next_id = self.epoch, self.last_epoch, NO_PRODUCER_ID
        if client_version >= TransactionVersion.TV_2:
            if self.is_exhausted:
                if fresh_id is None:
                    raise NeedsProducerId
                next_id = fresh_id
            epoch, last_epoch = self.epoch + 1, self.epoch
        state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        return replace(
            self._moved(state, now_ms),
            epoch=epoch,
            last_epoch=last_epoch,
            next_producer_id=next_id,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> Transaction:
        """Return the state of a prepared transaction once all markers are written."""
        state = TransactionState.COMPLETE_COMMIT if self.is_commit else TransactionState.COMPLETE_ABORT
        rotates = self.next_producer_id != NO_PRODUCER_ID
        return replace(
            self._moved(state, now_ms),
            producer_id=self.next_producer_id if rotates else self.producer_id,
            epoch=0 if rotates else self.epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
        )

    def without_others(self, partitions: frozenset[Partition]) -> Transaction:
        """Return a description of the transaction that is restricted to some of its partitions."""
        return replace(self, partitions=partitions)

    def _moved(self, state: TransactionState, now_ms: int) -> Transaction:
        state = TRANSACTION_EDGES.follow(self.state, state)
        return replace(self, state=state, updated_ms=now_ms, previous_producer_id=self.producer_id)

    def _has_ended(self, is_commit: bool) -> bool:
        return self.state is (TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT)

    # Errors.

    def _other_id(self, producer: ProducerIdAndEpoch) -> BrokerError:
        reason = f"expected producer id {self.producer_id} for {self.transactional_id!r}, got {producer.producer_id}"
        return BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, reason)

    def _fenced(self, producer: ProducerIdAndEpoch) -> BrokerError:
        reason = (
            f"expected producer id {self.producer_id} with epoch {self.epoch} for {self.transactional_id!r}, "
            f"got {producer.producer_id} with epoch {producer.epoch}"
        )
        return BrokerError(ErrorCode.PRODUCER_FENCED, reason)

    def _invalid(self, is_commit: bool) -> BrokerError:
        step = "commit" if is_commit else "abort"
        reason = f"cannot {step} the transaction of {self.transactional_id!r} in state {self.state.name}"
        return BrokerError(ErrorCode.INVALID_TXN_STATE, reason)
