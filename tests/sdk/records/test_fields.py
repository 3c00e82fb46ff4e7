"""Widths and codecs of a record format come from its fields.

Method: fields whose width Kafka's documentation states, and the codecs of each magic.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.tables.record_formats import Compression
from kafkawire.sdk.records.fields import compressions, packed


@pytest.mark.parametrize(
    ("format_name", "field_name", "size"),
    [("RecordBatch", "base_offset", 8), ("RecordBatch", "attributes", 2), ("MessageV0", "value", 4)],
)
def test_packed(format_name: str, field_name: str, size: int) -> None:
    assert packed(format_name, field_name).size == size


def test_compressions() -> None:
    assert compressions("RecordBatch") == set(Compression)
    assert compressions("MessageV1") == set(Compression) - {Compression.ZSTD}
