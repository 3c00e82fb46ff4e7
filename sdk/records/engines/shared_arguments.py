"""Check the arguments of builders, for all engines; invalid arguments are refused immediately.

Source: KIP-390 (levels).
"""

from __future__ import annotations

from operator import index
from typing import Any

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.protocol.primitives import LIMITS
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.record_formats import Compression, TimestampType
from kafkawire.sdk.protocol.values import Buffer, digits, quoted
from kafkawire.sdk.records.buffers import bytes_of
from kafkawire.sdk.records.compression import CODEC_NAMES, check_level

__all__ = [
    "checked_compression",
    "checked_content",
    "checked_headers",
    "checked_name",
    "checked_number",
    "checked_time",
    "checked_timestamp_type",
    "pairs",
    "whole_number",
]

_INT64_MAX = LIMITS["int64"][1]


def checked_compression(compression: Any, level: Any) -> Compression:
    """Check a compression type and its level, and return the type.

    Args:
        compression: a `Compression`, or its number.
        level: None for the default.

    Raises:
        EncodeError: the compression or level does not exist.
    """
    if type(compression) is Compression and level is None:
        return compression
    number = whole_number("compression", compression)
    try:
        codec = Compression(number)
    except ValueError:
        raise EncodeError("compression", f"{digits(number)} is none of {CODEC_NAMES}") from None
    if level is not None:
        check_level(codec, whole_number("level", level))
    return codec


def checked_content(path: str, value: object) -> memoryview:
    """Return a bytes-like value, either as bytes or as a view whose size cannot change.

    Raises:
        EncodeError: the value is not a contiguous buffer.
    """
    try:
        return bytes_of(value)
    except TypeError as error:
        raise EncodeError(path, str(error)) from error


def checked_name(name: object) -> bytes:
    """Return the name of a header as UTF-8.

    Half a surrogate pair has no UTF-8 encoding. Apache Kafka counts three bytes for it but writes one, which makes the
    batch unreadable.

    Raises:
        EncodeError: the name is not a string, or contains half a surrogate pair.
    """
    if not isinstance(name, str):
        raise EncodeError("headers", f"expected a string as the name, got {type(name).__name__}")
    try:
        return str.encode(name)  # not a subclass's method
    except UnicodeEncodeError as error:
        raise EncodeError("headers", f"{quoted(name)} is not encodable as UTF-8: {error.reason}") from None


def checked_time(timestamp_ms: int) -> int:
    """Return the timestamp of a record, in ms since the epoch, -1 for none.

    Raises:
        EncodeError: the timestamp is below -1, or does not fit 64 bits.
    """
    if type(timestamp_ms) is not int:
        timestamp_ms = whole_number("timestamp_ms", timestamp_ms)
    if not NO_TIMESTAMP <= timestamp_ms <= _INT64_MAX:
        raise EncodeError("timestamp_ms", f"{digits(timestamp_ms)} is not a time in ms, nor -1 for none")
    return timestamp_ms


def checked_timestamp_type(timestamp_type: Any) -> TimestampType:
    """Return the timestamp type.

    Raises:
        EncodeError: the type does not exist.
    """
    if type(timestamp_type) is TimestampType:
        return timestamp_type
    number = checked_number("timestamp_type", timestamp_type, min(TimestampType), max(TimestampType))
    return TimestampType(number)


def checked_number(path: str, value: Any, low: int, high: int) -> int:
    """Check that a number fits its field, and return it.

    Raises:
        EncodeError: the number is not an integer, or is out of range.
    """
    number = whole_number(path, value)
    if not low <= number <= high:
        raise EncodeError(path, f"{digits(number)} is not within {low} and {high}")
    return number


def whole_number(path: str, value: Any) -> int:
    """Return a value as an int.

    Raises:
        EncodeError: the value is not an integer.
    """
    if type(value) is int:
        return value
    try:
        return int.__int__(index(value))  # a plain int, even from a bool or another subclass
    except TypeError:
        raise EncodeError(path, f"expected an integer, got {quoted(value)} of {type(value).__name__}") from None


def checked_headers(headers: Any) -> list[tuple[bytes, Buffer | None]]:
    """Return headers ready to be written: names in UTF-8, and values whose size cannot change.

    Raises:
        EncodeError: the headers are not a sequence of pairs, or a name or value has the wrong type.
    """
    encoded = []
    for name, value in pairs(headers):
        name_bytes = checked_name(name)
        is_plain = value is None or type(value) is bytes
        encoded.append((name_bytes, value if is_plain else checked_content("headers", value)))
    return encoded


def pairs(headers: Any) -> list[tuple[Any, Any]]:
    """Return headers as pairs, reading each of them only once.

    Raises:
        EncodeError: the headers are not a sequence of pairs.
    """
    try:
        return [(name, value) for name, value in headers]
    except (TypeError, ValueError) as error:
        raise EncodeError("headers", f"expected pairs of a name and a value: {error}") from error
