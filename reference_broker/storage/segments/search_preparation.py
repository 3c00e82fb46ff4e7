"""Prepare segments for searches: rebuild indexes, and look up the highest timestamp.

For a segment of 1 GiB, either may take seconds, so both run in the background, once for all requests that wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.segments import Segments
from kafkawire.reference_broker.work.background import Background, call
from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["NotPrepared", "Preparation"]

T = TypeVar("T")

#: The number of segments whose highest timestamp is looked up before a search restarts; this takes a few milliseconds.
_LOOKED_UP_TOGETHER = 64


class NotPrepared(BrokerError):
    """A segment cannot be searched yet; `Preparation.when_done` reports when to retry.

    Args:
        base_offset: base offset of the segment.
    """

    def __init__(self, base_offset: int) -> None:
        super().__init__(ErrorCode.OFFSET_NOT_AVAILABLE, f"the indexes of segment {base_offset} are being read")


class Preparation:
    """Prepares the segments of one log for searches.

    Args:
        background: runs the preparation.
        told: called when a preparation has succeeded or failed.
    """

    def __init__(self, background: Background, told: Callable[[], None]) -> None:
        self._background = background
        self._told = told
        self._running: set[Segment] = set()
        #: Failures to report to the next search of the segment; the search after that retries.
        self._failed: dict[Segment, Exception] = {}
        self._waiting: list[Callable[[], None]] = []

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when `told` is called next. Each waiting partition of a request calls this once."""
        self._waiting.append(callback)

    def indexes(self, segment: Segment) -> None:
        """Ensure that the indexes of a segment are loaded; see `Prepare`.

        Raises:
            NotPrepared: the indexes are being rebuilt.
            OSError: the disk failed.
        """
        self._check(segment)
        if segment.needs_rebuild():
            self._begin(segment, segment.rebuild, segment.take)

    def times(self, segments: Segments, segment: Segment) -> None:
        """Ensure that the highest timestamp of a segment is known; see `Prepare`.

        Args:
            segments: the segments of the log, since a search may need several.
            segment: one of these segments.

        Raises:
            NotPrepared: the timestamp is being looked up.
            OSError: the disk failed.
        """
        self._check(segment)
        if not segment.knows_highest_timestamp:
            following = segments.since(segment.base_offset)[:_LOOKED_UP_TOGETHER]
            self._begin(segment, lambda: _look_up(segment, following), lambda _: None)

    def hold(self, segments: Iterable[Segment]) -> Callable[[], None]:
        """Make searches of segments wait while the segments change; no preparation of them may be running.

        Returns:
            A function that ends the wait.
        """
        held = set(segments)
        self._running |= held

        def release() -> None:
            self._running -= held
            self._tell()

        return release

    def _check(self, segment: Segment) -> None:
        if segment in self._running:
            raise NotPrepared(segment.base_offset)
        error = self._failed.pop(segment, None)
        if error is not None:
            raise error

    def _begin(self, segment: Segment, work: Callable[[], T], take: Callable[[T], None]) -> None:
        found: list[T] = []

        def run() -> None:
            found.append(work())

        def done(error: Exception | None) -> None:
            self._running.remove(segment)
            if error is None:
                take(found[0])
            else:
                self._failed[segment] = error
            self._tell()

        self._running.add(segment)
        self._background(run, done)
        self._check(segment)

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in (self._told, *waiting):
            call(callback)


def _look_up(wanted: Segment, segments: Sequence[Segment]) -> None:
    for segment in segments:
        try:
            segment.highest_timestamp()
        except DecodeError:
            pass  # the next request gets the error
        except OSError:
            if segment is wanted:
                raise
            return  # the preparation is retried on demand
