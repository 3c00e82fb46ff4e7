"""Loading a shard whose records build on one another: every record is replayed, in order, in slices.

The records of a share coordinator are snapshots and updates of them; an update does not replace the one before it, so
`Loading`, which keeps only the last record for each key, does not suit them. Such a log has no transactions.

Source: `CoordinatorLoaderImpl` in Apache Kafka.
"""

from __future__ import annotations

from kafkawire.reference_broker.coordinators.loading import SLICE_BYTES, SLICE_RECORDS
from kafkawire.reference_broker.coordinators.shard import CoordinatorLog, Shard
from kafkawire.sdk.errors import PartialBatch
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_ID
from kafkawire.sdk.records import Batch, walk

__all__ = ["LoadingInOrder"]


class LoadingInOrder:
    """The loading of one shard; see `ShardLoading`.

    Args:
        log: the log, read up to its current end.
        shard: receives the records.
    """

    def __init__(self, log: CoordinatorLog, shard: Shard) -> None:
        self._log = log
        self._shard = shard
        self._position = log.start_offset
        self.is_done = self._position >= log.next_offset

    def step(self) -> None:
        data = memoryview(self._log.read(self._position, SLICE_BYTES))
        if not data:
            self._position = self._log.next_offset
        taken = 0
        batches = walk(data)
        while taken < SLICE_RECORDS:
            try:
                batch = next(batches, None)
            except PartialBatch:
                break  # the next read begins at the truncated batch
            if batch is None:
                break
            taken += self._replay(batch)
            self._position = batch.next_offset
        self.is_done = self._position >= self._log.next_offset

    def _replay(self, batch: Batch) -> int:
        """Replay the records of a batch; return how many it has."""
        count = 0
        for record in batch.records():
            count += 1
            if record.key is None or batch.is_control:
                continue
            value = None if record.value is None else bytes(record.value)
            decoded = self._shard.decode(bytes(record.key), value)
            if decoded is not None:
                self._shard.replay(decoded, record.offset, NO_PRODUCER_ID)
        return count
