"""A scripted workload of retention, DeleteRecords and compaction, and a check of the data after a failure.

Every topic syncs each batch, so acknowledged records must survive unless upkeep may have removed them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkawire.reference_broker.storage.disk.disk import Disk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.sdk.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.storage.compacting import entries_of
from tests.reference_broker.storage.produced_batches import produced

__all__ = ["UpkeepWorkload"]

#: A configuration that rolls after every second batch, and syncs each batch.
_SMALL: dict[str, Any] = {"index_interval_bytes": "0", "segment_index_bytes": "24", "flush_messages": "1"}

_TOPICS: dict[str, dict[str, Any]] = {
    "aged": {**_SMALL, "retention_ms": "1000", "file_delete_delay_ms": "100"},
    "cut": {**_SMALL, "file_delete_delay_ms": "100"},
    "compacted": {**_SMALL, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.1"},
}
_OPTIONS = {"log_retention_check_interval_ms": 15_000, "log_cleaner_backoff_ms": 15_000}
_KEYS = 3

#: A function that runs some of the background work, or all of it.
Settle = Callable[[bool], None]


class UpkeepWorkload:
    """The requests to a broker, and its answers.

    Attributes:
        sent: the key and value of each record sent to each topic.
        acknowledged: the acknowledged records of each topic, keyed by offset.
        refused: the refused values.
        deleted_to: the offset up to which deletions were acknowledged.
        asked_to: the offset up to which deletions were requested.
    """

    def __init__(self) -> None:
        self.sent: dict[str, list[tuple[bytes, bytes]]] = {name: [] for name in _TOPICS}
        self.acknowledged: dict[str, dict[int, tuple[bytes, bytes]]] = {name: {} for name in _TOPICS}
        self.refused: set[bytes] = set()
        self.deleted_to = self.asked_to = 0

    @staticmethod
    def bench(disk: Disk, *arguments: Any) -> BrokerBench:
        """Return a broker whose upkeep runs every 15 seconds."""
        return BrokerBench(disk, *arguments, **_OPTIONS)

    @staticmethod
    def prepare(disk: Disk) -> None:
        """Create the topics."""
        bench = UpkeepWorkload.bench(disk)
        for name, configs in _TOPICS.items():
            bench.create(name, **configs)
        bench.core.close()

    # The script.

    def run(self, bench: BrokerBench, settle: Settle = lambda is_all: None) -> None:
        """Produce, delete records, and let time pass for upkeep, with restarts in between."""
        for number in range(6):
            self._produce_all(bench, number)
            settle(False)
        self._delete_records(bench, 3)
        settle(False)
        self._pass(bench, 15_000, settle)
        for number in range(6, 10):
            self._produce_all(bench, number)
            settle(False)
        self._delete_records(bench, 7)
        self._pass(bench, 15_000, settle)
        self._pass(bench, 100, settle)
        settle(True)
        self._restart(bench)
        for number in range(10, 14):
            self._produce_all(bench, number)
            settle(False)
        self._pass(bench, 15_000, settle)
        self._pass(bench, 15_000, settle)
        settle(True)

    def _pass(self, bench: BrokerBench, milliseconds: int, settle: Settle) -> None:
        bench.advance(milliseconds)
        for _ in range(5):
            settle(False)

    def _restart(self, bench: BrokerBench) -> None:
        try:
            bench.restart()
        except OSError:
            bench.restart_again()

    def _produce_all(self, bench: BrokerBench, number: int) -> None:
        for name in _TOPICS:
            key, value = b"k%d" % (number % _KEYS), b"%d" % number
            self.sent[name].append((key, value))
            data = ProduceRequest.TopicProduceData(name)
            batch = produced(value, key=key, timestamps=(bench.now_ms,))
            data.partition_data = [ProduceRequest.PartitionProduceData(0, batch)]

            def answered(response: ProduceResponse, name: str = name, key: bytes = key, value: bytes = value) -> None:
                (partition,) = response.responses[0].partition_responses
                if partition.error_code:
                    self.refused.add(value)
                else:
                    self.acknowledged[name][partition.base_offset] = key, value

            bench.ask_then(ProduceRequest(None, -1, 1000, [data]), 9, answered)

    def _delete_records(self, bench: BrokerBench, offset: int) -> None:
        partition = DeleteRecordsRequest.DeleteRecordsPartition(0, offset)
        topic = DeleteRecordsRequest.DeleteRecordsTopic("cut", [partition])
        self.asked_to = max(self.asked_to, offset)

        def answered(response: DeleteRecordsResponse) -> None:
            (result,) = response.topics[0].partitions
            if not result.error_code:
                self.deleted_to = max(self.deleted_to, result.low_watermark)

        bench.ask_then(DeleteRecordsRequest([topic], 1000), None, answered)

    # The check.

    def check(self, disk: Disk, *, may_keep_refused: bool = False) -> tuple[int, ...]:
        """Start a broker on the remaining files, check it, and return the number of records in each topic."""
        bench = self.bench(disk)
        counts = []
        for name in _TOPICS:
            log = bench.core.directory.log(name, 0)
            assert log is not None, f"{name} is gone"
            assert log.error is None, f"{name}: {log.error}"
            counts.append(self._check_log(name, log, may_keep_refused=may_keep_refused))
            leftovers = (".deleted", ".cleaned", ".swap")
            assert not [entry for entry in disk.names(log.folder) if entry.endswith(leftovers)]
        # The broker works, and the next run of upkeep finds nothing wrong.
        bench.advance(30_000)
        for name in _TOPICS:
            log = bench.core.directory.log(name, 0)
            assert log is not None
            assert log.error is None
            assert not bench.produce(produced(b"again"), name).error_code
        bench.core.directory.abandon()
        return tuple(counts)

    def _check_log(self, name: str, log: PartitionLog, *, may_keep_refused: bool) -> int:
        present = {offset: (key, value) for offset, key, value in entries_of(log)}
        acknowledged, start = self.acknowledged[name], log.log_start_offset
        for offset, entry in present.items():
            assert acknowledged.get(offset, entry) == entry, f"{name}: the record at offset {offset} is different"
            assert entry in self.sent[name], f"{name}: {entry} was not sent"
            assert may_keep_refused or offset in acknowledged or entry[1] not in self.refused, (
                f"{name}: a refused record is present"
            )
        readable = {offset: entry for offset, entry in present.items() if offset >= start}
        if name == "compacted":
            assert start == 0
            latest = {key: offset for offset, (key, _) in acknowledged.items()}
            for key, offset in latest.items():
                later = [at for at, entry in present.items() if entry[0] == key and at > offset]
                assert offset in present or later, f"{name}: the latest record for key {key!r} is gone"
            return len(present)
        if name == "cut":
            assert self.deleted_to <= start <= self.asked_to, f"{name} begins at offset {start}"
        gone = [offset for offset in acknowledged if offset >= start and offset not in readable]
        assert not gone, f"{name}: {gone} are gone, but the log begins at {start}"
        return len(readable)
