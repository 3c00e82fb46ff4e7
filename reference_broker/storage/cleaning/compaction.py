"""Compaction of a log: keep the latest record of each key, and eventually remove tombstones and markers.

First, as many keys of the dirty part are read as fit in memory. Then all segments up to that point are rewritten in
groups, each of which becomes one segment. Long work runs in the background, in small pieces.

Source: `Cleaner` in Apache Kafka.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from kafkawire.reference_broker.storage.batches import DamagedSegment, parse_header
from kafkawire.reference_broker.storage.cleaning.background_jobs import Wait, in_background
from kafkawire.reference_broker.storage.cleaning.cleaned_batch import Cleaning, LastRecord
from kafkawire.reference_broker.storage.cleaning.cleaned_transactions import CleanedTransactions
from kafkawire.reference_broker.storage.cleaning.key_offsets import KeyOffsets
from kafkawire.reference_broker.storage.cleaning.log_to_clean import LogToClean, grouped
from kafkawire.reference_broker.storage.cleaning.removal import Retired
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.producers.producers import Producer
from kafkawire.reference_broker.storage.segments.replacement import commit, complete, discard, prepare
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background_queue import BackgroundQueue
from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.records import RecordBatch
from kafkawire.sdk.storage.file_names import CLEANED_SUFFIX
from kafkawire.sdk.storage.transaction_index import AbortedTransaction

__all__ = ["Compacted", "Compaction", "CompactionServices"]

T = TypeVar("T")

#: Bytes read in one piece of work, which takes a few milliseconds.
_PIECE_BYTES = 256 * 1024


class CompactionServices(NamedTuple):
    """The services that a compaction uses.

    Attributes:
        services: disk and timers.
        queue: runs blocking work.
        keys_bytes: memory for the keys.
        retired: see `Retired`.
    """

    services: LogServices
    queue: BackgroundQueue
    keys_bytes: int
    retired: Retired


class Compacted(NamedTuple):
    """The result of a compaction.

    Attributes:
        end_offset: everything before it is compacted.
        bytes_before: the size of the segments before they were rewritten.
        bytes_after: their size afterwards.
    """

    end_offset: int
    bytes_before: int
    bytes_after: int


class Compaction:
    """The compaction of a log.

    Args:
        tools: see `CompactionServices`.
        log: the log.
        to_clean: its dirty part.
        now_ms: the current time.
    """

    def __init__(self, tools: CompactionServices, log: PartitionLog, to_clean: LogToClean, now_ms: int) -> None:
        self._tools = tools
        self._disk = tools.services.disk
        self._log = log
        self._to_clean = to_clean
        self._now_ms = now_ms
        self._truncations = log.truncations

    def run(self) -> Generator[Wait, Any, Compacted]:
        """Compact the log: a job (see `background_jobs.py`).

        Raises:
            BrokerError: the log has ended in the meantime; this is the error that ended it.
            DecodeError: a batch is damaged.
            EncodeError: a batch cannot be rewritten.
            OSError: the disk failed.
        """
        log, to_clean = self._log, self._to_clean
        before = [segment for segment in log.segments if segment.base_offset < to_clean.end_offset]
        aborted = yield from self._blocking(
            lambda: [transaction for segment in log.segments for transaction in segment.transactions]
        )
        keys = KeyOffsets(self._tools.keys_bytes)
        yield from self._in_pieces(self._read_keys(before, keys, aborted))
        if keys.end_offset <= to_clean.first_offset:
            raise OSError(f"compaction cannot get past offset {to_clean.first_offset}")
        before = [segment for segment in before if segment.base_offset < keys.end_offset]
        transactions = yield from self._blocking(lambda: CleanedTransactions(aborted))  # there may be millions
        cleaning = Cleaning(
            keys,
            transactions,
            {producer.producer_id: _last_record(producer) for producer in log.producers},
            to_clean.end_offset,
            log.config.delete_retention_ms,
            self._now_ms,
        )
        bytes_before = sum(segment.size_bytes for segment in before)
        bytes_after = 0
        groups = yield from self._blocking(lambda: grouped(before, log.config, to_clean.end_offset))
        ends = [group[0].base_offset for group in groups[1:]] + [_end_of(log, before)]
        for group, end_offset in zip(groups, ends, strict=True):
            bytes_after += yield from self._replace(group, end_offset, cleaning)
        return Compacted(keys.end_offset, bytes_before, bytes_after)

    # Pieces of work.

    def _blocking(self, work: Callable[[], T]) -> Generator[Wait, Any, T]:
        """Run work in the background unless the log has ended."""
        result: T = yield in_background(self._tools.queue, work, lambda: self._log.error is None)
        if self._log.error is not None:
            raise self._log.error.again()
        return result

    def _in_pieces(self, pieces: Iterator[None]) -> Generator[Wait, Any, None]:
        while (yield from self._blocking(lambda: next(pieces, True))) is None:
            pass

    # The keys.

    def _read_keys(
        self, segments: Sequence[Segment], keys: KeyOffsets, aborted: Sequence[AbortedTransaction]
    ) -> Iterator[None]:
        """Read the keys of the dirty part in pieces, until there is no room for more."""
        first = self._to_clean.first_offset
        keys.end_offset = first
        transactions = CleanedTransactions(entry for entry in aborted if entry.last_offset >= first)
        dirty = [segment for segment in segments if _end_of(self._log, [segment]) > first]
        for segment in dirty:
            for batch in _batches(segment):
                if batch is None:
                    yield
                elif batch.last_offset < first:
                    continue
                elif batch.is_control:
                    transactions.is_needless(batch)
                    keys.end_offset = batch.next_offset
                elif transactions.is_aborted(batch):
                    keys.end_offset = batch.next_offset
                else:
                    for record in batch.views():
                        if (
                            record.key is not None
                            and record.offset >= first
                            and not keys.put(record.key, record.offset)
                        ):
                            return
                    keys.end_offset = batch.next_offset
            keys.end_offset = _end_of(self._log, [segment])

    # The segments.

    def _replace(self, group: Sequence[Segment], end_offset: int, cleaning: Cleaning) -> Generator[Wait, Any, int]:
        """Rewrite a group of segments as one that replaces them; return its size."""
        log, disk, base_offset = self._log, self._disk, group[0].base_offset
        others = [segment.base_offset for segment in group[1:]]
        cleaned = yield from self._blocking(self._create_at(base_offset))
        try:
            yield from self._in_pieces(_write(group, cleaned, cleaning))
            yield from self._blocking(lambda: _finish(cleaned, end_offset, cleaning))
        except Exception:
            with contextlib.suppress(OSError, BrokerError):
                yield from self._blocking(lambda: discard(disk, log.folder))
            raise
        yield lambda done: log.turns.take(lambda: done(None))
        try:
            return (yield from self._swap(group, cleaned, others, end_offset))
        finally:
            log.turns.give()

    def _swap(
        self, group: Sequence[Segment], cleaned: Segment, others: Sequence[int], end_offset: int
    ) -> Generator[Wait, Any, int]:
        """Replace a group of segments with the rewritten one, when the log's turn comes; return its size."""
        log, disk, base_offset = self._log, self._disk, cleaned.base_offset
        try:
            # The newer record that makes another one obsolete may be gone, or about to be removed.
            if log.is_unsettled or log.truncations != self._truncations or not set(group).issubset(log.segments):
                raise OSError("the log was truncated during compaction")
            yield from self._blocking(lambda: prepare(disk, log.folder, base_offset, others))
        except Exception:
            with contextlib.suppress(OSError, BrokerError):
                yield from self._blocking(lambda: discard(disk, log.folder))
            raise
        try:
            yield from self._blocking(lambda: commit(disk, log.folder, base_offset))
            # From now on the segment is read through its open files, even before they have their final names.
            log.segments = log.segments.replaced(group, cleaned)
            self._tools.retired((yield from self._blocking(lambda: complete(disk, log.folder))))
            stored = yield from self._blocking(lambda: self._opened(base_offset, end_offset))
            log.segments = log.segments.replaced([cleaned], stored)
            self._tools.retired((yield from self._blocking(lambda: log.snapshots.retire(others))))
        except OSError as error:
            if log.error is None:
                log.fail(error)
            raise
        return stored.size_bytes

    def _create_at(self, base_offset: int) -> Callable[[], Segment]:
        disk, log = self._disk, self._log

        def create() -> Segment:
            discard(disk, log.folder)  # a failed attempt may have left files
            return Segment.create(disk, log.folder, base_offset, log.config, CLEANED_SUFFIX)

        return create

    def _opened(self, base_offset: int, end_offset: int) -> Segment:
        segment = Segment(self._disk, self._log.folder, base_offset, self._log.config, end_offset)
        segment.transactions.load()
        return segment


def _end_of(log: PartitionLog, segments: Sequence[Segment]) -> int:
    """Return the start of the next segment."""
    return log.segments.since(segments[-1].base_offset)[1].base_offset


def _last_record(producer: Producer) -> LastRecord:
    return LastRecord(producer.epoch, producer.batches[-1].last_offset if producer.batches else None)


def _batches(segment: Segment) -> Iterator[RecordBatch | None]:
    """Yield the intact batches of a segment, and None after each piece of work."""
    piece_bytes = 0
    for header in segment.headers(0):
        batch = RecordBatch(segment.file.read(header.position, header.size_bytes))
        try:
            batch.check_crc()
        except DecodeError as error:
            raise DamagedSegment(segment.base_offset, "batch", header.position, str(error)) from None
        yield batch
        piece_bytes += header.size_bytes
        if piece_bytes >= _PIECE_BYTES:
            piece_bytes = 0
            yield None


def _write(group: Sequence[Segment], cleaned: Segment, cleaning: Cleaning) -> Iterator[None]:
    """Write what remains of a group into a new segment, in pieces."""
    for segment in group:
        for batch in _batches(segment):
            if batch is None:
                yield
            elif (left := cleaning.left_of(batch)) is not None:
                cleaned.append(left, parse_header(left), batch.base_offset)


def _finish(cleaned: Segment, end_offset: int, cleaning: Cleaning) -> None:
    """Make a rewritten segment durable; it extends to the start of the next segment."""
    for transaction in cleaning.transactions.take_kept():
        cleaned.transactions.append(transaction)
    cleaned.seal()
    cleaned.sync(with_indexes=True)
    cleaned.is_stored = True
    cleaned.next_offset = end_offset
