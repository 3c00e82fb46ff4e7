"""Measure a member's rebalances under any protocol: their number, duration and failures."""

from __future__ import annotations

from kafkawire.sdk.metrics.catalogue import COORDINATOR
from kafkawire.sdk.metrics.registry import Registry

__all__ = ["RebalanceMetrics"]

_SECOND_MS = 1_000


class RebalanceMetrics:
    """The rebalances of one member.

    Args:
        registry: the client's registry.
    """

    def __init__(self, registry: Registry) -> None:
        self._ended = registry.sensor(COORDINATOR, "rebalance", "rebalance-latency")
        self._failed = registry.sensor(COORDINATOR, "failed-rebalance")
        self._begun_ms: int | None = None
        self._last_ms: int | None = None
        registry.gauge(
            COORDINATOR,
            "last-rebalance-seconds-ago",
            lambda now_ms: -1 if self._last_ms is None else (now_ms - self._last_ms) / _SECOND_MS,
        )

    def begun(self, now_ms: int) -> None:
        """Record that the member takes part in a rebalance; further attempts belong to the same rebalance."""
        if self._begun_ms is None:
            self._begun_ms = now_ms

    def left(self) -> None:
        """Record that the member has left the group, so its next rebalance is counted as a new one."""
        self._begun_ms = None

    def ended(self, now_ms: int) -> None:
        """Record the end of a rebalance, if one was running."""
        if self._begun_ms is not None:
            self._ended.record(now_ms - self._begun_ms, now_ms)
            self._begun_ms, self._last_ms = None, now_ms

    def failed(self, now_ms: int) -> None:
        """Record a failed attempt, if a rebalance was running."""
        if self._begun_ms is not None:
            self._failed.record(1, now_ms)
