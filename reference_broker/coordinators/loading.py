"""Loading a shard from its log, in slices of about 5 ms, so that other requests are not held up for long.

First the log is read and the last record of each key kept, in order, as compaction would; then those are replayed.
Ten million commits of a few partitions are never decoded, and a log that is rarely compacted loads as fast as it can
be read. What belongs to a transaction counts from where it is written, but only once a marker commits it; what is still
open is replayed as such.

Source: `CoordinatorLoaderImpl` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkawire.reference_broker.coordinators.shard import CoordinatorLog, KeyValue, Shard
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_ID

__all__ = ["Loading"]

#: A record's offset, or that of the end of its batch, and its value.
_Stored = tuple[int, bytes | None]

#: Read at once: 128 KiB are about 2,500 commits, 5 ms on a busy machine.
_SLICE_BYTES = 128 * 1024

#: Replayed at once: about 5 ms.
_SLICE_RECORDS = 1_000


class Loading:
    """The load of one shard.

    Args:
        log: read up to its end, wherever that is by then.
        shard: gets the records.

    Attributes:
        is_done: whether the shard has everything.
    """

    def __init__(self, log: CoordinatorLog, shard: Shard) -> None:
        self._log = log
        self._shard = shard
        self._position = log.start_offset
        self._latest: dict[bytes, _Stored] = {}
        #: Of open transactions, by producer id.
        self._pending: dict[int, dict[bytes, _Stored]] = {}
        self._replaying: Iterator[tuple[int, bytes, _Stored]] | None = None
        self.is_done = self._position >= log.next_offset

    def step(self) -> None:
        """Do one slice.

        Raises:
            BrokerError, DecodeError: the log cannot be read, or holds a damaged record.
        """
        if self._position < self._log.next_offset:
            self._read()
        elif self._replaying is None:
            self._replaying = self._found()
        else:
            self._replay(self._replaying)

    def _read(self) -> None:
        batches, next_offset = self._log.read(self._position, _SLICE_BYTES)
        latest = self._latest
        for records, offset, producer_id, is_commit in batches:
            if is_commit is not None:
                self._end(producer_id, is_commit)
                continue
            if producer_id != NO_PRODUCER_ID:
                target = self._pending.setdefault(producer_id, {})
            else:
                target = latest
                if self._pending:
                    self._forget(records)
            for key, value in records:
                # Order counts: what was written last must be replayed last.
                target.pop(key, None)
                target[key] = offset, value
        self._position = max(next_offset, self._position + 1)

    def _end(self, producer_id: int, is_commit: bool) -> None:
        for key, stored in self._pending.pop(producer_id, {}).items():
            if is_commit and not self._is_after(key, stored):
                self._latest.pop(key, None)
                self._latest[key] = stored

    def _forget(self, records: Sequence[KeyValue]) -> None:
        """Forget what open transactions have written for deleted keys."""
        for key, value in records:
            if value is None:
                for pending in self._pending.values():
                    pending.pop(key, None)

    def _is_after(self, key: bytes, stored: _Stored) -> bool:
        """Return whether something later than `stored` counts for its key."""
        return key in self._latest and self._latest[key][0] > stored[0]

    def _found(self) -> Iterator[tuple[int, bytes, _Stored]]:
        """Yield everything to replay."""
        for key, stored in self._latest.items():
            yield NO_PRODUCER_ID, key, stored
        for producer_id, pending in self._pending.items():
            for key, stored in pending.items():
                yield producer_id, key, stored
                if self._is_after(key, stored):
                    yield NO_PRODUCER_ID, key, self._latest[key]

    def _replay(self, found: Iterator[tuple[int, bytes, _Stored]]) -> None:
        for _ in range(_SLICE_RECORDS):
            step = next(found, None)
            if step is None:
                self.is_done = True
                return
            producer_id, key, (offset, value) = step
            record = self._shard.decode(key, value)
            if record is not None:
                self._shard.replay(record, offset, producer_id)
