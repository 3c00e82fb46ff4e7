"""A partition's log for a coordinator: writes and reads batches of its records.

Like a producer with acks=all, a coordinator writes nothing while fewer than `min.insync.replicas` replicas are in sync.

Source: `CoordinatorPartitionWriter`, `CoordinatorLoaderImpl`, `TransactionLog` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kafkawire.reference_broker.coordinators.shard import InTransaction, KeyValue, LastMarker
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.storage.batches import build_batch
from kafkawire.reference_broker.storage.log.partition_log import Appended
from kafkawire.reference_broker.storage.services import storage_error
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.enums import Acks

__all__ = ["TopicLog"]


class TopicLog:
    """The log of one partition of a coordinator's topic; see `CoordinatorLog`.

    Args:
        replica: the replica of the partition, which this broker leads.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._log = replica.log

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def next_offset(self) -> int:
        return self._log.next_offset

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    @property
    def max_batch_bytes(self) -> int:
        return self._log.config.produce_limits.max_bytes

    def append(
        self,
        records: Sequence[KeyValue],
        now_ms: int,
        done: Callable[[int | BrokerError], None],
        transaction: InTransaction | None = None,
    ) -> None:
        if not self._is_writable(done):
            return
        if transaction is None:
            self._replica.append(*build_batch(records, now_ms), now_ms, partial(_appended, done))
            return
        data, header = build_batch(records, now_ms, (transaction.producer_id, transaction.epoch))
        self._replica.append(
            data,
            header,
            now_ms,
            partial(_appended, done),
            is_client=False,
            verification=transaction.verification,
        )

    def append_marker(self, marker: LastMarker, now_ms: int, done: Callable[[int | BrokerError], None]) -> None:
        if self._is_writable(done):
            self._replica.append_marker(*marker, now_ms, partial(_appended, done))

    def _is_writable(self, refuse: Callable[[BrokerError], None]) -> bool:
        """Return whether this broker leads and enough replicas are in sync; if not, call `refuse`."""
        try:
            self._replica.check_acks(Acks.ALL)
        except BrokerError as error:
            refuse(error)
            return False
        return True

    def when_reached(self, offset: int, reached: Callable[[BrokerError | None], None]) -> None:
        self._replica.when_reached(offset, reached)

    def read(self, offset: int, max_bytes: int) -> Buffer:
        region = self._log.read(offset, max_bytes, at_least_one=True, up_to=self._log.next_offset).records
        try:
            return b"" if region is None else region.read()
        except OSError as error:
            raise storage_error(error) from error


def _appended(done: Callable[[int | BrokerError], None], outcome: Appended | BrokerError) -> None:
    done(outcome if isinstance(outcome, BrokerError) else outcome.last_offset + 1)
