"""Decode metrics that clients push: the few messages of OpenTelemetry's `MetricsData`, as protobuf.

Gauges and sums are returned. Histograms and summaries, which no Kafka client pushes, are skipped, as are unknown
fields. Content may be damaged or hostile: every length is checked against the bytes that are left, and nothing is
nested without a limit.

Source: opentelemetry-proto, `metrics/v1/metrics.proto`, `common/v1/common.proto`, `resource/v1/resource.proto`; the
encoding of protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from kafkawire.sdk.errors import DecodeError

__all__ = ["Labels", "MetricPoint", "metric_points"]

_NANOSECONDS: Final = 1_000_000

# Wire types of protobuf.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# Field numbers of the messages.
_RESOURCE_METRICS: Final = 1  # of MetricsData
_RESOURCE, _SCOPE_METRICS = 1, 2  # of ResourceMetrics
_RESOURCE_ATTRIBUTES: Final = 1  # of Resource
_METRICS: Final = 2  # of ScopeMetrics
_NAME, _GAUGE, _SUM = 1, 5, 7  # of Metric
_DATA_POINTS, _TEMPORALITY, _MONOTONIC = 1, 2, 3  # of Gauge and Sum
_TIME, _AS_DOUBLE, _AS_INT, _POINT_ATTRIBUTES = 3, 4, 6, 7  # of NumberDataPoint
_KEY, _VALUE = 1, 2  # of KeyValue
_STRING, _BOOL, _INT, _DOUBLE = 1, 2, 3, 4  # of AnyValue

_DELTA: Final = 1  # of AggregationTemporality

#: A number takes at most this many bytes, each with seven bits.
_VARINT_BYTES_MAX: Final = 10

_FLOAT: Final = Struct("<d")
_SIGNED: Final = Struct("<q")
_UNSIGNED: Final = Struct("<Q")

#: Names and values, sorted by name.
Labels = tuple[tuple[str, str], ...]


class MetricPoint(NamedTuple):
    """The value of a metric.

    Attributes:
        name: the metric's name, such as `org.apache.kafka.producer.record.queue.time.avg`.
        labels: the attributes of the client and of the value.
        value: a number.
        is_delta: whether the value is to be added to the last one.
        is_counter: whether the sum of all values only increases.
        time_ms: the client's time of the value, in ms since the epoch; 0 if it is unknown.
    """

    name: str
    labels: Labels
    value: float
    is_delta: bool
    is_counter: bool
    time_ms: int


class _Field(NamedTuple):
    """A field of a message: a number for wire types with a fixed size and for numbers of any size, otherwise bytes."""

    number: int
    kind: int
    value: int
    content: memoryview


def metric_points(content: memoryview) -> Iterator[MetricPoint | None]:
    """Yield the values in a `MetricsData` message, one after another, and None for metrics without any.

    Raises:
        DecodeError: the content is not such a message; values before the damage have been yielded.
    """
    for resource_metrics in _messages(content, _RESOURCE_METRICS):
        common: dict[str, str] = {}
        for resource in _messages(resource_metrics, _RESOURCE):
            common.update(_attributes(resource, _RESOURCE_ATTRIBUTES))
        for scope_metrics in _messages(resource_metrics, _SCOPE_METRICS):
            for metric in _messages(scope_metrics, _METRICS):
                yield None
                yield from _points_of(metric, common)


def _points_of(metric: memoryview, common: dict[str, str]) -> Iterator[MetricPoint]:
    name, data = "", []
    for field in _fields(metric):
        if field.number == _NAME and field.kind == _BYTES:
            name = _text(field.content)
        elif field.number in (_GAUGE, _SUM) and field.kind == _BYTES:
            data.append(field)
    for field in data:
        is_sum, is_delta, is_counter = field.number == _SUM, False, False
        for part in _fields(field.content) if is_sum else ():
            if part.kind == _VARINT:
                is_delta = part.value == _DELTA if part.number == _TEMPORALITY else is_delta
                is_counter = bool(part.value) if part.number == _MONOTONIC else is_counter
        for point in _messages(field.content, _DATA_POINTS):
            value, time_ms, own = None, 0, dict(common)
            for part in _fields(point):
                if part.kind == _FIXED64 and part.number == _TIME:
                    time_ms = part.value // _NANOSECONDS
                elif part.kind == _FIXED64 and part.number == _AS_DOUBLE:
                    value = _as_double(part.value)
                elif part.kind == _FIXED64 and part.number == _AS_INT:
                    value = float(_as_signed(part.value))
                elif part.kind == _BYTES and part.number == _POINT_ATTRIBUTES:
                    own.update(_attribute(part.content))
            if value is not None:
                yield MetricPoint(name, tuple(sorted(own.items())), value, is_delta, is_counter, time_ms)


def _attributes(message: memoryview, number: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for attribute in _messages(message, number):
        found.update(_attribute(attribute))
    return found


def _attribute(message: memoryview) -> dict[str, str]:
    """Return a name with its value as text; empty if the value is a list, a map or bytes."""
    key, value = "", None
    for field in _fields(message):
        if field.number == _KEY and field.kind == _BYTES:
            key = _text(field.content)
        elif field.number == _VALUE and field.kind == _BYTES:
            for part in _fields(field.content):
                if (part.number, part.kind) == (_STRING, _BYTES):
                    value = _text(part.content)
                elif (part.number, part.kind) == (_BOOL, _VARINT):
                    value = str(bool(part.value)).lower()
                elif (part.number, part.kind) == (_INT, _VARINT):
                    value = str(_as_signed(part.value))
                elif (part.number, part.kind) == (_DOUBLE, _FIXED64):
                    value = str(_as_double(part.value))
    return {} if value is None else {key: value}


def _as_double(bits: int) -> float:
    found: float = _FLOAT.unpack(_UNSIGNED.pack(bits))[0]
    return found


def _as_signed(bits: int) -> int:
    found: int = _SIGNED.unpack(_UNSIGNED.pack(bits))[0]
    return found


def _text(content: memoryview) -> str:
    try:
        return str(content, "utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError("metrics", error.start, "text is not UTF-8") from None


def _messages(content: memoryview, number: int) -> Iterator[memoryview]:
    """Yield the messages in one field."""
    for field in _fields(content):
        if field.number == number and field.kind == _BYTES:
            yield field.content


def _fields(content: memoryview) -> Iterator[_Field]:
    """Yield the fields of a message; offsets in errors are those within the message."""
    offset, end = 0, len(content)
    while offset < end:
        begin = offset
        tag, offset = _varint(content, offset)
        number, kind = tag >> 3, tag & 7
        value, part = 0, content[offset:offset]
        if kind == _VARINT:
            value, offset = _varint(content, offset)
        elif kind == _BYTES:
            size, offset = _varint(content, offset)
            part = content[offset : offset + size]
            if len(part) < size:
                raise DecodeError("metrics", begin, f"a field has {size} bytes, but only {len(part)} are left")
            offset += size
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
            part = content[offset : offset + size]
            if len(part) < size:
                raise DecodeError("metrics", begin, f"a number has {size} bytes, but only {len(part)} are left")
            value = int.from_bytes(part, "little")
            offset += size
        else:
            raise DecodeError("metrics", begin, f"a field has the wire type {kind}, which does not exist")
        if not number:
            raise DecodeError("metrics", begin, "a field has the number 0")
        yield _Field(number, kind, value, part)


def _varint(content: memoryview, offset: int) -> tuple[int, int]:
    """Return a number and the offset after it."""
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        if offset + place >= len(content):
            raise DecodeError("metrics", offset, "a number is cut off")
        byte = content[offset + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, offset + place + 1
    raise DecodeError("metrics", offset, f"a number has more than {_VARINT_BYTES_MAX} bytes")
