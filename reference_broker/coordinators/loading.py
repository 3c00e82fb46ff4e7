"""Loading a shard from its log, in slices that hold up other requests for less than 20 ms.

First the log is read and the last record of each key kept, in order, as compaction would; then those are replayed.
Ten million commits of a few partitions are never decoded, and a log that is rarely compacted loads as fast as it can
be read.

Source: `CoordinatorLoaderImpl` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.reference_broker.coordinators.shard import CoordinatorLog, Shard

__all__ = ["Loading"]

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
        self._latest: dict[bytes, bytes | None] = {}
        self._replaying: Iterator[tuple[bytes, bytes | None]] | None = None
        self.is_done = self._position >= log.next_offset

    def step(self) -> None:
        """Do one slice.

        Raises:
            BrokerError, DecodeError: the log cannot be read, or holds a damaged record.
        """
        if self._position < self._log.next_offset:
            self._read()
        elif self._replaying is None:
            self._replaying = iter(self._latest.items())
        else:
            self._replay(self._replaying)

    def _read(self) -> None:
        records, next_offset = self._log.read(self._position, _SLICE_BYTES)
        latest = self._latest
        for key, value in records:
            # Order counts: what was written last must be replayed last.
            latest.pop(key, None)
            latest[key] = value
        self._position = max(next_offset, self._position + 1)

    def _replay(self, records: Iterator[tuple[bytes, bytes | None]]) -> None:
        for _ in range(_SLICE_RECORDS):
            stored = next(records, None)
            if stored is None:
                self.is_done = True
                return
            record = self._shard.decode(*stored)
            if record is not None:
                self._shard.replay(record)
