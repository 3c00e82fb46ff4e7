"""Report the topics whose metadata the brokers deny, because no partition of them can be read.

The metadata is requested again while a topic is missing, so that reading goes on once an administrator has granted
access. Reads raise the error of a topic now and then, with growing pauses in between.

Source: Apache Kafka, `Metadata.maybeThrowAnyException`, which makes every `poll` raise the error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from kafkawire.sdk.consumer.read_queue import ReadQueue
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.routing.metadata import Metadata
from kafkawire.sdk.routing.retry import DENIALS, Attempts, Backoff

__all__ = ["DeniedTopics"]

logger = logging.getLogger("kafkawire.consumer")


class DeniedTopics:
    """The topics that a consumer wants to read but is not allowed to describe.

    Args:
        metadata: the metadata, with the errors of topics.
        queue: makes reads raise the errors.
        backoff: the client's pauses, from which those after denials are derived.
    """

    def __init__(self, metadata: Metadata, queue: ReadQueue[Any], backoff: Backoff) -> None:
        self._metadata = metadata
        self._queue = queue
        self._backoff = backoff
        self._denied: dict[str, Attempts] = {}

    @property
    def trouble(self) -> KafkaWireError | None:
        """The error of a denied topic; None if there is none. Any thread may ask."""
        return next((attempts.last_error for attempts in list(self._denied.values())), None)

    def look(self, wanted: Iterable[str], now_ms: int) -> set[str]:
        """Report the topics that the latest metadata denies, unless that was done a short while ago.

        Args:
            wanted: the topics to read; it is not iterated over while nothing is denied.
            now_ms: the time.

        Returns:
            The topics that were denied until now, and are known.
        """
        metadata = self._metadata
        denied = {name for name, code in metadata.errors.items() if code in DENIALS}
        if denied:
            denied.intersection_update(wanted)
        granted: set[str] = set()
        for name in self._denied.keys() - denied:
            del self._denied[name]
            self._queue.retract(name)
            if name in metadata.topics:
                granted.add(name)
                logger.info("access to topic %s has been granted", name)
        for name in sorted(denied):
            attempts = self._denied.setdefault(name, Attempts(self._backoff))
            if now_ms >= attempts.not_before_ms:
                error = BrokerError(metadata.errors[name], f"topic {name}")
                attempts.denied(error, now_ms)
                self._queue.report(error, name)
        return granted
