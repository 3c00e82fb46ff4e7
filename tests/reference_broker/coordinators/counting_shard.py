"""A shard that adds up numbers by name and a log in memory, for the tests of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkawire.reference_broker.coordinators.records import decode, types_by_key
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord, KeyValue, Reading, Result, ShardTimers
from kafkawire.reference_broker.timers import Timer
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["CountingShard", "MemoryLog", "record"]

_TYPES = types_by_key((OffsetCommitKey, OffsetCommitValue))


def record(name: str, number: int | None, *, is_held: bool = False) -> CoordinatorRecord:
    """Return a record that sets a name's number, or deletes it."""
    value = None if number is None else OffsetCommitValue(number)
    return CoordinatorRecord(OffsetCommitKey(name), value, OffsetCommitValue.SCHEMA.versions.last, is_held)


class MemoryLog:
    """A log whose records are lists, and whose watermark, appends and failures the test controls.

    Attributes:
        batches: first offset, and records of each batch.
        is_committed: whether appends move the high watermark at once.
        held: appends that wait for the test, None to finish them at once.
        error: of the next appends and reads.
    """

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[KeyValue]]] = []
        self.start_offset = 0
        self.next_offset = 0
        self.high_watermark = 0
        self.is_committed = True
        self.held: list[Callable[[], None]] | None = None
        self.error: BrokerError | None = None
        self._watchers: list[tuple[int, Callable[[BrokerError | None], None]]] = []

    def append(self, records: Sequence[KeyValue], now_ms: int, done: Callable[[int | BrokerError], None]) -> None:
        def finish() -> None:
            if self.error is not None:
                done(self.error)
                return
            self.batches.append((self.next_offset, list(records)))
            self.next_offset += len(records)
            if self.is_committed:
                self.commit(self.next_offset)
            done(self.next_offset)

        if self.held is None:
            finish()
        else:
            self.held.append(finish)

    def release(self) -> None:
        """Finish the oldest append that is held."""
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
        self.error = error
        watchers, self._watchers = self._watchers, []
        for _, reached in watchers:
            reached(error)

    def when_reached(self, offset: int, reached: Callable[[BrokerError | None], None]) -> None:
        self._watchers.append((offset, reached))

    def read(self, offset: int, max_bytes: int) -> Reading:
        if self.error is not None:
            raise self.error
        first, records = next(batch for batch in self.batches if batch[0] + len(batch[1]) > offset)
        return Reading(records, first + len(records))


class CountingShard:
    """Numbers by name.

    Attributes:
        numbers: what the records say.
        replayed: how many records were replayed.
        set: the timer that was set last.
        calls: `loaded` and `unloaded`, in order.
    """

    def __init__(self, timers: ShardTimers) -> None:
        self.timers = timers
        self.numbers: dict[str, int] = {}
        self.replayed = 0
        self.set = Timer(0, lambda now_ms: None)
        self.calls: list[str] = []
        self.due: list[CoordinatorRecord] = []

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        return decode(_TYPES, key, value)

    def replay(self, record: CoordinatorRecord) -> None:
        assert isinstance(record.key, OffsetCommitKey)
        self.replayed += 1
        if record.value is None:
            self.numbers.pop(record.key.group, None)
        else:
            assert isinstance(record.value, OffsetCommitValue)
            self.numbers[record.key.group] = record.value.offset

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

    def add_later(self, name: str, number: int, deadline_ms: int) -> Result[None]:
        """Set a number when the time has come."""
        self.set = self.timers.at(deadline_ms, lambda _: self.due.append(record(name, number)))
        return Result(None)
