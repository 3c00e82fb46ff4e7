"""The record class is the engine's; binary columns return exactly the values that Arrow's layout describes.

Method: read columns with nulls, without values, and with offsets outside the data.
"""

from __future__ import annotations

import copy
import pickle
import struct

import pytest

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.records import BinaryColumn, Record
from kafkawire.sdk.records.engines import python_record
from kafkawire.sdk.records.engines import selection as engines


def offsets(*numbers: int) -> bytes:
    return struct.pack(f"={len(numbers)}i", *numbers)


def test_the_record_is_that_of_the_engine() -> None:
    assert Record is (python_record.Record if engines.native is None else engines.native.Record)
    assert python_record.restored(1, 2, None, b"v") == Record(1, 2, None, b"v")


def test_column() -> None:
    column = BinaryColumn(offsets(0, 1, 1, 3), b"abc", b"\x05")
    assert [column[index] for index in range(len(column))] == [b"a", None, b"bc"]
    assert len(BinaryColumn(offsets(0), b"")) == 0
    byte_of_rows = BinaryColumn(offsets(*[0] * 9), b"", b"\x80")
    assert [byte_of_rows[index] for index in range(8)] == [None] * 7 + [b""]


@pytest.mark.parametrize(
    ("column_offsets", "validity", "reason"),
    [
        (b"", None, "not a sequence of int32"),
        (b"abc", None, "not a sequence of int32"),
        (offsets(*range(10)), b"\xff", "1 bytes"),
    ],
)
def test_refused_columns(column_offsets: bytes, validity: bytes | None, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason):
        BinaryColumn(column_offsets, b"abc", validity)


@pytest.mark.parametrize("wrong", [(2, 1), (0, 4), (-1, 2)])
def test_refused_values(wrong: tuple[int, int]) -> None:
    with pytest.raises(EncodeError, match="is not within 3 bytes"):
        BinaryColumn(offsets(*wrong), b"abc")[0]


def test_indexes_outside() -> None:
    column = BinaryColumn(offsets(0, 1, 3), b"abc")
    for index in (-1, 2, 5):
        with pytest.raises(IndexError, match=f"^there is no value {index} among 2$"):
            column[index]
    assert [bytes(value or b"") for value in column] == [b"a", b"bc"]


@pytest.mark.parametrize("validity", [None, b"\x05"])
def test_columns_are_copied(validity: bytes | None) -> None:
    column = BinaryColumn(offsets(0, 1, 1, 3), bytearray(b"abc"), validity)
    for copied in (copy.copy(column), copy.deepcopy(column), pickle.loads(pickle.dumps(column))):
        assert [copied[index] for index in range(3)] == [column[index] for index in range(3)]
