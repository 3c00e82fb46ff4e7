"""The current metadata image, and the listeners that follow its changes.

    source ──topics, brokers──▶ MetadataCache ──delta──▶ replicas, coordinators, …

Every listener gets every delta once, in order. If a delta is published while an earlier one is being delivered, for
example because a log has just failed, the new delta and its image are held back until all listeners have received the
earlier one.

Source: `MetadataLoader`, `MetadataPublisher`, `KRaftMetadataCache` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from kafkawire.reference_broker.metadata.image import (
    BrokerRegistration,
    FinalizedFeatures,
    MetadataDelta,
    MetadataImage,
    TopicImage,
)

__all__ = ["MetadataCache", "MetadataListener"]

_log = logging.getLogger("kafkawire.broker")

#: Called with each change to the metadata.
MetadataListener = Callable[[MetadataDelta], None]


class MetadataCache:
    """Access to the metadata image for handlers.

    Args:
        image: the first image.

    Attributes:
        image: the current image. A handler that works in steps must read it only once, for a consistent answer.
        newest: the image after all published deltas, the last of which listeners may not have received yet.
    """

    def __init__(self, image: MetadataImage) -> None:
        self.image = self.newest = image
        self._listeners: list[MetadataListener] = []
        #: The waiting deltas, which come from logs that fail during delivery: at most one per partition.
        self._untold: deque[MetadataDelta] = deque()
        self._is_telling = False
        self._is_closed = False

    def listen(self, listener: MetadataListener) -> None:
        """Add a listener for every change from now on, to be called after earlier listeners."""
        self._listeners.append(listener)

    def publish(
        self,
        present: Iterable[TopicImage] = (),
        deleted: Iterable[str] = (),
        *,
        brokers: Mapping[int, BrokerRegistration] | None = None,
        controller_id: int | None = None,
        features: FinalizedFeatures | None = None,
    ) -> None:
        """Change the metadata and notify all listeners; see `MetadataImage.with_changes`."""
        if self._is_closed:
            return
        delta = self.newest.with_changes(
            present, deleted, brokers=brokers, controller_id=controller_id, features=features
        )
        self.newest = delta.after
        self._untold.append(delta)
        if not self._is_telling:
            self._tell()

    def close(self) -> None:
        """Drop all listeners and ignore later changes; listeners' resources are closed next, some on other threads."""
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
                    except Exception:  # a defect, which must not keep other listeners from receiving the delta
                        _log.exception("a listener failed to apply a metadata change")
        finally:
            self._is_telling = False
