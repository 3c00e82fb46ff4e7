"""Arrays, structures and tagged fields read and write as Kafka does, and name what they refuse.

Method: tables of encodings by hand, read, written and damaged.
"""

from __future__ import annotations

from typing import Any

import pytest
from construct import Construct, Struct

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.engines.construct_structures import (
    Array,
    CompactArray,
    CompactNullableArray,
    NullableArray,
    NullableStructure,
    Structure,
    TaggedFields,
    TaggedNullableStructure,
)
from kafkawire.sdk.protocol.engines.constructs import CompactString, Int8, Int32, String
from kafkawire.sdk.protocol.messages.headers import ResponseHeader

HEADER = Structure(ResponseHeader, 0, "correlation_id" / Int32)
SEVEN = ResponseHeader(correlation_id=7)

EXACT: list[tuple[Construct, Any, str]] = [
    (Array(Int8), (1, 2), "000000020102"),
    (NullableArray(Int8), None, "ffffffff"),
    (CompactArray(CompactString), ("a", ""), "03026101"),
    (CompactNullableArray(Int8), None, "00"),
    (HEADER, SEVEN, "00000007"),
    (NullableStructure(HEADER), SEVEN, "0100000007"),
    (NullableStructure(HEADER), None, "ff"),
    (TaggedNullableStructure(HEADER), SEVEN, "0100000007"),
    (TaggedNullableStructure(HEADER), None, "00"),
]

#: Encodings that are read though nobody writes them.
LENIENT: list[tuple[Construct, str, Any]] = [
    (NullableArray(Int8), "80000000", None),
    (NullableStructure(HEADER), "80", None),
    (NullableStructure(HEADER), "0000000007", SEVEN),
    (TaggedNullableStructure(HEADER), "ffffffff0f", None),
]

UNREADABLE: list[tuple[Construct, str, str]] = [
    (Array(Int8), "7fffffff", "2147483647 elements announced, 0 bytes left"),
    (Array(Int8), "fffffffe", r"null is not allowed in this version \(length -2\)"),
    (NullableStructure(HEADER), "", "1 bytes needed, 0 left"),
]

UNWRITABLE: list[tuple[Construct, Any, str]] = [
    (Array(Int8), None, "null is not allowed in this version"),
    (Array(Int8), {1: 2}, "expected a sequence, got dict"),
    (HEADER, None, "null is not allowed in this version"),
    (HEADER, 5, "expected ResponseHeader, got int"),
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


def test_errors_name_elements() -> None:
    with pytest.raises(DecodeError, match=r"^names\[1\] at byte 6: 2 bytes needed, 1 left"):
        Struct("names" / Array(String)).parse(bytes.fromhex("00000002 0000 00"))
    with pytest.raises(EncodeError, match=r"^names\[1\]: expected a str"):
        Struct("names" / Array(String)).build({"names": ["", 5]})


TAGGED = Structure(ResponseHeader, 1, "correlation_id" / Int32, "unknown_tags" / TaggedFields({}))


def test_unknown_tagged_fields_are_kept() -> None:
    header = ResponseHeader(7, unknown_tags=((1, b"a"), (300, b"")))
    data = bytes.fromhex("00000007 02 010161 ac0200")
    assert TAGGED.build(header) == data
    assert TAGGED.parse(data) == header


@pytest.mark.parametrize(
    ("tags", "offset", "reason"),
    [
        ("", 4, "1 bytes needed, 0 left"),
        ("01", 5, "1 bytes needed, 0 left"),
        ("0105", 5, "1 bytes needed, 0 left"),
        ("01050261", 5, "2 bytes needed, 1 left"),
        ("0105ffffffff0f", 5, "tagged field of -1 bytes"),
        ("0205000580", 7, "1 bytes needed, 0 left"),
    ],
)
def test_unreadable_tagged_fields(tags: str, offset: int, reason: str) -> None:
    with pytest.raises(DecodeError, match=f"^unknown_tags at byte {offset}: {reason}"):
        TAGGED.parse(bytes.fromhex("00000007" + tags))
