"""Fields are packed and codecs are recognized as the formats define them.

Method: check numbers, lengths of byte strings, and the codecs of each format that has attributes.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.records import Compression
from kafkawire.sdk.records.fields import compressions, packed


@pytest.mark.parametrize(
    ("format_name", "field_name", "expected"),
    [
        ("RecordBatch", "base_offset", ">q"),
        ("RecordBatch", "batch_length", ">i"),
        ("RecordBatch", "crc", ">I"),
        ("RecordBatch", "attributes", ">h"),
        ("MessageV0", "attributes", ">b"),
        ("MessageV0", "value", ">i"),
    ],
)
def test_packed(format_name: str, field_name: str, expected: str) -> None:
    assert packed(format_name, field_name).format == expected


def test_compressions() -> None:
    assert compressions("RecordBatch") == set(Compression)
    assert compressions("MessageV0") == compressions("MessageV1") == set(Compression) - {Compression.ZSTD}
