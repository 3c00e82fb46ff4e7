"""Encode the parts of OpenTelemetry's `MetricsData` that tests need."""

from __future__ import annotations

import struct
from collections.abc import Iterable

__all__ = ["attribute", "content", "gauge", "nested", "point", "sum_of", "varint"]


def varint(number: int) -> bytes:
    """Return a number as protobuf writes it."""
    number &= 0xFFFFFFFFFFFFFFFF
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*written, number))


def nested(number: int, inner: bytes) -> bytes:
    """Return a field that contains a message or text."""
    return varint(number << 3 | 2) + varint(len(inner)) + inner


def attribute(number: int, name: str, value: str | bool | int | float) -> bytes:
    """Return an attribute in the field of that number."""
    match value:
        case bool():
            inner = varint(2 << 3) + varint(value)
        case int():
            inner = varint(3 << 3) + varint(value)
        case float():
            inner = varint(4 << 3 | 1) + struct.pack("<d", value)
        case _:
            inner = nested(1, value.encode())
    return nested(number, nested(1, name.encode()) + nested(2, inner))


def point(value: float | int, time_ms: int = 0, **labels: str) -> bytes:
    """Return the value of a metric."""
    if isinstance(value, int):
        number = varint(6 << 3 | 1) + struct.pack("<q", value)
    else:
        number = varint(4 << 3 | 1) + struct.pack("<d", value)
    time = varint(3 << 3 | 1) + struct.pack("<Q", time_ms * 1_000_000)
    return nested(1, time + number + b"".join(attribute(7, *each) for each in labels.items()))


def gauge(name: str, *points: bytes) -> bytes:
    """Return a gauge with values."""
    return nested(1, name.encode()) + nested(5, b"".join(points))


def sum_of(name: str, *points: bytes, is_delta: bool = True, is_counter: bool = True) -> bytes:
    """Return a sum with values."""
    how = varint(2 << 3) + varint(1 if is_delta else 2) + varint(3 << 3) + varint(is_counter)
    return nested(1, name.encode()) + nested(7, b"".join(points) + how)


def content(*metrics: bytes, resource: Iterable[bytes] = ()) -> bytes:
    """Return `MetricsData` with one resource and one scope."""
    scope = nested(1, nested(1, b"scope")) + b"".join(nested(2, metric) for metric in metrics)
    return nested(1, nested(1, b"".join(resource)) + nested(2, scope))
