"""Logs to which producers write transactions."""

from __future__ import annotations

import dataclasses

from kafkawire.reference_broker.config.topic_configs import LogConfig, log_config
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.disk import Disk, read_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import Appended, PartitionLog
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background import Background, at_once
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE
from kafkawire.sdk.storage.file_names import TRANSACTION_INDEX_SUFFIX
from kafkawire.sdk.storage.transaction_index import AbortedTransaction
from tests.reference_broker.storage.produced_batches import NOW_MS, produced

__all__ = ["CONFIG", "FOLDER", "SMALL", "TransactingLog", "Transactions", "aborted_in", "index_files"]

FOLDER = "t-0"
CONFIG = log_config({})
SMALL = dataclasses.replace(CONFIG, segment_bytes=500, index_interval_bytes=100)


class Transactions:
    """Helpers that write to a log.

    Attributes:
        log: the log.
        sequences: the next sequence number, keyed by producer and epoch.
    """

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.sequences: dict[tuple[int, int], int] = {}

    def submit(
        self, producer: int, *values: bytes, epoch: int = 0, is_transactional: bool = True
    ) -> list[Appended | BrokerError]:
        """Append a batch; return a list that will receive the result."""
        key = producer, epoch
        sequence = self.sequences.get(key, 0) if producer >= 0 else NO_SEQUENCE
        data = produced(
            *values,
            producer_id=producer,
            producer_epoch=epoch if producer >= 0 else -1,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        self.sequences[key] = sequence + len(values)
        guard = None
        if is_transactional:
            guard = self.log.producers.begin_verification(
                producer, epoch, sequence, NOW_MS, has_epoch_per_transaction=False
            )
        results: list[Appended | BrokerError] = []
        self.log.append(data, parse_header(data), NOW_MS, results.append, verification=guard)
        return results

    def append(self, producer: int, *values: bytes, epoch: int = 0, is_transactional: bool = True) -> Appended:
        """Append a batch; return the result, or raise the error."""
        return _only(self.submit(producer, *values, epoch=epoch, is_transactional=is_transactional))

    def plain(self, *values: bytes) -> Appended:
        """Append a batch without a producer."""
        return self.append(-1, *values, is_transactional=False)

    def submit_end(
        self, producer: int, is_commit: bool, epoch: int = 0, coordinator_epoch: int = 0, version: int = 0
    ) -> list[Appended | BrokerError]:
        """Append a marker; return a list that will receive the result."""
        results: list[Appended | BrokerError] = []
        self.log.append_marker(Marker(producer, epoch, is_commit, coordinator_epoch), version, NOW_MS, results.append)
        return results

    def end(
        self, producer: int, is_commit: bool, epoch: int = 0, coordinator_epoch: int = 0, version: int = 0
    ) -> Appended:
        """Append a marker; return the result, or raise the error."""
        return _only(self.submit_end(producer, is_commit, epoch, coordinator_epoch, version))

    def commit(self, producer: int, epoch: int = 0) -> int:
        """Commit a transaction; return the offset of the marker."""
        return self.end(producer, True, epoch).base_offset

    def abort(self, producer: int, epoch: int = 0) -> int:
        """Abort a transaction; return the offset of the marker."""
        return self.end(producer, False, epoch).base_offset


class TransactingLog(Transactions):
    """A log that can be reopened.

    Args:
        config: the configuration of the log.
        disk: the disk of the log; a new in-memory disk if None.
        background: see `Background`.

    Attributes:
        disk: see above.
    """

    def __init__(self, config: LogConfig = CONFIG, disk: Disk | None = None, background: Background = at_once) -> None:
        self.config = config
        self.disk = disk or MemoryDisk()
        self.disk.make_folder(FOLDER)
        self.background = background
        super().__init__(self.opened(is_clean=True))

    def opened(self, *, is_clean: bool, disk: Disk | None = None, recovery_point: int = 0) -> PartitionLog:
        """Reopen the log, and return it."""
        services = LogServices(disk or self.disk, self.background)
        return PartitionLog(services, FOLDER, self.config, is_clean=is_clean, recovery_point=recovery_point)

    def closed(self) -> PartitionLog:
        """Close the log, reopen it, and return it."""
        self.log.close()
        return self.opened(is_clean=True, recovery_point=self.log.recovery_point)


def aborted_in(log: PartitionLog) -> dict[int, list[AbortedTransaction]]:
    """Return the entries in the transaction indexes, keyed by base offset; segments without entries are left out."""
    entries = {segment.base_offset: list(segment.transactions) for segment in log.segments}
    return {base_offset: found for base_offset, found in entries.items() if found}


def index_files(disk: Disk) -> dict[int, bytes]:
    """Return the content of the `.txnindex` files, keyed by base offset."""
    names = [name for name in disk.names(FOLDER) if name.endswith(TRANSACTION_INDEX_SUFFIX)]
    return {int(name.partition(".")[0]): read_file(disk, f"{FOLDER}/{name}") or b"" for name in names}


def _only(results: list[Appended | BrokerError]) -> Appended:
    (result,) = results
    if isinstance(result, BrokerError):
        raise result
    return result
