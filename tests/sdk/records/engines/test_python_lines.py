"""The Python engine's `RecordLines` reads long records without creating objects for their headers.

Method: write a record just below and one just above the length from which records count as long;
`tests/sdk/records/test_lines.py` tests the rest.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import record_batch_class
from kafkawire.sdk.records.engines.python_lines import RecordLines
from kafkawire.sdk.records.engines.python_record import Record
from tests.sdk.records.conftest import batch_of


def written(data: bytes) -> bytes:
    out: list[bytes] = []
    lines = RecordLines(out.append)
    assert lines.add(record_batch_class("python")(data), b"record", b"CreateTime") == 1
    lines.flush()
    return b"".join(out)


@pytest.mark.parametrize("size", [10, 262_100, 262_144, 300_000])
@pytest.mark.parametrize("headers", [(), (("a", b"b"), ("c", None))])
def test_long_records(size: int, headers: tuple[tuple[str, bytes | None], ...]) -> None:
    shown = written(batch_of([(7, b"key", b"v" * size, headers)]))
    names = b"a,c] headerValues: [b,null" if headers else b""
    start = b"| offset: 0 CreateTime: 7 keySize: 3 valueSize: %d sequence: -1 headerKeys: [%s]" % (size, names)
    assert shown == start + b" key: key payload: " + b"v" * size + b"\n"


def test_a_long_record_that_lies() -> None:
    data = bytearray(batch_of([(7, b"key", b"v" * 300_000, ())]))
    data[-1] = 4  # declares this many more headers
    with pytest.raises(DecodeError, match=r"records\[0\] at byte 0: it is cut"):
        written(bytes(data))


def test_a_record_of_an_old_format_goes_back() -> None:
    """`backward` concerns only the last record added; the next record resets it."""
    lines = RecordLines([].append)
    told: list[int | None] = []
    for offset in (5, 3, 4, 3):
        lines.add_record(Record(offset, 7, None, b"v"), b"record", b"CreateTime", b"")
        told.append(lines.backward)
    assert told == [None, 3, None, 3]
