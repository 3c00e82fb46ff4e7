"""One segment of a log: the batches from a base offset on, with their indexes.

A segment is appended to until it is rolled, and read by position. The files have Kafka's formats, so that its tools can
read them; the indexes can be rebuilt from the `.log` file.

Source: `LogSegment` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from kafkawire.reference_broker.log.batches import BatchHeader, check_no_gap, headers_in, read_header
from kafkawire.reference_broker.log.config import LogConfig
from kafkawire.reference_broker.log.file import LogFile
from kafkawire.reference_broker.log.index import OffsetIndex, TimeIndex
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP

__all__ = ["INDEX_SUFFIX", "LOG_SUFFIX", "TIME_INDEX_SUFFIX", "Segment", "base_offset_of"]

logger = logging.getLogger("kafkawire.broker")

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"

_NAME_DIGITS = 20
_INT32_MAX = 2**31 - 1


class Segment:
    """A segment file and its indexes.

    Args:
        folder: the partition's folder.
        base_offset: names the files; the lowest offset allowed in them.
        config: sizes and intervals.

    Attributes:
        next_offset: the offset after the last one in the file.
        max_timestamp: the highest timestamp of its batches, `NO_TIMESTAMP` if it is empty.
        max_timestamp_offset: the last offset of the first batch that has it.
    """

    def __init__(self, folder: Path, base_offset: int, config: LogConfig) -> None:
        name = f"{base_offset:0{_NAME_DIGITS}}"
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.file = LogFile(folder / f"{name}{LOG_SUFFIX}")
        self.index = OffsetIndex(folder / f"{name}{INDEX_SUFFIX}", base_offset, config.segment_index_bytes)
        self.time_index = TimeIndex(folder / f"{name}{TIME_INDEX_SUFFIX}", base_offset, config.segment_index_bytes)
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self._paths = [folder / f"{name}{suffix}" for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
        self._config = config
        self._bytes_since_entry = 0
        self._first_timestamp: int | None = None

    @property
    def size_bytes(self) -> int:
        """The size of the batches."""
        return self.file.size_bytes

    def is_full_for(self, batch: BatchHeader) -> bool:
        """Return whether the log must be rolled before `batch` is appended."""
        config = self._config
        if not self.size_bytes:
            return False
        first = self._first_timestamp
        return (
            self.size_bytes + batch.size_bytes > config.segment_bytes
            or self.index.is_full
            or self.time_index.is_full
            or self.next_offset + batch.last_offset_delta - self.base_offset > _INT32_MAX
            or (first is not None and batch.max_timestamp - first > config.segment_ms)
        )

    def append(self, data: bytes | bytearray | memoryview, batch: BatchHeader, base_offset: int) -> None:
        """Append a batch.

        Args:
            data: the stamped batch.
            batch: its header, as produced.
            base_offset: its base offset in the log.

        Raises:
            OSError: it could not be written; the segment is unchanged.
        """
        position = self.file.size_bytes
        self.file.append(data)
        self._note(batch, base_offset + batch.last_offset_delta, position)

    def _note(self, batch: BatchHeader, last_offset: int, position: int) -> None:
        """Account for a batch in the file: index entries, highest timestamp, next offset."""
        if self._first_timestamp is None:
            self._first_timestamp = batch.max_timestamp
        if batch.max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = batch.max_timestamp, last_offset
        if self._bytes_since_entry > self._config.index_interval_bytes:
            self.index.append(last_offset, position)
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
            self._bytes_since_entry = 0
        self._bytes_since_entry += batch.size_bytes
        self.next_offset = last_offset + 1

    def seal(self) -> None:
        """Add the highest timestamp to the time index, before the segment is rolled or the log is closed."""
        if self.max_timestamp != NO_TIMESTAMP:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)

    def sync(self) -> None:
        """Sync batches and indexes to disk."""
        self.file.sync()
        self.index.sync()
        self.time_index.sync()

    def delete(self) -> None:
        """Delete the files; slices handed out before stay readable."""
        for path in self._paths:
            path.unlink(missing_ok=True)

    # Opening.

    def load(self) -> int:
        """Load a cleanly closed segment; if an index is damaged, recover the segment.

        Returns:
            The number of bytes that recovery cut off.

        Raises:
            DecodeError: a batch after the last index entry is damaged.
        """
        if not (self.index.load() and self.time_index.load()) or self.index.last_position >= max(self.size_bytes, 1):
            return self.recover()
        if (entry := self.time_index.last_entry) is not None:
            self.max_timestamp, self.max_timestamp_offset = entry
        first = next(self.headers(0), None)
        self._first_timestamp = None if first is None else first.max_timestamp
        next_offset = self.base_offset
        for batch in self.headers(self.index.last_position):
            self._bytes_since_entry += batch.size_bytes
            next_offset = batch.last_offset + 1
            if batch.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = batch.max_timestamp, batch.last_offset
        self.next_offset = next_offset
        return 0

    def recover(self) -> int:
        """Check every batch, truncate the file after the last valid one, and rebuild the indexes.

        Returns:
            The number of bytes cut off.
        """
        self.index.clear()
        self.time_index.clear()
        self.max_timestamp, self._first_timestamp, self._bytes_since_entry = NO_TIMESTAMP, None, 0
        self.next_offset = self.base_offset
        end = 0
        cut = 0
        try:
            for batch in headers_in(self.file, self.next_offset):
                self._note(batch, batch.last_offset, batch.position)
                end = batch.position + batch.size_bytes
        except DecodeError as error:
            cut = self.file.size_bytes - end
            logger.warning("%s: cutting off the last %d bytes, from %d on: %s", self._paths[0], cut, end, error)
            self.file.truncate(end)
        self.seal()
        return cut

    # Reading.

    def headers(self, position: int) -> Iterator[BatchHeader]:
        """Yield the headers of the batches from `position`, the start of a batch, to the end.

        Raises:
            DecodeError: a batch is damaged, or the file ends inside it.
        """
        end = self.file.size_bytes
        previous = None
        while position < end:
            batch = read_header(self.file, position)
            if previous is not None:
                check_no_gap(self.file, previous, batch.base_offset)
            yield batch
            previous = batch
            position += batch.size_bytes
        if previous is not None:
            check_no_gap(self.file, previous, self.next_offset)

    def find(self, offset: int) -> BatchHeader | None:
        """Return the header of the batch with `offset` or, if compaction left a gap there, of the next one.

        Raises:
            DecodeError: a batch before it is damaged.
        """
        for batch in self.headers(self.index.position_for(offset)):
            if batch.last_offset >= offset:
                return batch
        return None

    def find_time(self, timestamp: int) -> BatchHeader | None:
        """Return the header of the first batch whose highest timestamp is at least `timestamp`.

        Raises:
            DecodeError: a batch on the way there is damaged.
        """
        if self.max_timestamp < timestamp:
            return None
        start = self.index.position_for(self.time_index.offset_before(timestamp))
        return next((batch for batch in self.headers(start) if batch.max_timestamp >= timestamp), None)


def base_offset_of(path: Path) -> int | None:
    """Return the base offset in the name of a segment file; None for any other file."""
    name = path.name.removesuffix(LOG_SUFFIX)
    return int(name) if path.suffix == LOG_SUFFIX and len(name) == _NAME_DIGITS and name.isdigit() else None
