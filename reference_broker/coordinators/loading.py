"""Loading a shard from its log, in slices of a few milliseconds, so that other requests are not held up for long.

First the log is read, keeping only the last record for each key, in order, as compaction would; then the kept records
are replayed. So ten million commits for a few partitions are not all decoded, and a rarely compacted log loads as fast
as it can be read. Records in a transaction keep the position at which they were written, but take effect only once a
marker commits them; records in open transactions are replayed as pending.

Source: `CoordinatorLoaderImpl` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from kafkawire.reference_broker.coordinators.shard import CoordinatorLog, Shard
from kafkawire.sdk.errors import DecodeError, PartialBatch
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_ID, ControlRecordType
from kafkawire.sdk.records import Batch, walk
from kafkawire.sdk.records.control import control_record
from kafkawire.sdk.records.engines import selection as engines
from kafkawire.sdk.records.latest import LatestRecords, Stored

__all__ = ["SLICE_BYTES", "SLICE_RECORDS", "Loading", "NewLoading", "ShardLoading"]

#: Bytes to read at once: 2 MiB are about 35,000 commits, which take 2 ms with the extension; 128 KiB take 5 ms in pure
#: Python.
SLICE_BYTES = (128 if engines.native is None else 2048) * 1024

#: Records to replay, or to read individually, at once: about 5 ms.
SLICE_RECORDS = 1_000


class ShardLoading(Protocol):
    """The loading of one shard, in steps.

    Attributes:
        is_done: whether the shard is complete.
    """

    is_done: bool

    def step(self) -> None:
        """Run one slice.

        Raises:
            BrokerError, DecodeError: the log cannot be read, or contains a damaged record.
        """


#: Begins to load a shard from its log.
NewLoading = Callable[[CoordinatorLog, Any], ShardLoading]


class Loading:
    """The loading of one shard.

    Args:
        log: the log, read up to its current end.
        shard: receives the records.

    Attributes:
        is_done: whether the shard is complete.
    """

    def __init__(self, log: CoordinatorLog, shard: Shard) -> None:
        self._log = log
        self._shard = shard
        self._position = log.start_offset
        self._latest = LatestRecords()
        #: Records in open transactions, keyed by producer id.
        self._pending: dict[int, dict[bytes, Stored]] = {}
        #: For each key, the producers whose open transactions have written it.
        self._writers: dict[bytes, set[int]] = {}
        self._replaying: Iterator[tuple[int, bytes, Stored]] | None = None
        self.is_done = self._position >= log.next_offset

    def step(self) -> None:
        """Run one slice.

        Raises:
            BrokerError, DecodeError: the log cannot be read, or contains a damaged record.
        """
        if self._position < self._log.next_offset:
            self._read()
        elif self._replaying is None:
            self._replaying = self._found()
        else:
            self._replay(self._replaying)

    def _read(self) -> None:
        data = memoryview(self._log.read(self._position, SLICE_BYTES))
        if not data:
            self._position = self._log.next_offset
        at = taken = 0
        while at < len(data) and taken < SLICE_RECORDS:
            deleted: list[bytes] | None = [] if self._pending else None
            at = self._latest.add(data, at, deleted)
            self._position = max(self._position, self._latest.end_offset)
            self._forget(deleted or ())
            if at < len(data):
                try:
                    batch = next(walk(data[at:]))
                except PartialBatch:
                    return  # the next read begins at the truncated batch
                taken += self._take(batch)
                self._position = batch.next_offset
                at += batch.size_in_bytes
            if self._position > self._log.next_offset:
                # Otherwise, records appended later would be skipped, and the records in this batch would stay in effect
                # forever.
                end_offset = self._log.next_offset
                raise DecodeError(
                    "base_offset", at, f"a batch ends before offset {self._position}, but the log ends at {end_offset}"
                )

    def _take(self, batch: Batch) -> int:
        """Process a marker, a transactional batch or a compressed batch; return the number of records."""
        if batch.is_control:
            self._take_marker(batch)
            return 1
        offset = batch.last_offset
        pending = self._pending.setdefault(batch.producer_id, {}) if batch.is_transactional else None
        count = 0
        for record in batch.records():
            count += 1
            if record.key is None:
                continue
            key = bytes(record.key)
            value = None if record.value is None else bytes(record.value)
            if pending is None:
                self._latest.put(key, offset, value)
                if value is None:
                    self._forget((key,))
            else:
                # Order matters: the record that was written last must be replayed last.
                pending.pop(key, None)
                pending[key] = offset, value
                self._writers.setdefault(key, set()).add(batch.producer_id)
        return count

    def _take_marker(self, batch: Batch) -> None:
        for record in batch.records():
            kind = control_record(record).key.type
            if kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
                self._end(batch.producer_id, kind == ControlRecordType.COMMIT)
                return

    def _end(self, producer_id: int, is_commit: bool) -> None:
        for key, stored in self._pending.pop(producer_id, {}).items():
            self._written_no_more(key, producer_id)
            if is_commit and self._later_than(key, stored) is None:
                self._latest.put(key, *stored)

    def _forget(self, keys: Iterable[bytes]) -> None:
        """Drop deleted keys' records in open transactions."""
        for key in keys:
            for producer_id in self._writers.pop(key, ()):
                del self._pending[producer_id][key]

    def _written_no_more(self, key: bytes, producer_id: int) -> None:
        writers = self._writers[key]
        writers.remove(producer_id)
        if not writers:
            del self._writers[key]

    def _later_than(self, key: bytes, stored: Stored) -> Stored | None:
        """Return the current record for a key if it is later than `stored`."""
        latest = self._latest.get(key)
        return latest if latest is not None and latest[0] > stored[0] else None

    def _found(self) -> Iterator[tuple[int, bytes, Stored]]:
        """Yield all records to replay."""
        for key, stored in self._latest:
            yield NO_PRODUCER_ID, key, stored
        for producer_id, pending in self._pending.items():
            for key, stored in pending.items():
                yield producer_id, key, stored
                later = self._later_than(key, stored)
                if later is not None:
                    yield NO_PRODUCER_ID, key, later

    def _replay(self, found: Iterator[tuple[int, bytes, Stored]]) -> None:
        for _ in range(SLICE_RECORDS):
            step = next(found, None)
            if step is None:
                self.is_done = True
                return
            producer_id, key, (offset, value) = step
            record = self._shard.decode(key, value)
            if record is not None:
                self._shard.replay(record, offset, producer_id)
