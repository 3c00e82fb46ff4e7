"""Fixtures shared by the tests of records: the available engines, records, and batches of records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from kafkawire.sdk.records import BatchBuilder, Compression, MessageSetBuilder
from kafkawire.sdk.records.engines import selection as engines

#: (timestamp, key, value, headers) for records of every shape.
ROWS = [
    (1000, None, b"value", ()),
    (1005, b"key", None, ()),
    (900, b"", b"", (("", b""), ("name", None), ("名", b"\x00" * 70))),
    (-1, b"k" * 200, b"v" * 20_000, ()),
]

AVAILABLE = ["python", "construct", *(["native"] if engines.built is not None else [])]

contents = st.none() | st.binary(max_size=40)
rows = st.tuples(
    st.integers(-1, 2**63 - 1),
    contents,
    contents,
    st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=5), contents), max_size=3).map(tuple),
)


@pytest.fixture(params=AVAILABLE)
def engine(request: pytest.FixtureRequest) -> str:
    """Provide every engine that is available on this machine."""
    return str(request.param)


def batch_of(records: Any = ROWS, compression: Compression = Compression.NONE, **options: Any) -> bytes:
    builder = BatchBuilder(2**31 - 1, compression, **options)
    for record in records:
        builder.append(*record)
    return builder.build()


def message_set(magic: int) -> bytes:
    messages = MessageSetBuilder(magic, base_offset=40)
    messages.append(5, b"key", b"value")
    return messages.build()


def varint(number: int) -> bytes:
    """Return a number as records encode it."""
    bits, encoded = number << 1, bytearray()
    while bits >= 0x80:
        encoded.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*encoded, bits])
