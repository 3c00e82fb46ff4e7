"""Each type of the protocol reads and writes as the protocol guide says, to its limits, and refuses with path and
offset.

Method: tables of values and their bytes, by hand from the guide, for each word of the declarative form; then of bytes
and of values that are refused."""

from __future__ import annotations

from typing import Any

import pytest
from construct import Construct, Struct

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.engines.constructs import (
    Bool,
    Bytes,
    CompactBytes,
    CompactNullableBytes,
    CompactNullableRecords,
    CompactNullableString,
    CompactRecords,
    CompactString,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Note,
    NullableBytes,
    NullableRecords,
    NullableString,
    Records,
    String,
    UInt16,
    UInt32,
    UnsignedVarint,
    Uuid,
)

EXACT: list[tuple[Construct, Any, str]] = [
    (Bool, True, "01"),
    (Bool, False, "00"),
    (Int8, -128, "80"),
    (Int8, 127, "7f"),
    (Int16, -2, "fffe"),
    (UInt16, 65535, "ffff"),
    (Int32, -2147483648, "80000000"),
    (UInt32, 4294967295, "ffffffff"),
    (Int64, 2**63 - 1, "7fffffffffffffff"),
    (Float64, -1.5, "bff8000000000000"),
    (Float64, float("inf"), "7ff0000000000000"),
    (Uuid, bytes(range(16)), "000102030405060708090a0b0c0d0e0f"),
    (UnsignedVarint, 0, "00"),
    (UnsignedVarint, 127, "7f"),
    (UnsignedVarint, 128, "8001"),
    (UnsignedVarint, 2**31 - 1, "ffffffff07"),
    (String, "Ж", "0002d096"),
    (String, "", "0000"),
    (NullableString, None, "ffff"),
    (CompactString, "ab", "036162"),
    (CompactNullableString, None, "00"),
    (Bytes, b"ab", "000000026162"),
    (NullableBytes, None, "ffffffff"),
    (CompactBytes, b"", "01"),
    (CompactNullableBytes, None, "00"),
    (Records, b"ab", "000000026162"),
    (NullableRecords, None, "ffffffff"),
    (CompactRecords, b"ab", "036162"),
    (CompactNullableRecords, None, "00"),
]

#: Encodings that are read though nobody writes them.
LENIENT: list[tuple[Construct, str, Any]] = [
    (Bool, "ff", True),
    (UnsignedVarint, "8000", 0),
    (UnsignedVarint, "ffffffff0f", -1),
    (UnsignedVarint, "8180808070", 1),
    (NullableString, "8000", None),
    (NullableBytes, "fffffffe", None),
    (CompactNullableString, "ffffffff0f", None),
    (String, "0003eda080", "\ufffd"),
    (String, "0002c061", "\ufffda"),
]

UNREADABLE: list[tuple[Construct, str, str]] = [
    (Int32, "000000", "4 bytes needed, 3 left"),
    (UnsignedVarint, "80", "1 bytes needed, 0 left"),
    (UnsignedVarint, "ffffffffff01", "unsigned varint of more than 5 bytes"),
    (String, "ffff", r"null is not allowed in this version \(length -1\)"),
    (String, "000361", "3 bytes needed, 1 left"),
    (CompactString, "00", r"null is not allowed in this version \(length -1\)"),
    (CompactString, "818002", "string of 32768 bytes, at most 32767 allowed"),
    (CompactNullableString, "8080808008", "string of 2147483647 bytes, at most 32767 allowed"),
    (CompactBytes, "8080808008", "2147483647 bytes needed, 0 left"),
    (Bytes, "7fffffff", "2147483647 bytes needed, 0 left"),
]

UNWRITABLE: list[tuple[Construct, Any, str]] = [
    (Int8, 128, "128 is outside int8, -128 to 127"),
    (UInt16, -1, "-1 is outside uint16, 0 to 65535"),
    (UInt32, 2**32, "4294967296 is outside uint32"),
    (Int64, -(2**63) - 1, "-9223372036854775809 is outside int64"),
    (Int32, "7", "expected int32, got str '7'"),
    (Float64, "1.5", "expected float64, got str '1.5'"),
    (Bool, None, "expected bool, got NoneType None"),
    (Uuid, bytes(15), "expected a UUID of 16 bytes, got 15 bytes"),
    (Uuid, "0" * 16, "expected a UUID of 16 bytes, got str"),
    (String, "x" * 32768, "string of 32768 bytes"),
    (String, None, "null is not allowed in this version"),
    (Bytes, "text", "expected bytes or another contiguous buffer, got str 'text'"),
    (Bytes, memoryview(b"abcd")[::2], "expected bytes or another contiguous buffer"),
]


@pytest.mark.parametrize(("kind", "value", "encoded"), EXACT)
def test_read_and_written(kind: Construct, value: Any, encoded: str) -> None:
    assert kind.build(value) == bytes.fromhex(encoded)
    assert kind.parse(bytes.fromhex(encoded)) == value


@pytest.mark.parametrize(("kind", "encoded", "value"), LENIENT)
def test_read_as_kafka_does(kind: Construct, encoded: str, value: Any) -> None:
    assert kind.parse(bytes.fromhex(encoded)) == value


@pytest.mark.parametrize(("kind", "encoded", "reason"), UNREADABLE)
def test_unreadable(kind: Construct, encoded: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=f"^first.field at byte 1: {reason}$") as caught:
        Struct("first" / Struct("before" / Int8, "field" / kind)).parse(b"\0" + bytes.fromhex(encoded))
    assert (caught.value.path, caught.value.offset) == ("first.field", 1)


@pytest.mark.parametrize(("kind", "value", "reason"), UNWRITABLE)
def test_unwritable(kind: Construct, value: Any, reason: str) -> None:
    with pytest.raises(EncodeError, match=f"^first.field: {reason}") as caught:
        Struct("first" / Struct("field" / kind)).build({"first": {"field": value}})
    assert caught.value.path == "first.field"


@pytest.mark.parametrize("kind", [Int8, Int32, Uuid])
def test_sizeof(kind: Construct) -> None:
    assert kind.sizeof() == len(kind.build(bytes(16) if kind is Uuid else 0))


def test_a_note_shows_without_quotes() -> None:
    assert repr(Note("3 elements")) == "3 elements"
