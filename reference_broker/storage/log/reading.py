"""Read a log: search its segments, and handle failed reads.

Segments never change while they are being read. A failed read affects only its request, since no acknowledged data is
at stake.

Source: `UnifiedLog.read`, `fetchOffsetByTimestamp` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from kafkawire.reference_broker.storage.batches import DamagedSegment
from kafkawire.reference_broker.storage.segments.search_preparation import NotPrepared, Preparation
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.segments import Read, Segments, TimestampAndOffset
from kafkawire.reference_broker.storage.services import LogServices, storage_error
from kafkawire.reference_broker.work.background import Background
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.file_names import LOG_SUFFIX, file_name

__all__ = ["LogReader"]

T = TypeVar("T")


class LogReader:
    """Reads the segments of one log.

    Args:
        services: see `LogServices`.
        folder: folder of the log.
        background: see `Background`.
        prepared: called when a segment has become searchable.
    """

    def __init__(
        self, services: LogServices, folder: str, background: Background, prepared: Callable[[], None]
    ) -> None:
        self._services = services
        self._folder = folder
        self._preparation = Preparation(background, prepared)

    def read(
        self, segments: Segments, offset: int, max_bytes: int, up_to: int, *, at_least_one: bool, with_aborted: bool
    ) -> Read:
        """Return the batches starting at `offset`, as a region of a file; see `Segments.read`.

        Raises:
            NotPrepared: the index of a segment is being rebuilt.
            BrokerError: CORRUPT_MESSAGE if a batch is damaged; otherwise KAFKA_STORAGE_ERROR.
        """
        return self._guarded(
            lambda: segments.read(
                offset,
                max_bytes,
                up_to,
                at_least_one=at_least_one,
                with_aborted=with_aborted,
                prepare=self._preparation.indexes,
            )
        )

    def offset_for_timestamp(self, segments: Segments, timestamp: int, start: int) -> TimestampAndOffset | None:
        """Return the first record from offset `start` on whose timestamp is at least `timestamp`, or None.

        Raises:
            NotPrepared: see `when_prepared`.
            BrokerError: see `read`.
        """
        return self._guarded(
            lambda: segments.offset_for_timestamp(
                timestamp,
                start,
                prepare=self._preparation.indexes,
                prepare_times=partial(self._preparation.times, segments),
            )
        )

    def max_timestamp(self, segments: Segments) -> int:
        """Return the highest timestamp; `NO_TIMESTAMP` if there are no records.

        Raises:
            NotPrepared: see `when_prepared`.
            BrokerError: see `read`.
        """
        return self._guarded(lambda: segments.max_timestamp(partial(self._preparation.times, segments)))

    def hold(self, segments: Iterable[Segment]) -> Callable[[], None]:
        """See `Preparation.hold`."""
        return self._preparation.hold(segments)

    def when_prepared(self, read: Callable[[], T], done: Callable[[T | BrokerError], None]) -> None:
        """Call `read` as soon as its prerequisites are ready.

        Args:
            read: may raise NotPrepared.
            done: called once with the result or the error, usually before this method returns.
        """
        try:
            found: T | BrokerError = read()
        except NotPrepared:
            self._preparation.when_done(lambda: self.when_prepared(read, done))
            return
        except BrokerError as error:
            found = error
        except Exception as error:
            # This is a defect; the waiting request has to be answered.
            where, now_ms = self._services.disk.describe(self._folder), self._services.clock()
            self._services.lines.exception(("defect", where), now_ms, "%s: a read failed", where)
            found = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        done(found)

    def _guarded(self, read: Callable[[], T]) -> T:
        """Read, and log failures. Clients may retry in a loop, so repeated lines about the same file are suppressed."""
        disk, lines, clock = self._services.disk, self._services.lines, self._services.clock
        try:
            return read()
        except DamagedSegment as error:
            where = disk.describe(f"{self._folder}/{file_name(error.base_offset, LOG_SUFFIX)}")
            lines.error(("damaged", where), clock(), "%s: %s", where, error)
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        except OSError as error:
            where = disk.describe(self._folder)
            lines.error(("unreadable", where), clock(), "%s cannot be read: %s", where, error)
            raise storage_error(error) from error
