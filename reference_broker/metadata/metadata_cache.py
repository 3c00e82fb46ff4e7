"""The metadata image as it is now, and who acts when it changes.

    source ──present, deleted──▶ MetadataCache ──delta──▶ replicas, coordinators, …

Every listener gets every delta once, in order. A delta that comes while an earlier one is being told, such as that of a
log that fails then, waits until all listeners know the earlier one, and so does its image.

Source: `MetadataLoader`, `MetadataPublisher`, `KRaftMetadataCache` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable

from kafkawire.reference_broker.metadata.image import MetadataDelta, MetadataImage, TopicImage

__all__ = ["MetadataCache", "MetadataListener"]

_log = logging.getLogger("kafkawire.broker")

#: Called with each change of the metadata.
MetadataListener = Callable[[MetadataDelta], None]


class MetadataCache:
    """What handlers read of the cluster.

    Args:
        image: the first one.

    Attributes:
        image: the current one. A handler that works in pieces takes it once, so that its answer is of one moment.
        newest: the one that all published deltas lead to; listeners may not know of the last ones yet.
    """

    def __init__(self, image: MetadataImage) -> None:
        self.image = self.newest = image
        self._listeners: list[MetadataListener] = []
        #: Those that wait are of logs that fail while others are told: one for each partition at most.
        self._untold: deque[MetadataDelta] = deque()
        self._is_telling = False
        self._is_closed = False

    def listen(self, listener: MetadataListener) -> None:
        """Have a listener told of every change from now on, after those that listen already."""
        self._listeners.append(listener)

    def publish(self, present: Iterable[TopicImage] = (), deleted: Iterable[str] = ()) -> None:
        """Change topics, and tell all listeners; see `MetadataImage.with_topics`."""
        if self._is_closed:
            return
        delta = self.newest.with_topics(present, deleted)
        self.newest = delta.after
        self._untold.append(delta)
        if not self._is_telling:
            self._tell()

    def close(self) -> None:
        """Tell nobody any more, and forget who listened: what they have is closed next, also on other threads."""
        self._is_closed = True
        self._listeners.clear()

    def _tell(self) -> None:
        self._is_telling = True
        try:
            while self._untold:
                delta = self._untold.popleft()
                self.image = delta.after
                for listener in tuple(self._listeners):
                    try:
                        listener(delta)
                    except Exception:  # a defect, which must not keep the others from what they have to know
                        _log.exception("a change of the metadata was not acted on")
        finally:
            self._is_telling = False
