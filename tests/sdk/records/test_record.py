"""Records compare by what they hold, and binary columns give out what Arrow's layout says, and nothing else.

Method: records that differ in one attribute; columns with nulls, without values, with offsets that leave the data.
"""

from __future__ import annotations

import struct

import pytest

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.records import BinaryColumn, Record


def offsets(*numbers: int) -> bytes:
    return struct.pack(f"={len(numbers)}i", *numbers)


def test_records_compare_by_content() -> None:
    values = (1, 2, b"k", b"v", (("h", None),), 3, "topic", 4)
    record = Record(*values)
    assert record == Record(*values)
    for index, other in enumerate((9, 9, None, None, (), 9, "other", 9)):
        assert record != Record(*values[:index], other, *values[index + 1 :])  # type: ignore[arg-type]  # on purpose
    assert record != "record"
    with pytest.raises(TypeError):
        hash(record)


def test_repr_says_everything() -> None:
    text = "Record(offset=1, timestamp=2, key=b'k', value=None, headers=(('h', None),), sequence=-1)"
    assert repr(Record(1, 2, b"k", None, (("h", None),))) == text
    assert repr(Record(1, 2, b"k", None, topic="t", partition=0)).startswith("Record(topic='t', partition=0, offset=1")


def test_column() -> None:
    column = BinaryColumn(offsets(0, 1, 1, 3), b"abc", b"\x05")
    assert [column[index] for index in range(len(column))] == [b"a", None, b"bc"]
    assert len(BinaryColumn(offsets(0), b"")) == 0


@pytest.mark.parametrize(
    ("column_offsets", "validity", "reason"),
    [
        (b"", None, "no sequence of int32"),
        (b"abc", None, "no sequence of int32"),
        (offsets(*range(10)), b"\xff", "1 bytes"),
    ],
)
def test_refused_columns(column_offsets: bytes, validity: bytes | None, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason):
        BinaryColumn(column_offsets, b"abc", validity)


@pytest.mark.parametrize("wrong", [(2, 1), (0, 4), (-1, 2)])
def test_refused_values(wrong: tuple[int, int]) -> None:
    with pytest.raises(EncodeError, match="is no part of 3 bytes"):
        BinaryColumn(offsets(*wrong), b"abc")[0]
