"""The runtime's interfaces: a coordinator's state machine (the shard), and its log.

A shard is the state of one partition of `__consumer_offsets` or `__transaction_state`. An operation on it returns a
`Result`: records to append, and a reply that is sent once the high watermark has passed the records. Replaying the
records restores the state.

Source: `CoordinatorShard`, `CoordinatorResult`, `CoordinatorPlayback`, `PartitionWriter` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from kafkawire.reference_broker.storage.producers.producers import Marker, Verification
from kafkawire.reference_broker.work.timers import Timer
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.schema import Buffer, Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = [
    "CoordinatorLog",
    "CoordinatorRecord",
    "Done",
    "InTransaction",
    "KeyValue",
    "LastMarker",
    "Operation",
    "Result",
    "Shard",
    "ShardTimers",
    "coordinator_error",
]

R = TypeVar("R")
S_contra = TypeVar("S_contra", contravariant=True)

#: Receives the outcome of an operation, once.
Done = Callable[[R | BrokerError], None]

#: The stored key and value of a record; a tombstone has the value None.
KeyValue = tuple[bytes, bytes | None]

#: The coordinator errors that clients get in place of the log's errors, which clients would not expect.
_AS_COORDINATOR = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class CoordinatorRecord(NamedTuple):
    """A coordinator's record.

    Attributes:
        key: the record's key, whose class determines the record type.
        value: None for a tombstone.
        value_version: the version of the encoded value.
        is_held: whether the shard already reflects the record, or applies it in `Result.committed`; any other record is
            replayed once it is in the log.
    """

    key: Message
    value: Message | None
    value_version: int = 0
    is_held: bool = False


class InTransaction(NamedTuple):
    """The transaction to which records belong; they take effect once a marker commits them.

    Attributes:
        producer_id: id of the producer.
        epoch: epoch of the producer.
        verification: permits the producer to begin a transaction in this log (see `Producers.begin_verification`).
    """

    producer_id: int
    epoch: int
    verification: Verification | None


class LastMarker(NamedTuple):
    """The marker that ends a transaction in this log.

    Attributes:
        marker: the marker.
        transaction_version: the version that the coordinator uses (see `Producers.check_marker`).
    """

    marker: Marker
    transaction_version: int


class Result(NamedTuple, Generic[R]):
    """The result of an operation on a shard.

    Attributes:
        reply: sent once the records, and all records before them, are below the high watermark.
        records: appended in one batch: either all of them or none.
        committed: called with None when the reply can be sent, or with the error that prevents it; if it raises a
            `BrokerError`, that becomes the reply.
        transaction: the transaction to which the records belong, if any.
        marker: appended instead of records.
    """

    reply: R
    records: Sequence[CoordinatorRecord] = ()
    committed: Callable[[BrokerError | None], None] | None = None
    transaction: InTransaction | None = None
    marker: LastMarker | None = None


class Operation(Protocol[S_contra, R]):
    """An operation on a shard.

    Raises:
        BrokerError: the reply; nothing is appended.
    """

    def __call__(self, shard: S_contra, /) -> Result[R]: ...


class Shard(Protocol):
    """The state of one partition; it is never called while one of its appends is unfinished."""

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        """Decode a record; return None for an unknown type.

        Raises:
            DecodeError: the record is damaged.
        """

    def replay(self, record: CoordinatorRecord, offset: int, producer_id: int) -> None:
        """Apply a record from the log.

        Args:
            record: the record.
            offset: its offset, or the end of its batch.
            producer_id: the producer of the open transaction to which the record belongs, or `NO_PRODUCER_ID`.
        """

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """Apply a transaction marker from the log."""

    def loaded(self, now_ms: int) -> None:
        """Start timers; called when the log has been replayed."""

    def unloaded(self) -> None:
        """Answer all operations waiting inside the shard with NOT_COORDINATOR, and cancel its timers."""

    def fire(self, action: Callable[[int], None], now_ms: int) -> Result[None]:
        """Run the action of a due timer."""
        ...


class ShardTimers(Protocol):
    """The timers of a shard: an action runs as an operation on the shard, if the shard is still being served."""

    @property
    def jumped_ms(self) -> int:
        """See `Timers`."""
        ...

    def at(self, deadline_ms: int, action: Callable[[int], None]) -> Timer:
        """Call `action(now_ms)` once the deadline has passed."""
        ...

    def in_turn(self, now_ms: int, action: Callable[[int], None]) -> Timer:
        """Call `action(now_ms)` when its turn comes; see `Timers.in_turn`."""
        ...


class CoordinatorLog(Protocol):
    """The log interface of the runtime."""

    @property
    def start_offset(self) -> int:
        """The first offset."""
        ...

    @property
    def next_offset(self) -> int:
        """The offset of the next record."""
        ...

    @property
    def high_watermark(self) -> int:
        """Records before this offset are committed."""
        ...

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch that requests may write: the topic's `max.message.bytes`."""
        ...

    def append(
        self,
        records: Sequence[KeyValue],
        now_ms: int,
        done: Callable[[int | BrokerError], None],
        transaction: InTransaction | None = None,
    ) -> None:
        """Append a batch; `done` receives the next offset or the error, once, usually before this returns."""

    def append_marker(self, marker: LastMarker, now_ms: int, done: Callable[[int | BrokerError], None]) -> None:
        """Append a marker; see `append`."""

    def when_reached(self, offset: int, reached: Callable[[BrokerError | None], None]) -> None:
        """Call back once when the high watermark has reached an offset, or with the error that prevents it."""

    def read(self, offset: int, max_bytes: int) -> Buffer:
        """Return the batches starting at an offset, at least one if there are any; the last one may be truncated.

        Raises:
            BrokerError: the batches cannot be read.
        """
        ...


def coordinator_error(error: BrokerError) -> BrokerError:
    """Return the error that clients get for an error from the log."""
    code = _AS_COORDINATOR.get(error.code)
    return error if code is None else BrokerError(code, error.detail)
