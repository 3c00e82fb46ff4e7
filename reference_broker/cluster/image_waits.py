"""Waiting until this broker's metadata image shows what was written to the registry.

    request ──write──▶ registry ──▶ controller ──UpdateMetadata──▶ image ──delta──▶ ImageWaits ──▶ response

Source: `DelayedCreatePartitions`, `DelayedDeleteTopics` in Apache Kafka 3.9.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kafkawire.reference_broker.metadata.image import MetadataDelta, TopicImage
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.work.timers import Timer, Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["WAITS_MAX", "ImageWaits", "Shows", "WaitDone"]

_log = logging.getLogger("kafkawire.broker")

#: The maximum number of waits. When a client goes away, its wait remains until it times out, so the oldest wait makes
#: room for a new one.
WAITS_MAX: Final = 10_000

#: Returns whether a topic (None if it is not in the image) matches what was written.
Shows = Callable[[TopicImage | None], bool]

#: Called with None once the image shows the change, or with REQUEST_TIMED_OUT.
WaitDone = Callable[[BrokerError | None], None]


class _Wait:
    """A wait for one topic."""

    __slots__ = ("deadline", "done", "name", "shows")

    def __init__(self, name: str, shows: Shows, done: WaitDone) -> None:
        self.name = name
        self.shows = shows
        self.done = done
        self.deadline: Timer | None = None


class ImageWaits:
    """The waits in a broker; `changed` must be registered as a listener of the metadata.

    Args:
        metadata: holds the image.
        timers: used for the deadlines of waits.
        clock: returns the time in ms.
    """

    def __init__(self, metadata: MetadataCache, timers: Timers, clock: Callable[[], int]) -> None:
        self._metadata = metadata
        self._timers = timers
        self._clock = clock
        #: The waits, in the order in which they started.
        self._waits: dict[_Wait, None] = {}
        self._by_topic: dict[str, dict[_Wait, None]] = {}

    def wait(self, name: str, shows: Shows, done: WaitDone, timeout_ms: int) -> None:
        """Wait for a change to a topic.

        Args:
            name: the topic's name.
            shows: see `Shows`.
            done: see `WaitDone`; called immediately if the image already shows the change.
            timeout_ms: how long to wait.
        """
        self.wait_until(name, shows, done, self._clock() + timeout_ms)

    def wait_until(self, name: str, shows: Shows, done: WaitDone, deadline_ms: int) -> None:
        """Wait for a change to a topic until a point in time, which may already have passed; see `wait`."""
        if shows(self._metadata.image.topics.get(name)):
            done(None)
            return
        if len(self._waits) >= WAITS_MAX:
            self._time_out(next(iter(self._waits)))
        wait = _Wait(name, shows, done)
        wait.deadline = self._timers.at(deadline_ms, lambda now_ms: self._time_out(wait))
        self._waits[wait] = None
        self._by_topic.setdefault(name, {})[wait] = None

    def changed(self, delta: MetadataDelta) -> None:
        """End the waits for changes that a delta shows."""
        for change in delta.topics:
            topic = delta.after.topics.get(change.name)
            for wait in [wait for wait in self._by_topic.get(change.name, ()) if wait.shows(topic)]:
                self._end(wait, None)

    def _time_out(self, wait: _Wait) -> None:
        self._end(wait, BrokerError(ErrorCode.REQUEST_TIMED_OUT))

    def _end(self, wait: _Wait, error: BrokerError | None) -> None:
        if wait not in self._waits:  # the callback of another wait has ended it
            return
        del self._waits[wait]
        of_topic = self._by_topic[wait.name]
        del of_topic[wait]
        if not of_topic:
            del self._by_topic[wait.name]
        if wait.deadline is not None:
            wait.deadline.cancel()
        try:
            wait.done(error)
        except Exception:  # a defect, which must not keep other waits from ending
            _log.exception("topic %s was changed, but the request could not be answered", wait.name)
