"""Encode metrics for OpenTelemetry: the few messages that make up `MetricsData`, as protobuf.

Source: opentelemetry-proto, `metrics/v1/metrics.proto`, `common/v1/common.proto`, `resource/v1/resource.proto`; KIP-714
for the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final, NamedTuple

from kafkawire.sdk.metrics.names import MetricName

__all__ = ["Point", "metrics_data", "otlp_name"]

_NANOSECONDS: Final = 1_000_000

# Field numbers of the messages, with protobuf's wire types.
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_RESOURCE_METRICS: Final = 1  # of MetricsData
_RESOURCE, _SCOPE_METRICS = 1, 2  # of ResourceMetrics
_RESOURCE_ATTRIBUTES: Final = 1  # of Resource
_SCOPE, _METRICS = 1, 2  # of ScopeMetrics
_SCOPE_NAME: Final = 1  # of InstrumentationScope
_METRIC_NAME, _GAUGE, _SUM = 1, 5, 7  # of Metric
_DATA_POINTS, _TEMPORALITY, _MONOTONIC = 1, 2, 3  # of Gauge and Sum
_START_TIME, _TIME, _AS_DOUBLE, _POINT_ATTRIBUTES = 2, 3, 4, 7  # of NumberDataPoint
_KEY, _VALUE = 1, 2  # of KeyValue
_STRING_VALUE: Final = 1  # of AnyValue

_DELTA, _CUMULATIVE = 1, 2

_DOUBLE = Struct("<d")
_LONG = Struct("<Q")

_SEPARATORS = re.compile("[-.]")


class Point(NamedTuple):
    """The value of a metric.

    Attributes:
        metric: the metric's name.
        value: a number.
        is_sum: whether the value only increases; otherwise it is a gauge.
    """

    metric: MetricName
    value: float
    is_sum: bool


def otlp_name(metric: MetricName) -> str:
    """Return the name of a metric in telemetry, for example `org.apache.kafka.producer.record.queue.time.avg`."""
    group = metric.group.removesuffix("-metrics")
    return ".".join(("org.apache.kafka", *_SEPARATORS.split(group), *_SEPARATORS.split(metric.name)))


def metrics_data(
    points: Iterable[Point], resource: Mapping[str, str], start_ms: int, time_ms: int, *, is_delta: bool
) -> bytes:
    """Return a `MetricsData` message.

    Args:
        points: the values.
        resource: attributes of the client.
        start_ms: the wall-clock time when counting began: the client's start or, with deltas, the last push.
        time_ms: the time of the values.
        is_delta: whether sums cover only the time since `start_ms`.
    """
    times = _fixed(_START_TIME, start_ms * _NANOSECONDS) + _fixed(_TIME, time_ms * _NANOSECONDS)
    temporality = _varint_field(_TEMPORALITY, _DELTA if is_delta else _CUMULATIVE) + _varint_field(_MONOTONIC, 1)
    metrics = []
    for metric, value, is_sum in points:
        labels = ((key.replace("-", "_"), text) for key, text in metric.tags)
        number = _tag(_AS_DOUBLE, _FIXED64) + _DOUBLE.pack(value)
        point = _message(_DATA_POINTS, times + number + _attributes(_POINT_ATTRIBUTES, labels))
        data = _message(_SUM, point + temporality) if is_sum else _message(_GAUGE, point)
        metrics.append(_message(_METRICS, _text(_METRIC_NAME, otlp_name(metric)) + data))
    scope = _message(_SCOPE, _text(_SCOPE_NAME, "kafkawire"))
    owner = _message(_RESOURCE, _attributes(_RESOURCE_ATTRIBUTES, resource.items()))
    return _message(_RESOURCE_METRICS, owner + _message(_SCOPE_METRICS, scope + b"".join(metrics)))


def _attributes(field: int, pairs: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(
        _message(field, _text(_KEY, key) + _message(_VALUE, _text(_STRING_VALUE, value))) for key, value in pairs
    )


def _message(field: int, content: bytes) -> bytes:
    return _tag(field, _BYTES) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _fixed(field: int, value: int) -> bytes:
    return _tag(field, _FIXED64) + _LONG.pack(value)


def _varint_field(field: int, value: int) -> bytes:
    return _tag(field, _VARINT) + _varint(value)


def _tag(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
