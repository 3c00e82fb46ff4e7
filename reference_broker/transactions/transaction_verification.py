"""Verify with the transaction coordinator that a batch may begin a transaction in its partition (KIP-890).

A partition in which the transaction is already open needs no verification. Old clients add partitions themselves, so
the coordinator just checks them. For clients that use Produce 12 or later, it adds the partitions.

Source: `ReplicaManager.handleProduceAppend`, `AddPartitionsToTxnManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from kafkawire.reference_broker.storage.batches import BatchHeader
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.producers.producers import Verification
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["Unverified", "Verifier", "append_verified", "told_to_producer", "transaction_version"]

#: Called with the refused partitions and their errors.
Answered = Callable[[Mapping[Partition, BrokerError]], None]

#: In KIP-890, neither version 11 (TRANSACTION_ABORTABLE) nor version 12 (adding partitions) added a field.
_ABORTABLE_SINCE = 11
_ADDS_SINCE = 12

#: Temporary errors. Not every client resends its batch after one of these, but every client does after
#: NOT_ENOUGH_REPLICAS.
_PASSING = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
    }
)


@runtime_checkable  # tests match the parts of a broker against the names in handlers
class Verifier(Protocol):
    """The part of the transaction coordinator that Produce uses."""

    def ensure_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        topic_partitions: Sequence[Partition],
        transaction_version: int,
        done: Answered,
        now_ms: int,
    ) -> None:
        """Check that partitions are in a transaction, or add them.

        Args:
            transactional_id: the producer's transactional id.
            producer_id: the producer's id.
            epoch: the producer's epoch.
            topic_partitions: the partitions.
            transaction_version: the features that the client supports (see `transaction_version`).
            done: called once.
            now_ms: the current time.
        """
        ...


class Unverified(NamedTuple):
    """A batch of a transaction that has been checked but not appended.

    Attributes:
        partition: the partition of the batch.
        log: log of the partition.
        header: header of the batch.
        append: appends the batch; the argument is the result of `Producers.begin_verification`.
        refuse: called instead if the coordinator refuses the batch.
    """

    partition: Partition
    log: PartitionLog
    header: BatchHeader
    append: Callable[[Verification | None], None]
    refuse: Callable[[BrokerError], None]


def transaction_version(produce_version: int) -> TransactionVersion:
    """Return the transaction version that a client with this version of Produce supports.

    Returns:
        `TV_2` if its partitions are added; `TV_1` if it knows TRANSACTION_ABORTABLE; `TV_0` otherwise.
    """
    if produce_version >= _ADDS_SINCE:
        return TransactionVersion.TV_2
    return TransactionVersion.TV_1 if produce_version >= _ABORTABLE_SINCE else TransactionVersion.TV_0


def told_to_producer(error: BrokerError, version: int) -> BrokerError:
    """Translate a coordinator's error into one that producers know.

    Args:
        error: the error.
        version: see `transaction_version`.
    """
    code = error.code
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.TRANSACTION_ABORTABLE and version < TransactionVersion.TV_1:
        code = ErrorCode.INVALID_TXN_STATE
    return BrokerError(code, error.detail)


def append_verified(
    verifier: Verifier | None,
    transactional_id: str,
    batches: Sequence[Unverified],
    version: TransactionVersion,
    now_ms: int,
) -> None:
    """Append the batches that belong to an open transaction, and refuse the others.

    Args:
        verifier: the transaction coordinator; None to trust the producer.
        transactional_id: transactional id of the producer.
        batches: the batches of one producer in one request.
        version: see `transaction_version`.
        now_ms: the current time.
    """
    asked: list[tuple[Unverified, Verification]] = []
    for batch in batches:
        producer_id, epoch, sequence = batch.header.producer_id, batch.header.producer_epoch, batch.header.base_sequence
        try:
            verification = batch.log.producers.begin_verification(
                producer_id, epoch, sequence, now_ms, has_epoch_per_transaction=version >= TransactionVersion.TV_2
            )
        except BrokerError as error:
            batch.refuse(error)
            continue
        if verification is None or verifier is None:
            batch.append(verification)
        else:
            asked.append((batch, verification))
    if verifier is None or not asked:
        return

    def answered(refused: Mapping[Partition, BrokerError]) -> None:
        for batch, verification in asked:
            error = refused.get(batch.partition)
            if error is None:
                batch.append(verification)
            else:
                batch.refuse(_told(error, version))

    first = asked[0][0].header
    partitions = list(dict.fromkeys(batch.partition for batch, _ in asked))
    verifier.ensure_partitions(
        transactional_id, first.producer_id, first.producer_epoch, partitions, version, answered, now_ms
    )


def _told(error: BrokerError, version: TransactionVersion) -> BrokerError:
    """Return the error to send to a client for a coordinator's error."""
    if error.code == ErrorCode.INVALID_TXN_STATE:
        return BrokerError(error.code, "the partition is not in the transaction")
    if error.code == ErrorCode.CONCURRENT_TRANSACTIONS and version >= TransactionVersion.TV_2:
        return error  # these clients expect that their last transaction may still be ending
    if error.code in _PASSING:
        reason = f"the transaction coordinator cannot verify that the partition is in the transaction: {error}"
        return BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, reason)
    return error
