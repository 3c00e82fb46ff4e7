"""Load the producers of a log from its latest snapshot and the batches after it.

Source: `UnifiedLog.rebuildProducerState`, `ProducerStateManager.truncateAndReload`, `removeStraySnapshots` in Apache
Kafka.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable

from kafkawire.reference_broker.storage.batches import BatchHeader
from kafkawire.reference_broker.storage.disk.disk import Disk, read_file
from kafkawire.reference_broker.storage.producers.markers import ReadableFile, markers_in
from kafkawire.reference_broker.storage.producers.producer_snapshots import (
    decode_snapshot,
    encode_snapshot,
    producer_state_entries,
)
from kafkawire.reference_broker.storage.producers.producers import (
    BATCHES_KEPT,
    NO_COORDINATOR_EPOCH,
    AppendedBatch,
    CompletedTransaction,
    Producers,
)
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE
from kafkawire.sdk.records.java_integers import sequence_after
from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.file_names import DELETED_SUFFIX, SNAPSHOT_SUFFIX, file_name, offset_in

__all__ = ["Snapshots", "load_producers", "note_stored"]

logger = logging.getLogger("kafkawire.broker")

#: Returns the batches of a log that begin between two offsets, each with its file. Batches that `last_batches` in
#: `sdk/records/` does not select may be left out.
StoredBatches = Callable[[int, int], Iterable[tuple[ReadableFile, BatchHeader]]]


class Snapshots:
    """The snapshots of a log.

    Args:
        disk: holds the snapshots.
        folder: the partition's folder.

    Attributes:
        offsets: the offsets of the snapshots, ascending.
    """

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self.offsets: list[int] = []
        #: The offset of the snapshot that was synced when it was written.
        self._synced: int | None = None

    @property
    def where(self) -> str:
        """The partition's description in log lines."""
        return self._disk.describe(self._folder)

    def find(self) -> None:
        """List the existing snapshots."""
        names = self._disk.names(self._folder)
        self.offsets = sorted(offset for name in names if (offset := offset_in(name, SNAPSHOT_SUFFIX)) is not None)

    def prepared(self, producers: Producers, *, is_last: bool = False) -> Callable[[], None]:
        """Return work that writes a snapshot on any thread, or does nothing if the latest snapshot is up to date.

        Args:
            producers: the producers of the log.
            is_last: whether the log is being closed. If so, the snapshot is synced, and none is written if there are
                neither producers nor snapshots. Other snapshots need no sync, since damage to them is detected and
                harmless.
        """
        offset = producers.end_offset
        if (self.offsets and self.offsets[-1] >= offset) or (is_last and not self.offsets and not len(producers)):
            return lambda: None
        known = producer_state_entries(producers)

        def write() -> None:
            file = self._disk.open(self._path(offset), create=True)
            file.truncate(0)
            file.append(encode_snapshot(known))
            if is_last:
                file.sync()
                self._synced = offset
            self.offsets.append(offset)

        return write

    def store(self, producers: Producers) -> None:
        """Write a snapshot of the producers durably; without producers, do nothing.

        Raises:
            OSError: the disk failed.
        """
        if len(producers):
            self.prepared(producers)()
            self.sync_from(producers.end_offset)
            self._disk.sync_folder(self._folder)

    def read(self, offset: int) -> bytes:
        """Return the content of a snapshot."""
        return read_file(self._disk, self._path(offset)) or b""

    def remove(self, offset: int) -> None:
        """Remove a snapshot."""
        self._disk.remove(self._path(offset))
        self.offsets.remove(offset)

    def sync_from(self, offset: int) -> None:
        """Make the first snapshot at or after an offset durable, on any thread, since earlier records may be removed.

        Raises:
            OSError: the disk failed.
        """
        later = min((each for each in tuple(self.offsets) if each >= offset), default=None)
        if later is not None and later != self._synced:
            self._disk.open(self._path(later)).sync()

    def retire(self, offsets: Collection[int]) -> list[str]:
        """Rename snapshots so they are ignored, and return the files to remove later; may run on any thread.

        Raises:
            OSError: the disk failed.
        """
        retired = []
        for offset in sorted(set(self.offsets).intersection(offsets)):
            path = self._path(offset)
            self._disk.rename(path, path + DELETED_SUFFIX)
            self.offsets.remove(offset)
            retired.append(path + DELETED_SUFFIX)
        return retired

    def _path(self, offset: int) -> str:
        return f"{self._folder}/{file_name(offset, SNAPSHOT_SUFFIX)}"


def load_producers(
    snapshots: Snapshots,
    base_offsets: Collection[int],
    end_offset: int,
    batches: StoredBatches,
    *,
    is_clean: bool,
    aborted: Callable[[CompletedTransaction], None] = lambda ended: None,
    aborted_from: int | None = None,
    recalled_from: int | None = None,
    committed_to: int | None = None,
    has_markers: Callable[[int, int], bool] = lambda from_offset, end_offset: True,
) -> Producers:
    """Return the producers of a log, and remove snapshots that are no longer needed.

    Args:
        snapshots: the snapshots of the log.
        base_offsets: the base offsets of its segments; the snapshots at these offsets and the latest snapshot are kept.
        end_offset: the end of the log.
        batches: see `StoredBatches`.
        is_clean: whether the log was closed cleanly; if it was, a log without a snapshot had no producers.
        aborted: called with each aborted transaction whose marker is found while loading.
        aborted_from: the offset from which all aborted transactions must be found; None if they are not needed.
        recalled_from: where to begin the search for the last few batches of each producer, since a snapshot contains
            only the very last; None if all batches have been acknowledged.
        committed_to: the high watermark, if it may be before the end. A snapshot lacks the transactions that ended
            before it was written, but those with a marker after the high watermark are undecided until all replicas
            have the marker.
        has_markers: returns whether there can be a marker between two offsets.
    """
    snapshots.find()
    bases = set(base_offsets)
    for offset in snapshots.offsets[:]:
        is_stray = offset not in bases and offset != snapshots.offsets[-1]
        if is_stray or offset > end_offset:
            snapshots.remove(offset)
    had_snapshots = bool(snapshots.offsets)
    if committed_to is not None and min(snapshots.offsets, default=0) > committed_to and min(bases) > 0:
        committed_to = None  # the earlier records are gone
    producers = _latest(snapshots)
    if committed_to is not None and _may_lack_transactions(producers, committed_to, has_markers):
        producers = _latest(snapshots, committed_to)
    if recalled_from is not None:
        _recall(producers, recalled_from, batches)
    if aborted_from is not None and aborted_from < producers.end_offset:
        _note_all(_latest(snapshots, aborted_from), batches, producers.end_offset, aborted, snapshots.where)
    if producers.end_offset < end_offset and (had_snapshots or not is_clean or aborted_from is not None):
        last_base = max(bases)
        if not is_clean and producers.end_offset < last_base:
            # The snapshot from the last roll was lost in a power cut, and retention may remove the records before the
            # next roll.
            _note_all(producers, batches, last_base, aborted, snapshots.where)
            producers.end_offset = last_base
            snapshots.store(producers)
        _note_all(producers, batches, end_offset, aborted, snapshots.where)
    producers.end_offset = end_offset
    return producers


def _may_lack_transactions(producers: Producers, committed_to: int, has_markers: Callable[[int, int], bool]) -> bool:
    """Return whether producers from a snapshot may lack transactions ended by markers after an offset.

    If there is no such marker, the batches between an older snapshot and this one need not be read.
    """
    had_markers = any(producer.coordinator_epoch != NO_COORDINATOR_EPOCH for producer in producers)
    return had_markers and producers.end_offset > committed_to and has_markers(committed_to, producers.end_offset)


def _recall(producers: Producers, from_offset: int, batches: StoredBatches) -> None:
    """Find each producer's batches before its last one, which a snapshot does not contain.

    A batch whose response was lost in a crash is resent, and must not be rejected. Kafka rejects it with
    OUT_OF_ORDER_SEQUENCE_NUMBER; the client then begins a new epoch and sends later batches a second time.
    """
    recent: dict[int, deque[BatchHeader]] = {}
    for _, header in batches(from_offset, producers.end_offset) if len(producers) else ():
        if header.producer_id >= 0 and not header.is_control:
            recent.setdefault(header.producer_id, deque(maxlen=BATCHES_KEPT)).append(header)
    for producer in producers:
        for header in reversed(recent.get(producer.producer_id, ())):
            if not producer.batches or header.producer_epoch != producer.epoch:
                break
            first = producer.batches[0]
            if header.last_offset >= first.first_offset:
                continue  # the snapshot contains this batch
            before = AppendedBatch(
                sequence_after(header.base_sequence, header.last_offset_delta),
                header.last_offset,
                header.last_offset_delta,
                header.max_timestamp,
            )
            if sequence_after(before.last_sequence, 1) != first.first_sequence or header.base_sequence == NO_SEQUENCE:
                break
            producer.batches.appendleft(before)


def _note_all(
    producers: Producers,
    batches: StoredBatches,
    end_offset: int,
    aborted: Callable[[CompletedTransaction], None],
    where: str,
) -> None:
    """Apply the batches up to `end_offset`; damaged batches are logged and skipped."""
    for file, header in batches(producers.end_offset, end_offset):
        try:
            for ended in note_stored(producers, file, header):
                if ended.is_aborted:
                    aborted(ended)
        except DecodeError as error:
            logger.error("%s: the marker at offset %d is damaged: %s", where, header.base_offset, error)


def note_stored(producers: Producers, file: ReadableFile, header: BatchHeader) -> list[CompletedTransaction]:
    """Apply a batch from the log.

    Args:
        producers: the producers of the log.
        file: holds the batch.
        header: header of the batch.

    Returns:
        The transactions that the batch ends; the aborted ones belong in the transaction index.
    """
    if not header.is_control:
        producers.note(header, header.base_offset)
        return []
    ended = [producers.note_marker(*stored) for stored in markers_in(file, header)]
    return [transaction for transaction in ended if transaction is not None]


def _latest(snapshots: Snapshots, up_to: int | None = None) -> Producers:
    """Return the producers in the latest snapshot, optionally up to an offset; remove damaged snapshots."""
    producers = Producers()
    for offset in sorted(snapshots.offsets, reverse=True):
        if up_to is not None and offset > up_to:
            continue
        try:
            producers.restore(decode_snapshot(snapshots.read(offset)), offset)
            break
        except DamagedContent as error:
            logger.warning(
                "%s: the producer snapshot at offset %d is damaged, so the previous one is used: %s",
                snapshots.where,
                offset,
                error,
            )
            snapshots.remove(offset)
    return producers
