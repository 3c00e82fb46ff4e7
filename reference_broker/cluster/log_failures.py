"""Tells the controller about failed logs on this broker by creating a node under `/log_dir_event_notification`.

The controller then asks this broker, with LeaderAndIsr, which of its partitions are offline. Failures that occur
together are reported once.

Source: `ReplicaManager.handleLogDirFailure`, `KafkaZkClient.propagateLogDirEvent` in Apache Kafka 3.9.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kafkawire.reference_broker.cluster.startup import node_acl
from kafkawire.reference_broker.work.timers import Later
from kafkawire.sdk.protocol.tables.znodes import LOG_DIR_EVENT, LogDirEvent
from kafkawire.sdk.registry.registry import CreateMode, Registry
from kafkawire.sdk.registry.steps import Steps, across_sessions, create, run

__all__ = ["BURST_MS", "LogFailures"]

_log = logging.getLogger("kafkawire.broker")

#: Failures within this time are reported together, since a failed disk takes down thousands of logs.
BURST_MS: Final = 1_000


class LogFailures:
    """The log failures of one broker.

    Args:
        registry: the cluster's registry.
        broker_id: the id of this broker.
        later: the timer.
        is_secure: whether only brokers may change the node (`zookeeper.set.acl`).
    """

    def __init__(self, registry: Registry, broker_id: int, later: Later, *, is_secure: bool = False) -> None:
        self._registry = registry
        self._broker_id = broker_id
        self._later = later
        self._acl = node_acl(LOG_DIR_EVENT, is_secure=is_secure)
        self._stop: Callable[[], None] | None = None
        self._is_closed = False

    def lost(self, topic: str, number: int) -> None:
        """Record that the log of a partition has failed."""
        if self._stop is None and not self._is_closed:
            self._stop = self._later(BURST_MS, self._tell)

    def close(self) -> None:
        """Stop reporting."""
        self._is_closed = True
        if self._stop is not None:
            self._stop()

    def _tell(self) -> None:
        self._stop = None

        def failed(error: Exception) -> None:
            _log.error("could not report failed logs to the controller: %s", error)

        run(self._registry, across_sessions(self._write), lambda path: None, failed)

    def _write(self) -> Steps[None]:
        content = LOG_DIR_EVENT.encode(LogDirEvent(self._broker_id))
        yield from create(LOG_DIR_EVENT.prefix, content, CreateMode.PERSISTENT_SEQUENTIAL, self._acl)
