"""A partition's log as a coordinator's: batches of its own records, written and read.

Source: `CoordinatorPartitionWriter`, `CoordinatorLoaderImpl` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkawire.reference_broker.coordinators.shard import KeyValue, Reading
from kafkawire.reference_broker.log.batches import build_batch
from kafkawire.reference_broker.log.partition_log import Appended, PartitionLog
from kafkawire.sdk.errors import BrokerError, PartialBatch
from kafkawire.sdk.records import walk

__all__ = ["TopicLog"]


class TopicLog:
    """The log of one partition of a coordinator's topic; see `CoordinatorLog`.

    Args:
        log: where the records are.
    """

    def __init__(self, log: PartitionLog) -> None:
        self._log = log

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def next_offset(self) -> int:
        return self._log.next_offset

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    def append(self, records: Sequence[KeyValue], now_ms: int, done: Callable[[int | BrokerError], None]) -> None:
        def appended(outcome: Appended | BrokerError) -> None:
            done(outcome if isinstance(outcome, BrokerError) else outcome.last_offset + 1)

        self._log.append(*build_batch(records, now_ms), now_ms, appended)

    def when_reached(self, offset: int, reached: Callable[[BrokerError | None], None]) -> None:
        self._log.when_reached(offset, reached)

    def read(self, offset: int, max_bytes: int) -> Reading:
        found: list[KeyValue] = []
        region = self._log.read(offset, max_bytes, at_least_one=True, up_to=self._log.next_offset).records
        if region is None:
            return Reading(found, self._log.next_offset)
        try:
            for batch in walk(region.read()):
                offset = batch.last_offset + 1
                if not batch.is_control:
                    found += [
                        (bytes(record.key), None if record.value is None else bytes(record.value))
                        for record in batch.records()
                        if record.key is not None
                    ]
        except PartialBatch:
            pass  # the next read begins with the batch that was cut
        return Reading(found, offset)
