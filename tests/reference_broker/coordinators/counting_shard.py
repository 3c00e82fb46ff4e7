"""A shard that adds up named numbers, and an in-memory log, for testing the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafkawire.reference_broker.coordinators.records import decode, types_by_key
from kafkawire.reference_broker.coordinators.shard import (
    CoordinatorRecord,
    InTransaction,
    KeyValue,
    LastMarker,
    Result,
    ShardTimers,
)
from kafkawire.reference_broker.storage.batches import build_batch
from kafkawire.reference_broker.storage.producers.markers import build_marker
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.reference_broker.work.timers import Timer
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.enums import TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import stamp

__all__ = ["CountingShard", "MemoryLog", "record"]

_TYPES = types_by_key((OffsetCommitKey, OffsetCommitValue))


def record(name: str, number: int | None, *, is_held: bool = False) -> CoordinatorRecord:
    """Return a record that sets the number of a name, or deletes it."""
    value = None if number is None else OffsetCommitValue(number)
    return CoordinatorRecord(OffsetCommitKey(name), value, OffsetCommitValue.SCHEMA.versions.last, is_held)


class StoredBatch(NamedTuple):
    """A batch in the log.

    Attributes:
        base_offset: the offset of the first record.
        records: keys and values.
        transaction: the transaction of the records, if any.
        marker: the marker, if the batch is one; such a batch has no records.
    """

    base_offset: int
    records: Sequence[KeyValue] = ()
    transaction: InTransaction | None = None
    marker: Marker | None = None

    @property
    def next_offset(self) -> int:
        """The offset after the batch; a marker takes up one offset."""
        return self.base_offset + max(len(self.records), 1)

    def data(self) -> Buffer:
        """Return the batch as bytes."""
        producer = None if self.transaction is None else (self.transaction.producer_id, self.transaction.epoch)
        data, _ = build_marker(self.marker, 0) if self.marker else build_batch(self.records, 0, producer)
        stamp(data, self.base_offset, 0)
        return data


class MemoryLog:
    """A log that keeps records as lists until they are read; the test controls its watermark, appends and failures.

    Attributes:
        batches: the batches in the log.
        max_batch_bytes: the maximum size of a batch that a request writes.
        is_committed: whether an append immediately moves the high watermark.
        held: appends that wait for the test; None if appends finish immediately.
        error: the error for the next appends and reads; None if they succeed.
    """

    def __init__(self) -> None:
        self.batches: list[StoredBatch] = []
        self.max_batch_bytes = 2**20
        self.start_offset = 0
        self.next_offset = 0
        self.high_watermark = 0
        self.is_committed = True
        self.held: list[Callable[[], None]] | None = None
        self.error: BrokerError | None = None
        self._failure: BrokerError | None = None
        self._watchers: list[tuple[int, Callable[[BrokerError | None], None]]] = []

    def append(
        self,
        records: Sequence[KeyValue],
        now_ms: int,
        done: Callable[[int | BrokerError], None],
        transaction: InTransaction | None = None,
    ) -> None:
        self._append(StoredBatch(0, list(records), transaction), done)

    def append_marker(self, marker: LastMarker, now_ms: int, done: Callable[[int | BrokerError], None]) -> None:
        self._append(StoredBatch(0, marker=marker.marker), done)

    def _append(self, batch: StoredBatch, done: Callable[[int | BrokerError], None]) -> None:
        def finish() -> None:
            if self.error is not None:
                done(self.error)
                return
            self.batches.append(batch._replace(base_offset=self.next_offset))
            self.next_offset = self.batches[-1].next_offset
            if self.is_committed:
                self.commit(self.next_offset)
            done(self.next_offset)

        if self.held is None:
            finish()
        else:
            self.held.append(finish)

    def release(self) -> None:
        """Finish the oldest append that is held back."""
        assert self.held
        self.held.pop(0)()

    def commit(self, offset: int) -> None:
        """Move the high watermark."""
        self.high_watermark = offset
        due = [reached for wanted, reached in self._watchers if wanted <= offset]
        self._watchers = [entry for entry in self._watchers if entry[0] > offset]
        for reached in due:
            reached(None)

    def fail(self, error: BrokerError) -> None:
        """Take the log offline."""
        self.error = self._failure = error
        watchers, self._watchers = self._watchers, []
        for _, reached in watchers:
            reached(error)

    def when_reached(self, offset: int, reached: Callable[[BrokerError | None], None]) -> None:
        if self._failure is not None:
            reached(self._failure)
        else:
            self._watchers.append((offset, reached))

    def read(self, offset: int, max_bytes: int) -> Buffer:
        if self.error is not None:
            raise self.error
        return next((batch.data() for batch in self.batches if batch.next_offset > offset), b"")


class CountingShard:
    """Numbers, keyed by name.

    Attributes:
        numbers: the current number of each name.
        replayed: the number of replayed records.
        places: the name, offset and producer id of each replayed record.
        ended: the ended transactions, each with whether it was committed.
        set: the timer that was set last.
        calls: `loaded` and `unloaded`, in order.
    """

    def __init__(self, timers: ShardTimers) -> None:
        self.timers = timers
        self.numbers: dict[str, int] = {}
        self.replayed = 0
        self.places: list[tuple[str, int, int]] = []
        self.ended: list[tuple[int, bool]] = []
        self.set = Timer(0, lambda now_ms: None)
        self.calls: list[str] = []
        self.due: list[CoordinatorRecord] = []

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        return decode(_TYPES, key, value)

    def replay(self, record: CoordinatorRecord, offset: int, producer_id: int) -> None:
        assert isinstance(record.key, OffsetCommitKey)
        self.replayed += 1
        self.places.append((record.key.group, offset, producer_id))
        if record.value is None:
            self.numbers.pop(record.key.group, None)
        else:
            assert isinstance(record.value, OffsetCommitValue)
            self.numbers[record.key.group] = record.value.offset

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        self.ended.append((producer_id, is_commit))

    def loaded(self, now_ms: int) -> None:
        self.calls.append("loaded")

    def unloaded(self) -> None:
        self.calls.append("unloaded")

    def fire(self, action: Callable[[int], None], now_ms: int) -> Result[None]:
        action(now_ms)
        records, self.due = self.due, []
        return Result(None, records)

    # Operations.

    def add(self, name: str, number: int) -> Result[int]:
        """Add to a number; the reply is the sum."""
        if number < 0:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{number} is negative")
        total = self.numbers.get(name, 0) + number
        return Result(total, [record(name, total)])

    def get(self, name: str) -> Result[int | None]:
        """Return a number."""
        return Result(self.numbers.get(name))

    def add_in_transaction(self, name: str, number: int, producer_id: int) -> Result[None]:
        """Set a number in a transaction."""
        return Result(None, [record(name, number)], transaction=InTransaction(producer_id, 0, None))

    def end(self, producer_id: int, is_commit: bool) -> Result[None]:
        """End a transaction."""
        return Result(None, marker=LastMarker(Marker(producer_id, 0, is_commit, 0), TransactionVersion.TV_2))

    def add_later(self, name: str, number: int, deadline_ms: int) -> Result[None]:
        """Set a number at the given time."""
        self.set = self.timers.at(deadline_ms, lambda _: self.due.append(record(name, number)))
        return Result(None)
