"""One segment of a log: the batches starting at a base offset, and their indexes.

A segment is appended to until it is sealed, and read by position. An append is one write to the `.log` file. Indexes
are written when the segment is sealed, and rebuilt from that file if necessary; all files have Kafka's formats. The
files of a segment are opened on demand, so restarts are quick, and unused partitions have no open files.

Source: `LogSegment` in Apache Kafka.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from threading import Lock
from typing import Final, NamedTuple
from weakref import ref

from kafkawire.reference_broker.config.topic_configs import LogConfig
from kafkawire.reference_broker.storage.batches import BatchHeader, DamagedSegment, check_offsets, headers
from kafkawire.reference_broker.storage.disk.disk import Disk, File
from kafkawire.reference_broker.storage.segments.index import OffsetIndex, TimeIndex
from kafkawire.reference_broker.storage.segments.rebuilding import Rebuilt, rebuild
from kafkawire.reference_broker.storage.segments.transaction_index import TransactionIndex
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.records import crc32c
from kafkawire.sdk.records.java_integers import INT32_MAX
from kafkawire.sdk.storage.file_names import DELETED_SUFFIX, INDEX_SUFFIXES, LOG_SUFFIX, file_name

__all__ = ["BatchPlace", "Segment"]

logger = logging.getLogger("kafkawire.broker")


#: The number of batches whose places are kept; a follower that keeps up is rarely further behind.
_APPENDED_KEPT: Final = 8


class BatchPlace(NamedTuple):
    """The place of a batch in the file of its segment.

    Attributes:
        base_offset: the base offset of the batch.
        position: where the batch begins.
        size_bytes: the size of the batch.
    """

    base_offset: int
    position: int
    size_bytes: int


class Segment:
    """A segment file and its indexes.

    Args:
        disk: holds the files.
        folder: the partition's folder.
        base_offset: the lowest offset allowed, after which the files are named.
        config: sizes and intervals.
        sealed_at: the offset after the last one if the segment is complete and has been checked, in which case it is
            loaded on first use; None for a segment to `create`, `load` or `recover`.
        suffix: the suffix of its file names before the segment takes effect.

    Attributes:
        next_offset: the offset after the last one in the file.
        is_sealed: whether the segment is complete.
        is_stored: whether its index files are complete and durable.
        has_producers: whether the segment may hold markers or batches of idempotent producers; `recover` may find that
            it does not.
        transactions: the transactions aborted by markers in the segment.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        base_offset: int,
        config: LogConfig,
        sealed_at: int | None = None,
        suffix: str = "",
    ) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset if sealed_at is None else sealed_at
        self.is_sealed = self.is_stored = sealed_at is not None
        self.has_producers = True
        self._disk = disk
        self._paths = [f"{folder}/{file_name(base_offset, kind)}{suffix}" for kind in (LOG_SUFFIX, *INDEX_SUFFIXES)]
        self._path, *_, transactions_path = self._paths
        self._config = config
        self._file: File | None = None
        #: Files of this segment from before truncations; slices of them may be in use.
        self._former_files: list[ref[File]] = []
        self._opening = Lock()  # each `File` tracks the size itself, so two would soon disagree
        self._size_bytes: int | None = None
        self._index, self._time_index = self._new_indexes()
        self.transactions = TransactionIndex(disk, transactions_path, base_offset)
        self._is_indexed = sealed_at is None
        #: Whether the index by time ends at a damaged batch, before the segment's end; such an index is never stored.
        self._is_partial = False
        self._max_timestamp, self._max_timestamp_offset = NO_TIMESTAMP, base_offset
        #: The highest timestamp found in the files of a sealed segment, or the error; None before the first lookup.
        self._highest: int | DecodeError | None = None
        self._bytes_since_entry = 0
        #: The most recently appended batches, which followers and most consumers read.
        self._appended: deque[BatchPlace] = deque(maxlen=_APPENDED_KEPT)
        self._first_timestamp: int | None = None
        #: The time of the first append since startup, which determines the age of a segment whose first batch has no
        #: timestamp.
        self._since_ms: int | None = None
        #: Deterministic jitter that differs between segments, so the partitions do not all roll at the same time.
        self._jitter_ms = crc32c(self._path.encode()) % config.segment_jitter_ms if config.segment_jitter_ms else 0

    @classmethod
    def create(cls, disk: Disk, folder: str, base_offset: int, config: LogConfig, suffix: str = "") -> Segment:
        """Return a new, empty segment; see the class for the arguments.

        Raises:
            OSError: the file could not be created.
        """
        segment = cls(disk, folder, base_offset, config, suffix=suffix)
        file = disk.open(segment._path, create=True)
        if file.size_bytes:
            file.truncate(0)  # left by an obsolete segment of this name
        segment._size_bytes = 0
        return segment

    def configure(self, config: LogConfig) -> None:
        """Use a new configuration from now on; the maximum size of the indexes stays the same."""
        self._config = replace(config, segment_index_bytes=self._config.segment_index_bytes)

    @property
    def file(self) -> File:
        """The file with the batches, opened on first use, on any thread."""
        if (file := self._file) is None:  # another thread may release it in the meantime
            with self._opening:
                file = self._file = self._file or self._disk.open(self._path, stays=True)
        return file

    @property
    def size_bytes(self) -> int:
        """The size of the batches."""
        if (file := self._file) is not None:
            return file.size_bytes
        if self._size_bytes is None:
            self._size_bytes = self._disk.size_of(self._path)
        return self._size_bytes

    @property
    def where(self) -> str:
        """The description of the file with the batches, for log lines."""
        return self._disk.describe(self._path)

    @property
    def knows_highest_timestamp(self) -> bool:
        """Whether `highest_timestamp` needs no disk access."""
        return (self._is_indexed and not self._is_partial) or self._highest is not None

    def highest_timestamp(self) -> int:
        """Return the highest timestamp of the batches, on any thread; `NO_TIMESTAMP` if no batch has one.

        Raises:
            DamagedSegment: the time index is wrong, and a batch is damaged.
            OSError: the disk failed.
        """
        if self._is_indexed and not self._is_partial:
            return self._max_timestamp
        if self._highest is None:
            try:
                self._highest = self._look_up_highest()
            except DecodeError as error:
                logger.error("%s: the highest timestamp is unknown: %s", self.where, error)
                self._highest = error
        if isinstance(self._highest, DecodeError):
            raise self._highest.again()
        return max(self._highest, self._max_timestamp)  # batches may have been appended since the lookup

    def _look_up_highest(self) -> int:
        _, index = self._new_indexes()
        if self._load_times(index):
            return NO_TIMESTAMP if (entry := index.last_entry) is None else entry[0]
        return max((batch.max_timestamp for batch in self.headers(0)), default=NO_TIMESTAMP)

    def index_sizes(self) -> tuple[int, int]:
        """Return the sizes of the indexes by offset and by time, on any thread; the segment must be stored.

        Raises:
            OSError: the disk failed.
        """
        return self._index.stored_bytes(), self._time_index.stored_bytes()

    # Writing.

    def is_full_for(self, batch: BatchHeader, now_ms: int) -> bool:
        """Return whether the log must be rolled before `batch` is appended.

        Args:
            batch: its header, with the log append time if the topic uses it.
            now_ms: the current time.
        """
        config = self._config
        return self.size_bytes > 0 and (
            self.size_bytes + batch.size_bytes > config.segment_bytes
            or self._index.is_full
            or self._time_index.is_full
            or self.next_offset + batch.last_offset_delta - self.base_offset > INT32_MAX
            or self._age_ms(batch, now_ms) > config.segment_ms - self._jitter_ms
        )

    def _age_ms(self, batch: BatchHeader, now_ms: int) -> int:
        """Return the age on the clock that sets the timestamps (the producer's or the broker's), as in Kafka."""
        if self._first_timestamp is not None and self._first_timestamp >= 0:
            return batch.max_timestamp - self._first_timestamp
        return 0 if self._since_ms is None else now_ms - self._since_ms

    def append(self, data: Buffer, batch: BatchHeader, base_offset: int, now_ms: int = 0) -> None:
        """Append a batch.

        Args:
            data: the stamped batch.
            batch: its header, as produced.
            base_offset: its base offset in the log.
            now_ms: the current time, which affects only the age of the active segment.

        Raises:
            OSError: the write failed, and the file was truncated to its old size, unless that failed too.
        """
        position = (file := self.file).size_bytes
        self.is_stored = False
        self.has_producers = True
        try:
            file.append(data)
        except OSError:
            # If the truncation fails as well, recovery finds a partial batch.
            with contextlib.suppress(OSError):
                file.truncate(position)
            raise
        if self._since_ms is None:
            self._since_ms = now_ms
        self._note(batch, base_offset + batch.last_offset_delta, position)

    def takes_offsets_of(self, batch: BatchHeader) -> bool:
        """Return whether the offsets of a batch from another log fit, in which case the segment can begin with it."""
        return self.base_offset <= batch.base_offset and batch.last_offset - self.base_offset <= INT32_MAX

    def fitting(self, batches: Sequence[BatchHeader], first: int, now_ms: int) -> int:
        """Return how many of another log's batches fit when appended one after another; see `is_full_for`.

        Args:
            batches: their headers.
            first: the index of the first batch to append.
            now_ms: the current time.

        Returns:
            The index of the first batch that does not fit; the number of batches if all fit.
        """
        config, size_bytes, bytes_since_entry = self._config, self.size_bytes, self._bytes_since_entry
        room, time_room, last_time = self._index.room, self._time_index.room, self._time_index.last_timestamp
        first_timestamp, max_timestamp = self._first_timestamp, self._max_timestamp
        appended_age_ms = 0 if self._since_ms is None else now_ms - self._since_ms
        max_age_ms = config.segment_ms - self._jitter_ms
        for number in range(first, len(batches)):
            batch = batches[number]
            if size_bytes and (
                size_bytes + batch.size_bytes > config.segment_bytes
                or room <= 0
                or time_room <= 0
                or batch.last_offset - self.base_offset > INT32_MAX
            ):
                return number
            if first_timestamp is None:
                first_timestamp = batch.max_timestamp
            age_ms = batch.max_timestamp - first_timestamp if first_timestamp >= 0 else appended_age_ms
            if size_bytes and age_ms > max_age_ms:
                return number
            max_timestamp = max(max_timestamp, batch.max_timestamp)
            if bytes_since_entry > config.index_interval_bytes:
                room, bytes_since_entry = room - 1, 0
                if max_timestamp > last_time:
                    time_room, last_time = time_room - 1, max_timestamp
            bytes_since_entry += batch.size_bytes
            size_bytes += batch.size_bytes
        return len(batches)

    def append_all(self, data: Buffer, batches: Sequence[BatchHeader], now_ms: int) -> None:
        """Append batches from another log unchanged, with one write.

        Args:
            data: the batches.
            batches: their headers, with positions in the buffer that contains `data`.
            now_ms: see `append`.

        Raises:
            OSError: see `append`.
        """
        first = batches[0]
        self.append(data, first, first.base_offset, now_ms)
        start = self.file.size_bytes - len(data) - first.position
        for batch in batches[1:]:
            self._note(batch, batch.last_offset, start + batch.position)

    def _note(self, batch: BatchHeader, last_offset: int, position: int) -> None:
        """Record a batch in the file: add index entries, and update the highest timestamp and next offset."""
        if self._first_timestamp is None:
            self._first_timestamp = batch.max_timestamp
        if batch.max_timestamp > self._max_timestamp:
            self._max_timestamp, self._max_timestamp_offset = batch.max_timestamp, last_offset
        if self._bytes_since_entry > self._config.index_interval_bytes:
            self._index.append(last_offset, position)
            self._time_index.append(self._max_timestamp, self._max_timestamp_offset)
            self._bytes_since_entry = 0
        self._bytes_since_entry += batch.size_bytes
        self.next_offset = last_offset + 1
        self._appended.append(BatchPlace(last_offset - batch.last_offset_delta, position, batch.size_bytes))

    def seal(self) -> None:
        """Complete the segment. No more batches are appended, and the time index ends with the highest timestamp."""
        if not self.is_sealed:
            self.is_sealed = True
            self._time_index.append(self._max_timestamp, self._max_timestamp_offset)

    def sync(self, *, with_indexes: bool) -> bool:
        """Make the batches and the transaction index durable, on any thread.

        Args:
            with_indexes: whether to write and sync the other indexes as well; if so, the segment must be sealed.

        Returns:
            Whether the file of the transaction index was created or removed.
        """
        self.file.sync()
        if with_indexes:
            self._index.store()
            if not self._is_partial:
                self._time_index.store()
        return self.transactions.store()

    def stored(self) -> None:
        """Record that the indexes are durable, and drop them from memory; they are read again on demand."""
        if not self.is_stored:
            self.is_stored = True
            self._is_indexed = False
            self._index.clear()
            self._time_index.clear()

    def release(self) -> None:
        """Release the file of a stored or empty segment until it is needed, since the log may never be used."""
        if self._file is not None and (self.is_stored or not self.size_bytes):
            self._size_bytes, self._file = self._file.size_bytes, None

    def retire(self) -> list[str]:
        """Rename the files so they are ignored, and return the files to remove later; may run on any thread.

        Raises:
            OSError: the disk failed.
        """
        retired = []
        for path in self._paths:
            with contextlib.suppress(FileNotFoundError):
                self._disk.rename(path, path + DELETED_SUFFIX)
                retired.append(path + DELETED_SUFFIX)
        return retired

    def delete(self) -> None:
        """Delete the files; slices returned earlier stay readable."""
        for path in self._paths:
            with contextlib.suppress(FileNotFoundError):
                self._disk.remove(path)

    # Truncating.

    def replace(self, truncated: Segment) -> None:
        """Take the place of the object that represented this segment before a truncation, on any thread.

        From now on, slices of earlier files fail where they extend past the end of this segment, even after later
        truncations, rather than return data that is appended later.

        Args:
            truncated: the object from before the truncation; its file has already been truncated.

        Raises:
            OSError: the disk failed.
        """
        former = (each() for each in truncated._former_files)
        files = [truncated.file, *(file for file in former if file is not None)]
        for file in files:
            if file.size_bytes > self.size_bytes:
                file.truncate(self.size_bytes)
        self._former_files = [ref(file) for file in files]

    def position_before(self, offset: int) -> int:
        """Return a position at or before the batch with `offset`, on any thread; 0 if no index is available."""
        index = self._index
        if not self._is_indexed:
            index, _ = self._new_indexes()
            if not index.load() or index.last_position >= self.size_bytes:
                return 0
        return index.position_for(offset)

    # Opening.

    def load(self) -> int:
        """Load the last segment of a log that was closed cleanly; if its index is damaged, recover the segment.

        Returns:
            The number of bytes that recovery cut off.

        Raises:
            DecodeError: the first batch, or one after the last index entry, is damaged.
        """
        if not self.size_bytes:
            self.is_stored = True
            return 0
        if not self._has_offsets():
            return self.recover()
        self._first_timestamp = next((first.max_timestamp for first in self.headers(0)), None)
        self.is_stored = True
        if not self._has_times():
            self.take(self.rebuild())
        next_offset = self.base_offset
        for batch in self.headers(self._index.last_position):
            self._bytes_since_entry += batch.size_bytes
            if batch.position + batch.size_bytes == self.size_bytes:  # the log continues after this batch
                lowest = max(next_offset, self._index.last_offset - batch.last_offset_delta)
                check_offsets(batch, lowest, self.base_offset + INT32_MAX)
            next_offset = batch.last_offset + 1
            if batch.max_timestamp > self._max_timestamp:
                self._max_timestamp, self._max_timestamp_offset = batch.max_timestamp, batch.last_offset
        self.next_offset = next_offset
        return 0

    def recover(self) -> int:
        """Check every batch, truncate the file after the last valid one, and rebuild the indexes by offset and time.

        Returns:
            The number of bytes cut off.
        """
        self.transactions.forget()
        rebuilt = self.rebuild()
        survey, problem = rebuilt.survey, rebuilt.problem
        self._index, self._time_index = rebuilt.offsets, rebuilt.times
        self.is_stored = self._is_partial = False
        self.next_offset = survey.next_offset
        self._max_timestamp, self._max_timestamp_offset = survey.max_timestamp, survey.max_timestamp_offset
        self._first_timestamp, self._bytes_since_entry = survey.first_timestamp, survey.bytes_since_entry
        if problem is None:
            self.has_producers = survey.has_producers
            return 0
        cut = self.size_bytes - survey.size_bytes
        line = "%s: cutting off the last %d of %d bytes; the log continues at offset %d: %s"
        logger.warning(line, self.where, cut, self.size_bytes, self.next_offset, problem)
        self.file.truncate(survey.size_bytes)
        return cut

    def needs_rebuild(self) -> bool:
        """Load the indexes of a sealed segment; return whether one is lost, so `rebuild` must precede a search.

        Raises:
            OSError: the disk failed.
        """
        if not self._is_indexed:
            # This comes last, as `highest_timestamp` may be called on another thread.
            self._is_indexed = self._has_offsets() and self._has_times()
        return not self._is_indexed

    def rebuild(self) -> Rebuilt:
        """Return new indexes by offset and by time, up to the first damaged batch, to pass to `take`, on any thread.

        Raises:
            OSError: the disk failed.
        """
        return rebuild(self.file, self.base_offset, self._config.index_interval_bytes, *self._new_indexes())

    def take(self, rebuilt: Rebuilt) -> None:
        """Use rebuilt indexes in place of lost files; an index that ends at a damaged batch is not stored.

        Damaged batches are kept: fetches fail there, but later batches can be read.
        """
        if not len(self._index):
            self._index = rebuilt.offsets
        self._time_index, survey = rebuilt.times, rebuilt.survey
        if survey.max_timestamp > self._max_timestamp:
            self._max_timestamp, self._max_timestamp_offset = survey.max_timestamp, survey.max_timestamp_offset
        if self.is_sealed:
            self._time_index.append(self._max_timestamp, self._max_timestamp_offset)
        if rebuilt.problem is not None:
            logger.error("%s: %s; reading later batches is slow", self.where, rebuilt.problem)
        self._is_partial = self.is_stored = rebuilt.problem is not None
        self._is_indexed = True

    def _new_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        disk, base_offset, size = self._disk, self.base_offset, self._config.segment_index_bytes
        _, path, time_path, _ = self._paths
        return OffsetIndex(disk, path, base_offset, size), TimeIndex(disk, time_path, base_offset, size)

    def _has_offsets(self) -> bool:
        """Load the index by offset; return whether it is plausible."""
        if self._index.load() and self._index.last_position < max(self.size_bytes, 1):
            return True
        self._index.clear()
        logger.warning("%s: an index is missing or damaged, and will be rebuilt", self.where)
        return False

    def _has_times(self) -> bool:
        """Load the index by time; return whether it is plausible."""
        if not self._load_times(self._time_index):
            logger.warning("%s: an index is missing or damaged, and will be rebuilt", self.where)
            return False
        if (entry := self._time_index.last_entry) is not None:
            self._max_timestamp, self._max_timestamp_offset = entry
        return True

    def _load_times(self, index: TimeIndex) -> bool:
        """Load an index by time, on any thread; return whether it is plausible.

        The index has no entries if no batch has a timestamp; to avoid reading all batches, only the first one is
        checked.
        """
        if not index.load():
            return False
        with contextlib.suppress(DecodeError):
            return len(index) > 0 or all(batch.max_timestamp <= NO_TIMESTAMP for batch in islice(self.headers(0), 1))
        return True

    def _need_indexes(self) -> None:
        if self.needs_rebuild():
            self.take(self.rebuild())

    # Reading.

    def headers(self, position: int, lowest: int | None = None) -> Iterator[BatchHeader]:
        """Yield batch headers from `position`, which must be the start of a batch; for `lowest`, see `batches.headers`.

        Raises:
            DamagedSegment: a batch is damaged, or the file ends inside it.
        """
        try:
            yield from headers(self.file, position, self.next_offset, lowest)
        except DecodeError as error:
            raise DamagedSegment(self.base_offset, error.path, error.offset, error.reason) from None

    def place_of(self, offset: int) -> BatchPlace | None:
        """Return the place of the batch with `offset` or, if compaction left a gap there, of the next one.

        Raises:
            DamagedSegment: see `find`.
        """
        for place in self._appended:
            if place.base_offset == offset:
                return place
        batch = self.find(offset)
        return None if batch is None else BatchPlace(batch.base_offset, batch.position, batch.size_bytes)

    def find(self, offset: int) -> BatchHeader | None:
        """Return the header of the batch with `offset` or, if compaction left a gap there, of the next one.

        Raises:
            DamagedSegment: a batch before it is damaged or misplaced.
        """
        self._need_indexes()
        for batch in self.headers(self._index.position_for(offset), self.base_offset):
            if batch.last_offset >= offset:
                return batch
        return None

    def offset_from(self, position: int) -> int | None:
        """Return an offset above those of all batches before `position`; None if the index has no such entry."""
        self._need_indexes()
        return self._index.offset_from(position)

    def from_time(self, timestamp: int) -> Iterator[BatchHeader]:
        """Yield the headers of the batches whose highest timestamp is at least `timestamp`.

        Raises:
            DamagedSegment: a batch before them is damaged.
        """
        self._need_indexes()
        offset = self.base_offset if self._is_partial else self._time_index.offset_before(timestamp)
        found = self.headers(self._index.position_for(offset), self.base_offset)
        yield from (batch for batch in found if batch.max_timestamp >= timestamp)
