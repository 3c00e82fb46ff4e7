"""The Python engine parses records and refuses everything else.

Method: parse hand-built records, one for each kind of error.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import Compression
from kafkawire.sdk.records.engines.python_batch import RecordBatch, parts
from kafkawire.sdk.records.engines.python_builder import BatchBuilder


def record(body: str) -> bytes:
    """Return a record with fewer than 64 bytes after its length."""
    content = bytes.fromhex(body)
    return bytes([len(content) * 2]) + content


GOOD = record("00 00 00 01 02 61 00")


def test_parts() -> None:
    data = record("00 03 04 02 6b 02 76 02 02 68 01") + GOOD
    first, second = parts(data, 2)
    headers, key, offset, timestamp, value, end = first
    assert (timestamp, offset, key, value, headers) == (-2, 2, b"k", b"v", (("h", None),))
    assert data[end:] == GOOD
    assert second == ((), None, 0, 0, b"a", len(data))


@pytest.mark.parametrize(
    ("data", "count", "reason"),
    [
        (GOOD, 2, "ends early"),
        (GOOD + b"\x00", 1, "1 bytes follow the last of 1 records"),
        (record("00 00 00 7e 02 61 00"), 1, "ends early"),
        (record("00 00 00 01 02 61 01"), 1, "-1 headers"),
        (record("00 00 00 01 02 61 14"), 1, "10 headers in 0 bytes"),
        (record("00 00 00 01 02 61 02 01 00"), 1, "the key of a record header has -1 bytes"),
        (record("00 00 00 01 02 61 00 00"), 1, "a record of 8 bytes has 7 bytes of content"),
        (record("00" + "ff" * 10 + "01 00 01 02 61 00"), 1, "the number has more than 10 bytes"),
        (record("00 00" + "ff" * 5 + "01 01 02 61 00"), 1, "the number has more than 5 bytes"),
        (b"\x01" + GOOD[1:], 1, "a record of -1 bytes"),
    ],
)
def test_refused(data: bytes, count: int, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        list(parts(data, count))


def test_cut_record_is_not_given_before_the_error() -> None:
    """The last header's value is shorter than the header says."""
    found = parts(GOOD + bytes([2 * 19]) + bytes.fromhex("00 00 00 01 01 02 02 68 14 61"), 2)
    assert next(found)[4] == b"a"
    with pytest.raises(DecodeError, match=r"records\[1\] at byte 0: ends early"):
        next(found)


@pytest.mark.parametrize("position", [-1, 1, 100])
def test_a_batch_must_be_there(position: int) -> None:
    with pytest.raises(DecodeError, match="a batch has a header of 61 bytes"):
        RecordBatch(bytes(61), position)


@pytest.mark.parametrize(("size", "left"), [(48, 61), (50, 61)])
def test_a_wrong_length_is_where_it_says(size: int, left: int) -> None:
    data = bytes(7) + bytes(8) + size.to_bytes(4, "big") + bytes(left - 12)
    with pytest.raises(DecodeError) as caught:
        RecordBatch(data, 7)
    assert (caught.value.path, caught.value.offset) == ("batch_length", 7 + 8)
    assert caught.value.reason == f"the batch has {size + 12} bytes, but at least 61 are needed and {left} are left"


def test_damage_of_compressed_records_is_where_it_says() -> None:
    builder = BatchBuilder(2**20, Compression.LZ4)
    builder.append(0, None, b"value")
    first = builder.build()
    second = bytearray(first)
    second[61 + 6] ^= 1  # the checksum of the frame's header
    with pytest.raises(DecodeError, match="checksum of the header") as caught:
        RecordBatch(first + second, len(first)).records()
    assert caught.value.offset == len(first) + 61 + 6


def test_repr() -> None:
    data = bytes(8) + (49).to_bytes(4, "big") + bytes(49)
    assert repr(RecordBatch(data)) == "<RecordBatch of 0 records, offsets 0 to 0>"


def test_sums_overflow_as_java_s_do() -> None:
    """Deltas of 1 and 2 exceed the highest offset and the highest timestamp."""
    builder = BatchBuilder()
    for timestamp in (0, 2):
        builder.append(timestamp, None, b"")
    data = bytearray(builder.build())
    data[:8] = data[27:35] = (2**63 - 1).to_bytes(8, "big")  # base offset and base timestamp
    records = list(RecordBatch(bytes(data)).records())
    assert [(record.offset, record.timestamp_ms) for record in records] == [
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63) + 1),
    ]
