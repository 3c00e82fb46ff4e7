"""Arrays, structures and tagged fields are read and written as in Kafka, and errors name the part that is refused.

Method: read, write and damage tables of hand-built encodings.
"""

from __future__ import annotations

import pytest
from construct import Struct

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.engines.construct_primitives import CompactString, Int8, Int32, String
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
from kafkawire.sdk.protocol.messages.headers import ResponseHeader
from tests.sdk.protocol.engines.construct_cases import Case, Exact, Lenient, Unreadable, Unwritable

HEADER = Structure(ResponseHeader, 0, "correlation_id" / Int32)
SEVEN = ResponseHeader(correlation_id=7)

CASES: list[Case] = [
    Exact(Array(Int8), (1, 2), "000000020102"),
    Exact(NullableArray(Int8), None, "ffffffff"),
    Exact(CompactArray(CompactString), ("a", ""), "03026101"),
    Exact(CompactNullableArray(Int8), None, "00"),
    Exact(HEADER, SEVEN, "00000007"),
    Exact(NullableStructure(HEADER), SEVEN, "0100000007"),
    Exact(NullableStructure(HEADER), None, "ff"),
    Exact(TaggedNullableStructure(HEADER), SEVEN, "0100000007"),
    Exact(TaggedNullableStructure(HEADER), None, "00"),
    Lenient(NullableArray(Int8), "80000000", None),
    Lenient(NullableStructure(HEADER), "80", None),
    Lenient(NullableStructure(HEADER), "0000000007", SEVEN),
    Lenient(TaggedNullableStructure(HEADER), "ffffffff0f", None),
    Unreadable(Array(Int8), "7fffffff", "the count is 2147483647, but 0 bytes are left"),
    Unreadable(Array(Int8), "fffffffe", r"null is not allowed in this version \(length -2\)"),
    Unreadable(NullableStructure(HEADER), "", "1 bytes are needed, but 0 are left"),
    Unwritable(Array(Int8), None, "null is not allowed in this version"),
    Unwritable(Array(Int8), {1: 2}, "expected a sequence, got dict"),
    Unwritable(HEADER, None, "null is not allowed in this version"),
    Unwritable(HEADER, 5, "expected ResponseHeader, got int"),
]


@pytest.mark.parametrize("case", CASES)
def test_table(case: Case) -> None:
    case.check()


def test_errors_name_elements() -> None:
    with pytest.raises(DecodeError, match=r"^names\[1\] at byte 6: 2 bytes are needed, but 1 are left"):
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
        ("", 4, "1 bytes are needed, but 0 are left"),
        ("01", 5, "1 bytes are needed, but 0 are left"),
        ("0105", 5, "1 bytes are needed, but 0 are left"),
        ("01050261", 5, "2 bytes are needed, but 1 are left"),
        ("0105ffffffff0f", 5, "the tagged field has -1 bytes"),
        ("0205000580", 7, "1 bytes are needed, but 0 are left"),
    ],
)
def test_unreadable_tagged_fields(tags: str, offset: int, reason: str) -> None:
    with pytest.raises(DecodeError, match=f"^unknown_tags at byte {offset}: {reason}"):
        TAGGED.parse(bytes.fromhex("00000007" + tags))
