"""Plain values about transactions and producers that an admin returns."""

from typing import NamedTuple

from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["ActiveProducer", "FencedProducer", "HangingTransaction", "TransactionDescription", "TransactionListing"]


class TransactionListing(NamedTuple):
    """A transactional id as returned by `list_transactions`.

    Attributes:
        transactional_id: the id.
        producer_id: the id of its producer.
        state: `Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`, `CompleteCommit`, `CompleteAbort`,
            `PrepareEpochFence` or `Dead`.
        coordinator_id: the node id of its coordinator.
    """

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


class TransactionDescription(NamedTuple):
    """The state of a transactional id.

    Attributes:
        transactional_id: the id.
        coordinator_id: the node id of its coordinator.
        state: as in `TransactionListing`.
        producer_id: the id of its producer.
        producer_epoch: the epoch of its producer.
        timeout_ms: the time after which the coordinator aborts a transaction.
        start_ms: when the open transaction began, milliseconds since the epoch; None if none is open.
        partitions: the partitions in the transaction; while it is being completed, only those that still lack a marker.
    """

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


class ActiveProducer(NamedTuple):
    """A producer of which a partition's log has state.

    Attributes:
        producer_id: its id.
        producer_epoch: its epoch.
        last_sequence: the sequence number of its last record; -1 if there is none.
        last_timestamp_ms: the timestamp of its last batch, milliseconds since the epoch; -1 if there is none.
        coordinator_epoch: the epoch of the coordinator that ended its last transaction; None if it has ended none.
        transaction_start_offset: the first offset of its open transaction; None if none is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class FencedProducer(NamedTuple):
    """The identity that a transactional id has after its producers were fenced.

    Attributes:
        producer_id: the producer id.
        producer_epoch: the epoch; producers with an earlier one can no longer write.
    """

    producer_id: int
    producer_epoch: int


class HangingTransaction(NamedTuple):
    """A transaction that is open in a partition, but unknown to its coordinator, so that nothing would ever end it.

    Attributes:
        partition: the partition.
        producer: the producer that wrote it.
    """

    partition: TopicPartition
    producer: ActiveProducer
