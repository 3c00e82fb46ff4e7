"""Each protocol type is read and written as the protocol guide says, up to its limits; errors name path and offset.

Method: for each word of the declarative form, check tables of values and their bytes, written by hand from the guide,
then tables of bytes and values that are refused."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import pytest
from construct import Construct, Container, Struct

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.protocol.engines import construct_primitives
from kafkawire.sdk.protocol.engines.construct_primitives import (
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
    Span,
    String,
    UInt16,
    UInt32,
    UnsignedVarint,
    Uuid,
    new_context,
)
from tests.sdk.protocol.engines.construct_cases import Case, Exact, Lenient, Unreadable, Unwritable

CASES: list[Case] = [
    Exact(Bool, True, "01"),
    Exact(Bool, False, "00"),
    Exact(Int8, -128, "80"),
    Exact(Int8, 127, "7f"),
    Exact(Int16, -2, "fffe"),
    Exact(UInt16, 65535, "ffff"),
    Exact(Int32, -2147483648, "80000000"),
    Exact(UInt32, 4294967295, "ffffffff"),
    Exact(Int64, 2**63 - 1, "7fffffffffffffff"),
    Exact(Float64, -1.5, "bff8000000000000"),
    Exact(Float64, float("inf"), "7ff0000000000000"),
    Exact(Uuid, bytes(range(16)), "000102030405060708090a0b0c0d0e0f"),
    Exact(UnsignedVarint, 0, "00"),
    Exact(UnsignedVarint, 127, "7f"),
    Exact(UnsignedVarint, 128, "8001"),
    Exact(UnsignedVarint, 2**31 - 1, "ffffffff07"),
    Exact(String, "Ж", "0002d096"),
    Exact(String, "", "0000"),
    Exact(NullableString, None, "ffff"),
    Exact(CompactString, "ab", "036162"),
    Exact(CompactNullableString, None, "00"),
    Exact(Bytes, b"ab", "000000026162"),
    Exact(NullableBytes, None, "ffffffff"),
    Exact(CompactBytes, b"", "01"),
    Exact(CompactNullableBytes, None, "00"),
    Exact(Records, b"ab", "000000026162"),
    Exact(NullableRecords, None, "ffffffff"),
    Exact(CompactRecords, b"ab", "036162"),
    Exact(CompactNullableRecords, None, "00"),
    Lenient(Bool, "ff", True),
    Lenient(UnsignedVarint, "8000", 0),
    Lenient(UnsignedVarint, "ffffffff0f", -1),
    Lenient(UnsignedVarint, "8180808070", 1),
    Lenient(NullableString, "8000", None),
    Lenient(NullableBytes, "fffffffe", None),
    Lenient(CompactNullableString, "ffffffff0f", None),
    Lenient(String, "0003eda080", "\ufffd"),
    Lenient(String, "0002c061", "\ufffda"),
    Unreadable(Int32, "000000", "4 bytes are needed, but 3 are left"),
    Unreadable(UnsignedVarint, "80", "1 bytes are needed, but 0 are left"),
    Unreadable(UnsignedVarint, "ffffffffff01", "the unsigned varint has more than 5 bytes"),
    Unreadable(String, "ffff", r"null is not allowed in this version \(length -1\)"),
    Unreadable(String, "000361", "3 bytes are needed, but 1 are left"),
    Unreadable(CompactString, "00", r"null is not allowed in this version \(length -1\)"),
    Unreadable(CompactString, "818002", "the string has 32768 bytes, but at most 32767 are allowed"),
    Unreadable(CompactNullableString, "8080808008", "the string has 2147483647 bytes, but at most 32767 are allowed"),
    Unreadable(CompactBytes, "8080808008", "2147483647 bytes are needed, but 0 are left"),
    Unreadable(Bytes, "7fffffff", "2147483647 bytes are needed, but 0 are left"),
    Unwritable(Int8, 128, "128 is outside int8, -128 to 127"),
    Unwritable(UInt16, -1, "-1 is outside uint16, 0 to 65535"),
    Unwritable(UInt32, 2**32, "4294967296 is outside uint32"),
    Unwritable(Int64, -(2**63) - 1, "-9223372036854775809 is outside int64"),
    Unwritable(Int32, "7", "expected int32, got str '7'"),
    Unwritable(Float64, "1.5", "expected float64, got str '1.5'"),
    Unwritable(Bool, None, "expected bool, got NoneType None"),
    Unwritable(Uuid, bytes(15), "expected a UUID of 16 bytes, got 15 bytes"),
    Unwritable(Uuid, "0" * 16, "expected a UUID of 16 bytes, got str"),
    Unwritable(String, "x" * 32768, "the string has 32768 bytes"),
    Unwritable(String, None, "null is not allowed in this version"),
    Unwritable(Bytes, "text", "expected bytes or another contiguous buffer, got str 'text'"),
    Unwritable(Bytes, memoryview(b"abcd")[::2], "expected bytes or another contiguous buffer"),
]


@pytest.mark.parametrize("case", CASES)
def test_table(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("kind", [Int8, Int32, Uuid])
def test_sizeof(kind: Construct) -> None:
    assert kind.sizeof() == len(kind.build(bytes(16) if kind is Uuid else 0))


class Seen(Construct):
    """A construct that returns the context in which it is parsed."""

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Container:
        return context


def test_a_context_has_what_construct_puts_into_its_own() -> None:
    made: Any = Seen().parse(b"", spans=None)
    context = new_context(spans=None)
    assert context.keys() == made.keys()
    assert made._params is made
    assert context._params is context
    assert (context._parsing, context._building, context._sizing) == (False, False, False)


def test_what_was_read_is_noted() -> None:
    spans: list[Span] = []
    stream = io.BytesIO(b"?\x00\x00\x00\x07\x03ab")
    stream.seek(1)
    form = Struct("first" / Int32, "second" / Struct("name" / CompactString))
    form._parsereport(stream, new_context(spans=spans), "(parsing)")
    assert spans == [Span(1, 4, "first", 7), Span(5, 3, "second.name", "ab")]
    stream.seek(1)
    assert form._parsereport(stream, new_context(spans=None), "(parsing)").first == 7


def test_a_length_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is lowered, because no test has enough memory for 2**31 bytes."""
    monkeypatch.setattr(construct_primitives, "MAX_LENGTH", 3)
    for kind in (Bytes, CompactBytes):
        assert len(kind.build(b"abc")) > 3
        with pytest.raises(EncodeError, match="the length is 4, but at most 3 is allowed"):
            Struct("field" / kind).build({"field": b"abcd"})


def test_a_note_shows_without_quotes() -> None:
    assert repr(Note("3 elements")) == "3 elements"
