"""Pass a client's metrics to one of the application's functions, periodically and when the client ends."""

from __future__ import annotations

import logging

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.metrics.names import MetricsReporter
from kafkawire.sdk.metrics.registry import Registry
from kafkawire.sdk.transport.user_code import contained

__all__ = ["MetricsReport"]

logger = logging.getLogger("kafkawire.client")


class MetricsReport:
    """A machine that calls the application's function.

    Args:
        registry: the client's registry.
        reporter: receives the metrics, on the thread that does the client's I/O; its errors are logged.
        interval_ms: the time between two calls.
    """

    def __init__(self, registry: Registry, reporter: MetricsReporter, interval_ms: int) -> None:
        self._registry = registry
        self._reporter = reporter
        self._interval_ms = interval_ms
        self._due_ms: int | None = None
        self._lines = LogLimit(logger)

    def poll(self, now_ms: int) -> None:
        """Call the function if a call is due; the first one is due one interval after startup."""
        is_due = self._due_ms is not None and now_ms >= self._due_ms
        if is_due or self._due_ms is None:
            self._due_ms = now_ms + self._interval_ms
            if is_due:
                self._report(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        return self._due_ms

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """Call the function for the last time, because the client has ended."""
        self._report(now_ms)

    def _report(self, now_ms: int) -> None:
        try:
            self._reporter(self._registry.read(now_ms))
        except BaseException as error:
            contained(error)
            self._lines.error("reporter", now_ms, "the metrics_reporter raised %r", error)
