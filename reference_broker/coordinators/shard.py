"""What a coordinator's state machine is, and what the runtime needs of a log.

A shard is the state of one partition of `__consumer_offsets` or `__transaction_state`. An operation on it returns a
`Result`: records to append and the reply, which leaves once the high watermark has passed the records. State comes
back by replaying the records.

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

#: Takes the outcome of an operation, once.
Done = Callable[[R | BrokerError], None]

#: Key and value of a record as they are stored; the value None deletes.
KeyValue = tuple[bytes, bytes | None]

#: What clients get instead of an error of the log: they know the errors of coordinators only.
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
    """A record of a coordinator.

    Attributes:
        key: its type is the record's type.
        value: None deletes what is stored for the key.
        value_version: the version to write the value in.
        is_held: whether the shard already holds what the record says, or takes it over in `Result.committed`; any other
            record is replayed once it is in the log.
    """

    key: Message
    value: Message | None
    value_version: int = 0
    is_held: bool = False


class InTransaction(NamedTuple):
    """The transaction that records belong to: they count when a marker says so.

    Attributes:
        producer_id: of the producer.
        epoch: likewise.
        verification: what lets it begin a transaction in this log, see `Producers.begin_verification`.
    """

    producer_id: int
    epoch: int
    verification: Verification | None


class LastMarker(NamedTuple):
    """The marker that ends a transaction in this log.

    Attributes:
        marker: the marker.
        transaction_version: the coordinator's, see `Producers.check_marker`.
    """

    marker: Marker
    transaction_version: int


class Result(NamedTuple, Generic[R]):
    """What an operation on a shard gives.

    Attributes:
        reply: sent once the records, and all before them, are below the high watermark.
        records: appended in one batch, all or none.
        committed: called with None when the reply may leave, or with the error that prevents it; a `BrokerError` that
            it raises is the reply.
        transaction: what the records belong to, if it is a transaction.
        marker: appended instead of records.
    """

    reply: R
    records: Sequence[CoordinatorRecord] = ()
    committed: Callable[[BrokerError | None], None] | None = None
    transaction: InTransaction | None = None
    marker: LastMarker | None = None


class Operation(Protocol[S_contra, R]):
    """A step of a shard.

    Raises:
        BrokerError: the reply; nothing is appended.
    """

    def __call__(self, shard: S_contra, /) -> Result[R]: ...


class Shard(Protocol):
    """The state of one partition; never called while one of its appends is unfinished."""

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        """Return a stored record, None for one of an unknown type.

        Raises:
            DecodeError: it is damaged.
        """

    def replay(self, record: CoordinatorRecord, offset: int, producer_id: int) -> None:
        """Take over a record that is in the log.

        Args:
            record: the record.
            offset: where it is, or its batch ends.
            producer_id: whose open transaction it belongs to, `NO_PRODUCER_ID` if to none.
        """

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """Take over a marker that is in the log."""

    def loaded(self, now_ms: int) -> None:
        """Start what runs by itself: the log has been replayed."""

    def unloaded(self) -> None:
        """Answer everything that waits inside the shard with NOT_COORDINATOR and cancel its timers."""

    def fire(self, action: Callable[[int], None], now_ms: int) -> Result[None]:
        """Call the action of a timer that is due."""
        ...


class ShardTimers(Protocol):
    """Where a shard sets its timers: an action runs as an operation of the shard, if that is still served."""

    @property
    def jumped_ms(self) -> int:
        """See `Timers`."""
        ...

    def at(self, deadline_ms: int, action: Callable[[int], None]) -> Timer:
        """Call `action(now_ms)` once the deadline has passed."""
        ...

    def in_turn(self, now_ms: int, action: Callable[[int], None]) -> Timer:
        """Call `action(now_ms)` as soon as it is its turn; see `Timers.in_turn`."""
        ...


class CoordinatorLog(Protocol):
    """A log as the runtime needs it."""

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
    def leader_epoch(self) -> int:
        """The epoch in which this broker leads the partition."""
        ...

    @property
    def max_batch_bytes(self) -> int:
        """The most that requests may have written in one batch: the topic's `max.message.bytes`."""
        ...

    def append(
        self,
        records: Sequence[KeyValue],
        now_ms: int,
        done: Callable[[int | BrokerError], None],
        transaction: InTransaction | None = None,
    ) -> None:
        """Append a batch; `done` gets the offset after it or the error, once, usually before this returns."""

    def append_marker(self, marker: LastMarker, now_ms: int, done: Callable[[int | BrokerError], None]) -> None:
        """Append a marker; see `append`."""

    def when_reached(self, offset: int, reached: Callable[[BrokerError | None], None]) -> None:
        """Call once when the high watermark has reached an offset, or with the error that prevents it."""

    def read(self, offset: int, max_bytes: int) -> Buffer:
        """Return the batches from an offset on: at least one, if there is one; the last may be cut.

        Raises:
            BrokerError: they cannot be read.
        """
        ...


def coordinator_error(error: BrokerError) -> BrokerError:
    """Return the error that clients get for an error of the log."""
    code = _AS_COORDINATOR.get(error.code)
    return error if code is None else BrokerError(code, error.detail)
