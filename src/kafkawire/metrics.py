"""The metrics of clients: as numbers, keyed by name, from the `metrics()` of each client; and as text for Prometheus.

    producer.metrics()[MetricName("producer-metrics", "record-queue-time-avg")]
    openmetrics(producer, consumer)  # the body of the response to GET /metrics, with CONTENT_TYPE

The groups and names are a subset of those in Kafka's own clients; docs/observability.md lists them.
"""

from __future__ import annotations

from kafkawire.sdk.metrics.names import MetricName, MetricsReporter
from kafkawire.sdk.metrics.openmetrics import CONTENT_TYPE, Measured, openmetrics

__all__ = ["CONTENT_TYPE", "Measured", "MetricName", "MetricsReporter", "openmetrics"]
