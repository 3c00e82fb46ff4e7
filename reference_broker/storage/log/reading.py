"""The reading half of a partition's log: what is in it, how far it can be read, and what waits for more.

Reads go to segments that are never changed under a reader; a read that fails concerns its request alone.

Source: `UnifiedLog.read`, `fetchOffsetByTimestamp` in Apache Kafka.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from kafkawire.reference_broker.storage.batches import BatchHeader, DamagedSegment
from kafkawire.reference_broker.storage.disk.disk import File
from kafkawire.reference_broker.storage.file_names import LOG_SUFFIX, file_name
from kafkawire.reference_broker.storage.log.epochs import LeaderEpochs
from kafkawire.reference_broker.storage.log.high_watermark import (
    COMPLETES_ANY_FETCH_BYTES,
    HighWatermark,
    Reached,
    Watcher,
)
from kafkawire.reference_broker.storage.log.last_stable_offset import LastStableOffset
from kafkawire.reference_broker.storage.producers.producers import Producers
from kafkawire.reference_broker.storage.segments.search_preparation import NotPrepared, Preparation
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.segments import Read, Segments, TimestampAndOffset
from kafkawire.reference_broker.storage.services import LogServices, storage_error
from kafkawire.reference_broker.work.background import at_once
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["ReadableLog"]

T = TypeVar("T")


class ReadableLog:
    """A partition's log as readers see it; `PartitionLog` writes it.

    Args:
        services: see `LogServices`.
        folder: `<topic>-<partition>`.
        segments: of the log.
        log_start_offset: the first readable offset.

    Attributes:
        folder: see above.
        segments: see above; replaced when they change.
        epochs: which leader wrote which offsets.
        producers: see `Producers`.
        next_offset: the offset of the next record, Kafka's log end offset.
        log_start_offset: see above.
        error: why nothing can be read or appended, None while all is well.
    """

    def __init__(self, services: LogServices, folder: str, segments: Segments, log_start_offset: int) -> None:
        self.folder = folder
        self.segments = segments
        self.epochs = LeaderEpochs([(0, 0)])
        self.producers = Producers(log_start_offset)
        self.next_offset = self.log_start_offset = log_start_offset
        self.error: BrokerError | None = None
        self._services = services
        self._disk = services.disk
        self._high_watermark = HighWatermark(log_start_offset)
        self._last_stable_offset = LastStableOffset(self._high_watermark)
        # Not a circle: the files of a log are closed as soon as nobody has it.
        this = weakref.proxy(self)
        self._preparation = Preparation(
            lambda work, done: this._in_background(work, done),
            lambda: this._wake(),
        )

    @property
    def leader_epoch(self) -> int:
        """The epoch that is stamped into appended batches."""
        return self.epochs.current

    @property
    def high_watermark(self) -> int:
        """The first offset that consumers may not read."""
        return self._high_watermark.offset

    @property
    def last_stable_offset(self) -> int:
        """The first offset that consumers of committed records may not read."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self._high_watermark.offset
        return min(max(unstable, self.log_start_offset), self._high_watermark.offset)

    def readable_to(self, *, is_committed: bool) -> int:
        """Return the first offset that a consumer may not read, one of committed records or any other."""
        return self.last_stable_offset if is_committed else self.high_watermark

    @property
    def size_bytes(self) -> int:
        """The size of all batches."""
        return self.segments.size_bytes if self.error is None else 0

    @property
    def is_offline(self) -> bool:
        """Whether the disk has failed."""
        return self.error is not None and self.error.code == ErrorCode.KAFKA_STORAGE_ERROR

    # Its start.

    def begin_at(self, offset: int) -> None:
        """Move the start of the log; what is before it is not read any more.

        Args:
            offset: up to the high watermark; a lower one than before changes nothing.
        """
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.begin_at(offset)
            self._high_watermark.watchers.tell(0)

    def drop_first(self, count: int) -> tuple[Segment, ...]:
        """Begin the log with a later segment; return those before it, whose files are no longer needed.

        Args:
            count: how many go; they are durable, and before the high watermark.
        """
        dropped, self.segments = self.segments.without_first(count)
        self.begin_at(self.segments.first.base_offset)
        return dropped

    # Waiting.

    def when_reached(self, offset: int, callback: Reached) -> None:
        """Call back once the high watermark is at `offset` or after it, or never will be."""
        self._high_watermark.when_reached(offset, callback)

    def watch(self, watcher: Watcher, *, is_committed: bool = False) -> None:
        """Call `watcher` with the number of bytes whenever more can be read, until `unwatch`.

        Args:
            watcher: see above.
            is_committed: whether only committed records count, up to the last stable offset.
        """
        (self._last_stable_offset if is_committed else self._high_watermark).watch(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Stop calling a watcher; may be called more than once."""
        self._high_watermark.unwatch(watcher)
        self._last_stable_offset.unwatch(watcher)

    @property
    def is_watched(self) -> bool:
        """Whether anybody watches."""
        return self._high_watermark.is_watched or self._last_stable_offset.is_watched

    # Reading.

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        at_least_one: bool,
        up_to: int | None = None,
        is_committed: bool = False,
    ) -> Read:
        """Return batches from `offset` on, as a region of a file.

        Args:
            offset: the first offset to read.
            max_bytes: upper bound of the region.
            at_least_one: whether to return the first batch whole even if it is larger than `max_bytes`.
            up_to: where to end, None for the high watermark, or the last stable offset.
            is_committed: whether to read to the last stable offset, and look for aborted transactions.

        Raises:
            NotPrepared: the index of a segment is being rebuilt; those who watch are told when it is there.
            BrokerError: OFFSET_OUT_OF_RANGE; CORRUPT_MESSAGE, a batch is damaged; KAFKA_STORAGE_ERROR; or `error`.
        """
        self._check()
        if not self.log_start_offset <= offset <= self.next_offset:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset}, expected {self.log_start_offset} to {self.next_offset}",
            )
        if up_to is None:
            up_to = self.readable_to(is_committed=is_committed)
        if offset >= up_to:
            return Read(None, is_first_whole=False, aborted=() if is_committed else None)
        return self._reading(
            lambda: self.segments.read(
                offset,
                max_bytes,
                up_to,
                at_least_one=at_least_one,
                with_aborted=is_committed,
                prepare=self._preparation.indexes,
            )
        )

    def headers(self) -> Iterator[tuple[File, BatchHeader]]:
        """Yield the header of every batch, and the file that the batch is in.

        Raises:
            DecodeError: a batch is damaged.
            OSError: the disk failed.
        """
        return self.segments.headers()

    def offset_for_timestamp(self, timestamp: int, *, is_committed: bool = False) -> TimestampAndOffset | None:
        """Return the first record at or after `timestamp`; None if no record is that recent, or that cannot be read.

        Args:
            timestamp: milliseconds since the epoch.
            is_committed: see `readable_to`.

        Raises:
            NotPrepared: see `when_prepared`.
            BrokerError: CORRUPT_MESSAGE, a batch is damaged; KAFKA_STORAGE_ERROR; or `error`.
        """
        self._check()
        preparation, start = self._preparation, self.log_start_offset
        found = self._reading(
            lambda: self.segments.offset_for_timestamp(
                timestamp,
                start,
                prepare=preparation.indexes,
                prepare_times=partial(preparation.times, self.segments),
            )
        )
        return found if found is not None and found.offset < self.readable_to(is_committed=is_committed) else None

    def max_timestamp(self, *, is_committed: bool = False) -> TimestampAndOffset | None:
        """Return the first record that has the highest timestamp; None in an empty log, or if it cannot be read.

        Raises:
            BrokerError: as `offset_for_timestamp`.
        """
        self._check()
        highest = self._reading(lambda: self.segments.max_timestamp(partial(self._preparation.times, self.segments)))
        return None if highest == NO_TIMESTAMP else self.offset_for_timestamp(highest, is_committed=is_committed)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch in which `offset` was, or will be, written."""
        return self.epochs.at(offset)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the highest leader epoch up to `epoch`, and where it ends; see `LeaderEpochs.end_of`.

        Raises:
            BrokerError: `error`.
        """
        self._check()
        return self.epochs.end_of(epoch, self.next_offset)

    # What takes time.

    def when_prepared(self, read: Callable[[], T], done: Callable[[T | BrokerError], None]) -> None:
        """Read as soon as what the read needs is there.

        Args:
            read: a call of this log that may raise NotPrepared.
            done: called once with what it returns, or the error; usually before this returns.
        """
        try:
            found: T | BrokerError = read()
        except NotPrepared:
            self._preparation.when_done(lambda: self.when_prepared(read, done))
            return
        except BrokerError as error:
            found = error
        except Exception as error:
            # A defect; the request that waits has to be answered.
            where, now_ms = self._disk.describe(self.folder), self._services.clock()
            self._services.lines.exception(("defect", where), now_ms, "%s: a read failed", where)
            found = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        done(found)

    def _wake(self) -> None:
        """Have those who watch read again."""
        self._high_watermark.watchers.tell(COMPLETES_ANY_FETCH_BYTES)
        self._last_stable_offset.wake()

    def _in_background(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Do something that takes time; a log with services does it elsewhere."""
        at_once(work, done)

    def _check(self) -> None:
        if self.error is not None:
            raise self.error.again()

    def _reading(self, read: Callable[[], T]) -> T:
        """Read; what fails concerns this request alone, since nothing that was acknowledged is at stake.

        A client may ask again and again: lines about the same file are held back.
        """
        try:
            return read()
        except DamagedSegment as error:
            where = self._disk.describe(f"{self.folder}/{file_name(error.base_offset, LOG_SUFFIX)}")
            self._services.lines.error(("damaged", where), self._services.clock(), "%s: %s", where, error)
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        except OSError as error:
            where, now_ms = self._disk.describe(self.folder), self._services.clock()
            self._services.lines.error(("unreadable", where), now_ms, "%s cannot be read: %s", where, error)
            raise storage_error(error) from error
