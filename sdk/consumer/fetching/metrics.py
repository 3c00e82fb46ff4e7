"""Measure a consumer's fetches and its lag, once per partition in a response and never per record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import nan
from typing import TYPE_CHECKING, Final

from kafkawire.sdk.metrics.catalogue import CONSUMER, COORDINATOR, FETCH, TOPICS_MAX
from kafkawire.sdk.metrics.names import MetricName
from kafkawire.sdk.metrics.registry import Registry
from kafkawire.sdk.metrics.sensor import Sensor
from kafkawire.sdk.routing.partitions import TopicPartition

if TYPE_CHECKING:
    from kafkawire.sdk.consumer.reading.assignment import Assignment

__all__ = ["FetchMetrics", "show_group", "show_lags"]

_SECOND_MS: Final = 1_000


class FetchMetrics:
    """The metrics of one consumer's fetch responses.

    Args:
        registry: the client's registry.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._bytes = registry.sensor(FETCH, "bytes-consumed", "fetch-size")
        self._records = registry.sensor(FETCH, "records-consumed", "records-per-request")
        self._topics: dict[str, tuple[Sensor, Sensor]] = {}
        self._response_bytes = self._response_records = 0

    def partition(self, topic: str, size_bytes: int, records: int, now_ms: int) -> None:
        """Count one partition of a response."""
        self._response_bytes += size_bytes
        self._response_records += records
        sensors = self._topics.get(topic)
        if sensors is None:
            if len(self._topics) >= TOPICS_MAX:
                return
            tags = (("topic", topic),)
            sensors = self._topics[topic] = (
                self._registry.sensor(FETCH, "bytes-consumed", tags=tags),
                self._registry.sensor(FETCH, "records-consumed", tags=tags),
            )
        sensors[0].record(size_bytes, now_ms)
        sensors[1].record(records, now_ms)

    def response(self, now_ms: int) -> None:
        """Count a response as a whole, after its partitions."""
        size_bytes, records = self._response_bytes, self._response_records
        self._response_bytes = self._response_records = 0
        self._bytes.record(size_bytes, now_ms)
        self._records.record(records, now_ms)


def show_lags(registry: Registry, assignment: Assignment) -> None:
    """Add the partitions' lags and the time since the last read to the metrics."""

    def lags() -> Iterator[tuple[TopicPartition, int]]:
        for partition, reading in list(assignment.readings.items()):
            position = reading.position
            if position is not None and reading.end_offset >= 0:
                yield partition, max(reading.end_offset - position.offset, 0)

    def by_partition(now_ms: int) -> Iterator[tuple[MetricName, float]]:
        for (topic, number), lag in lags():
            tags = ("topic", topic), ("partition", str(number))
            yield MetricName(FETCH, "records-lag", tags), lag

    def since_last_read(now_ms: int) -> float:
        handed_out_ms = assignment.last_handed_out_ms
        return 0 if handed_out_ms is None else (now_ms - handed_out_ms) / _SECOND_MS

    registry.source(by_partition)
    registry.gauge(FETCH, "records-lag-max", lambda _: max((lag for _, lag in lags()), default=nan))
    registry.gauge(CONSUMER, "last-poll-seconds-ago", since_last_read)


def show_group(
    registry: Registry, assigned: Callable[[], Mapping[TopicPartition, object]], heartbeat_ms: Callable[[], int | None]
) -> None:
    """Add the state of a membership to the metrics.

    Args:
        registry: the client's registry.
        assigned: returns the partitions that the consumer reads.
        heartbeat_ms: returns when the coordinator last confirmed the membership; None if it has not done so yet.
    """

    def since_heartbeat(now_ms: int) -> float:
        confirmed_ms = heartbeat_ms()
        return nan if confirmed_ms is None else (now_ms - confirmed_ms) / _SECOND_MS

    registry.gauge(COORDINATOR, "assigned-partitions", lambda _: len(assigned()))
    registry.gauge(COORDINATOR, "last-heartbeat-seconds-ago", since_heartbeat)
