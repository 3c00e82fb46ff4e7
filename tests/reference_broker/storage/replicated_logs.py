"""Replicas of a partition on in-memory disks, and the messages between leader and follower."""

from __future__ import annotations

import dataclasses

from kafkawire.reference_broker.config.topic_configs import LogConfig, log_config
from kafkawire.reference_broker.storage.disk.disk import Disk, read_file, write_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import Appended, PartitionLog
from kafkawire.reference_broker.storage.producers.producer_snapshots import encode_snapshot, producer_state_entries
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background import Background, at_once
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.records import place
from kafkawire.sdk.storage.file_names import LOG_SUFFIX
from tests.reference_broker.storage.produced_batches import NOW_MS

__all__ = ["CONFIG", "FOLDER", "SMALL", "Replica", "batches_of", "fetched", "files_of", "placed", "rebuilt", "state_of"]

FOLDER = "t-0"
CONFIG = log_config({})
#: A configuration with a few batches per segment, and an index entry for every other batch.
SMALL = dataclasses.replace(CONFIG, segment_bytes=600, index_interval_bytes=100)


class Replica:
    """A replica of a partition, which can be reopened.

    Args:
        config: the configuration of the log.
        disk: the disk of the log; a new in-memory disk if None.
        background: see `Background`.

    Attributes:
        config: the configuration of the log, see above.
        disk: see above.
        log: the log.
        recovery_point: as in the checkpoint.
        log_start_offset: as in the checkpoint.
        high_watermark: as in the checkpoint.
    """

    def __init__(
        self, config: LogConfig = SMALL, disk: MemoryDisk | None = None, background: Background = at_once
    ) -> None:
        self.config = config
        self.disk = disk or MemoryDisk()
        self.disk.make_folder(FOLDER)
        self.disk.sync_folder("")
        self.background = background
        self.recovery_point = self.log_start_offset = self.high_watermark = 0
        self.open(is_clean=True)

    def open(self, *, is_clean: bool) -> None:
        """Open the log, as a data directory does."""
        self.log = PartitionLog(
            LogServices(self.disk, self.background),
            FOLDER,
            self.config,
            is_clean=is_clean,
            log_start_offset=self.log_start_offset,
            recovery_point=self.recovery_point,
            high_watermark=self.high_watermark,
        )
        assert self.log.error is None, self.log.error
        self.log.on_truncated = self._truncated
        if self.log.is_unsettled:
            self.checkpoint()
            self.log.settle()

    def _truncated(self, log: PartitionLog, offset: int, done: object) -> None:
        assert log is self.log
        assert offset == log.next_offset
        self.checkpoint()
        assert callable(done)
        done(None)

    def checkpoint(self) -> None:
        """Write the checkpoints."""
        self.recovery_point, self.log_start_offset = self.log.stored_to, self.log.log_start_offset
        self.high_watermark = self.log.high_watermark

    def stop(self) -> None:
        """Close the log, and reopen it."""
        self.log.close()
        self.checkpoint()
        self.open(is_clean=True)

    def crash(self, seed: int | None = None) -> None:
        """Reopen the log after a crash; see `MemoryDisk.crash`."""
        self.disk = self.disk.crash(seed)
        self.open(is_clean=False)

    def follow(self, data: bytes, leader_epoch: int, from_offset: int | None = None) -> Appended:
        """Append fetched batches; return the result, or raise the error."""
        results: list[Appended | BrokerError] = []
        start = self.log.next_offset if from_offset is None else from_offset
        self.log.append_as_follower(data, start, leader_epoch, NOW_MS, results.append)
        (result,) = results
        if isinstance(result, BrokerError):
            raise result
        return result

    def truncate_to(self, offset: int) -> None:
        """Truncate the log."""
        results: list[BrokerError | None] = []
        self.log.truncate_to(offset, results.append)
        assert results == [None]

    def start_at(self, offset: int) -> None:
        """Make the log begin at another offset."""
        results: list[BrokerError | None] = []
        self.log.start_at(offset, results.append)
        assert results == [None]

    def reconcile(self, leader: PartitionLog) -> None:
        """Truncate the log where it diverges from the leader's, as a fetcher does (KIP-101, KIP-279)."""
        log = self.log
        if log.next_offset < leader.log_start_offset:
            self.start_at(leader.log_start_offset)
        self.truncate_to(log.next_offset)  # this drops epochs without records
        while log.leader_epoch >= 0:
            found, end_offset = leader.end_of_epoch(log.leader_epoch)
            if found < 0:
                break
            own, own_end_offset = log.end_of_epoch(found)
            if own < 0:
                own, own_end_offset = found, end_offset
            before = log.next_offset
            self.truncate_to(min(end_offset, own_end_offset) if own == found else own_end_offset)
            if own == found or log.next_offset == before:
                break
        if log.next_offset > leader.next_offset:
            self.truncate_to(leader.next_offset)
        if log.next_offset < leader.log_start_offset:
            self.start_at(leader.log_start_offset)


def fetched(leader: PartitionLog, offset: int, max_bytes: int = 2**20) -> bytes:
    """Return the batches that a follower fetches."""
    read = leader.read(offset, max_bytes, at_least_one=True, up_to=leader.next_offset)
    return b"" if read.records is None else read.records.read()


def placed(data: bytearray, offset: int, epoch: int = 0) -> bytes:
    """Return a batch as a leader stores it."""
    place(data, offset, epoch)
    return bytes(data)


def batches_of(log: PartitionLog) -> dict[int, bytes]:
    """Return the batches of a log, keyed by base offset."""
    return {header.base_offset: file.read(header.position, header.size_bytes) for file, header in log.headers()}


def files_of(disk: Disk, suffix: str = LOG_SUFFIX) -> dict[str, bytes]:
    """Return the content of a log's files, keyed by name."""
    return {name: read_file(disk, f"{FOLDER}/{name}") or b"" for name in disk.names(FOLDER) if name.endswith(suffix)}


def rebuilt(replica: Replica) -> PartitionLog:
    """Return a log built only from the batches of another log."""
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    for name, content in files_of(replica.disk).items():
        write_file(disk, f"{FOLDER}/{name}", content)
    return PartitionLog(
        LogServices(disk),
        FOLDER,
        replica.config,
        is_clean=False,
        log_start_offset=replica.log.log_start_offset,
        recovery_point=None if replica.config.is_compacted else 0,
        high_watermark=replica.log.high_watermark,
    )


def state_of(log: PartitionLog) -> dict[str, object]:
    """Return everything that a log knows about its batches."""
    return {
        "ends": (log.log_start_offset, log.next_offset, log.high_watermark, log.last_stable_offset),
        "segments": log.segments.base_offsets,
        "producers": encode_snapshot(producer_state_entries(log.producers)),
        "aborted": [entry for segment in log.segments for entry in segment.transactions],
        "epochs": log.epochs.entries(),
        "timestamps": [segment.highest_timestamp() for segment in log.segments],
    }
