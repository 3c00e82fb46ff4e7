"""Malformed UTF-8 is decoded as Java decodes it, and values outside the fast path are accepted or refused by the rules.

Method: compare byte sequences with the results of `new String(bytes, UTF_8)` on OpenJDK 17, and check tables of values.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import Any, NoReturn

import pytest

from kafkawire.sdk.errors import EncodeError, UnsupportedVersion
from kafkawire.sdk.protocol import primitives
from kafkawire.sdk.protocol.json_form import from_json
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatResponse
from kafkawire.sdk.protocol.primitives import (
    MALFORMED_UTF8,
    MAX_TAG,
    Refused,
    as_buffer,
    as_bytes,
    as_index,
    as_number,
    as_part,
    as_sequence,
    as_string,
    as_tags,
    as_uuid,
    cut,
    is_default,
    outside,
    reject_null,
    short,
    too_many,
)


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        ("61", "a"),
        ("c328", "\ufffd("),
        ("c080", "\ufffd\ufffd"),
        ("e697", "\ufffd"),
        ("e69741", "\ufffdA"),
        ("eda080", "\ufffd"),
        ("edbfbf41", "\ufffdA"),
        ("eda0", "\ufffd"),
        ("eda041", "\ufffdA"),
        ("eda0eda080", "\ufffd\ufffd"),
        ("eda07f", "\ufffd\x7f"),
        ("eda0c041", "\ufffd\ufffdA"),
        ("edc041", "\ufffd\ufffdA"),
        ("ed41", "\ufffdA"),
        ("ed9fbf", "\ud7ff"),
        ("f09f9a80", "🚀"),
        ("f09f9a41", "\ufffdA"),
        ("f0808080", "\ufffd\ufffd\ufffd\ufffd"),
        ("f4908080", "\ufffd\ufffd\ufffd\ufffd"),
        ("ff61fe", "\ufffda\ufffd"),
    ],
)
def test_malformed_utf8(encoded: str, text: str) -> None:
    assert bytes.fromhex(encoded).decode("utf-8", MALFORMED_UTF8) == text


def test_the_error_handler_is_for_decoding_only() -> None:
    with pytest.raises(UnicodeEncodeError):
        "\ud800".encode("utf-8", MALFORMED_UTF8)


@pytest.mark.parametrize(
    "value", [b"ab", bytearray(b"ab"), memoryview(b"ab"), array("B", b"ab"), memoryview(b"xaby")[1:3]]
)
def test_buffers(value: Any) -> None:
    assert bytes(as_buffer(value)) == b"ab"


def test_buffers_of_wider_items_count_bytes() -> None:
    assert len(as_buffer(array("i", [1, 2]))) == 2 * array("i").itemsize
    assert len(as_buffer(memoryview(b""))) == 0


@pytest.mark.parametrize("value", [None, "ab", 5, [1], memoryview(b"abcd")[::2]])
def test_no_buffers(value: Any) -> None:
    with pytest.raises(Refused, match="expected bytes or another contiguous buffer"):
        as_buffer(value)


@pytest.mark.parametrize(
    "buffer", [b"abcd", bytearray(b"abcd"), memoryview(b"abcd").cast("B", (2, 2)), array("H", b"abcd")]
)
def test_bytes_to_decode(buffer: Any) -> None:
    view = as_bytes(buffer)
    assert (view, view.format, view.shape) == (b"abcd", "B", (4,))


@pytest.mark.parametrize("value", [(1, 2), [1, 2], range(1, 3), array("i", [1, 2])])
def test_sequences(value: Any) -> None:
    assert as_sequence(value) == (1, 2)


class Pointless:
    """An object like a numpy scalar, which has the methods of a sequence but cannot be iterated over."""

    def __len__(self) -> int:
        raise TypeError("len() of unsized object")

    def __getitem__(self, index: int) -> object:
        raise IndexError

    def __iter__(self) -> NoReturn:
        raise TypeError("iteration over a 0-d array")


@pytest.mark.parametrize(
    "value", [None, "ab", b"ab", bytearray(2), memoryview(b""), {1: 2}, {1, 2}, 5, iter([1]), list, Pointless()]
)
def test_no_sequences(value: Any) -> None:
    with pytest.raises(Refused, match="expected a sequence"):
        as_sequence(value)


def test_strings_and_uuids() -> None:
    assert as_string("é") == b"\xc3\xa9"
    assert as_uuid(bytes(16)) == bytes(16)
    for value, reason in (
        (b"x", "expected a str, got bytes b'x'"),
        (None, "expected a str, got None"),
        ("\ud800", "is not encodable as UTF-8: surrogates not allowed"),
        ("x" * 32768, "the string has 32768 bytes, but at most 32767 are allowed"),
    ):
        with pytest.raises(Refused, match=reason):
            as_string(value)
    for wrong, got in ((bytes(15), "15 bytes"), ("x" * 16, "str 'xxxxxxxxxxxxxxxx'"), (None, "None")):
        with pytest.raises(Refused, match=f"^expected a UUID of 16 bytes, got {got}$"):
            as_uuid(wrong)
    assert len(as_string("x" * 32767)) == 32767


class Region:
    """A part of a file, which has a length but is not in memory."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def test_records_as_a_part() -> None:
    for value, size in ((b"abc", 3), (array("H", b"abcd"), 4), (memoryview(b""), 0), (Region(5), 5), (Region(0), 0)):
        part, size_bytes = as_part(value)
        assert size_bytes == len(part) == size
        assert (part is value) is (type(value) in (bytes, Region))


@pytest.mark.parametrize(
    "value",
    [
        *("text", [1], (1,), {}, set(), frozenset(), 5, None, range(5), deque([1]), list),
        *(memoryview(b"abcd")[::2], memoryview(array("i", range(20)))[::2]),
    ],
)
def test_records_of_the_wrong_type(value: Any) -> None:
    """The length of a buffer with wider elements is the number of elements, not of bytes."""
    with pytest.raises(Refused, match=r"^expected bytes or another contiguous buffer, got "):
        as_part(value)


def test_the_largest_records() -> None:
    assert as_part(Region(2**31 - 1))[1] == 2**31 - 1
    with pytest.raises(Refused, match=r"^there are 2147483648 bytes, but at most 2147483647 are allowed$"):
        as_part(Region(2**31))


class Misleading(int):
    """A number that claims to be another number."""

    def __index__(self) -> int:
        return 3

    def __lt__(self, other: object) -> bool:
        return False

    def __add__(self, other: object) -> int:
        return 1000


def test_an_offset() -> None:
    for offset, number in ((5, 5), (True, 1), (Misleading(4), 4), (10**30, 10**30)):
        assert as_index(offset) == number
        assert type(as_index(offset)) is int
    for wrong in ("0", 1.0, None):
        with pytest.raises(TypeError, match="object cannot be interpreted as an integer"):
            as_index(wrong)
    assert outside(10**5000, 3) == "offset a number of 16610 bits is outside the buffer of 3 bytes"


def test_a_buffer_with_more_bytes_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is lowered, because no test has enough memory for 2**31 bytes."""
    monkeypatch.setattr(primitives, "MAX_LENGTH", 3)
    for kind in (bytes, bytearray):
        assert len(as_buffer(kind(3))) == 3
        with pytest.raises(Refused, match=r"^there are 4 bytes, but at most 3 are allowed$"):
            as_buffer(kind(4))


def test_tags() -> None:
    assert as_tags([(0, b"a"), [MAX_TAG, bytearray(b"b")]], known=[1], invalid=[4]) == [(0, b"a"), (MAX_TAG, b"b")]


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ([(1, b"")], "tag 1 belongs to a field of this version"),
        ([(4, b"")], "tag 4 is not valid in this version"),
        ([(MAX_TAG + 1, b"")], "tag 2147483647 is outside 0 to 2147483646"),
        ([(-1, b"")], "tag -1 is outside"),
        ([(3, b""), (2, b"")], "tag 2 follows tag 3"),
        ([(3, b""), (3, b"")], "tag 3 follows tag 3"),
        ([(3,)], "expected pairs"),
        ([("3", b"")], "expected pairs"),
        ([3], "expected pairs"),
        ([(3, "x")], "expected bytes"),
        (None, "expected a sequence"),
    ],
)
def test_wrong_tags(tags: Any, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        as_tags(tags, known=[1], invalid=[4])


class Incomparable:
    def __eq__(self, other: object) -> bool:
        raise TypeError

    __hash__ = None  # type: ignore[assignment]  # like any class with __eq__


INCOMPARABLE = Incomparable()


@pytest.mark.parametrize(
    ("value", "default", "expected"),
    [
        (0, 0, True),
        (1, 0, False),
        (None, None, True),
        ("", None, False),
        ([], (), True),
        ([1], (), False),
        (None, (), False),
        ({}, (), False),
        ([], None, False),
        (Incomparable(), 0, False),
        (INCOMPARABLE, INCOMPARABLE, True),
    ],
)
def test_is_default(value: Any, default: Any, expected: bool) -> None:
    assert is_default(value, default) is expected


@pytest.mark.parametrize(
    ("positions", "parts"),
    [([], [b"abcdef"]), ([2], [b"ab", "2", b"cdef"]), ([0, 0, 6], ["0", "0", b"abcdef", "6"]), ([6], [b"abcdef", "6"])],
)
def test_cut(positions: list[int], parts: list[Any]) -> None:
    assert cut(b"abcdef", [(position, str(position)) for position in positions]) == parts


def test_cut_of_nothing() -> None:
    assert cut(b"", []) == [b""]


def test_reasons() -> None:
    assert short(4, 2) == "4 bytes are needed, but 2 are left"
    assert too_many(5, 4) == "the count is 5, but 4 bytes are left"
    assert reject_null() == "null is not allowed in this version"
    assert reject_null(-2) == "null is not allowed in this version (length -2)"


def test_numbers_that_python_does_not_write() -> None:
    with pytest.raises(Refused, match=r"^a number of 16610 bits is outside int32, "):
        as_number("int32", 10**5000)
    with pytest.raises(Refused, match=r"^tag a number of 16610 bits is outside 0 to "):
        as_tags([(10**5000, b"")], ())
    with pytest.raises(UnsupportedVersion, match="has no version a number of 16610 bits"):
        layout(HeartbeatResponse, 10**5000)
    with pytest.raises(EncodeError, match=r"^throttleTimeMs: a number of 16610 bits is outside int32"):
        from_json("HeartbeatResponse", 1, {"throttleTimeMs": 10**5000, "errorCode": 0})
