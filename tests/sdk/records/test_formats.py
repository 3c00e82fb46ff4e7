"""The declarative forms read what the schemas describe, and tell where every byte of a batch belongs.

Method: forms on bytes written by hand; the spans of a batch cover it without a gap; broken batches end in an error
behind what could be read. As an engine the forms are tested with the others in `test_batch.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.record_formats import FORMATS
from kafkawire.sdk.records import BatchBuilder, Compression, MessageSetBuilder
from kafkawire.sdk.records.formats import form, trace_batch


def batch_of(compression: Compression = Compression.NONE) -> bytes:
    builder = BatchBuilder(2**20, compression, base_offset=3)
    builder.append(1000, b"key", None, [("name", b"x")])
    builder.append(999, None, b"value")
    return builder.build()


def parsed(name: str, data: bytes) -> Any:
    return form(name).parse(data)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages(magic: int) -> None:
    messages = MessageSetBuilder(magic, base_offset=8)
    messages.append(5, b"key", None)
    found = parsed(f"MessageV{magic}", messages.build())
    assert (found.offset, found.magic, found.key, found.value) == (8, magic, b"key", None)
    assert ("timestamp" in found) == bool(magic)


def test_every_format_has_a_form() -> None:
    for name, fields in FORMATS.items():
        assert {field.name for field, _ in form(name).fields} <= {field.name for field in fields}
    assert parsed("ControlRecordKey", b"\x00\x00\x00\x01").type == 1


def test_a_length_must_be_true() -> None:
    with pytest.raises(DecodeError, match="7 bytes announced, there are 8"):
        parsed("Record", bytes.fromhex("0e 00 00 00 01 04 61 61 00"))


def test_spans_cover_a_batch() -> None:
    data = batch_of()
    spans, error = trace_batch(b"before" + data, 6)
    assert error is None
    position = 6
    for span in spans:
        assert span.offset == position
        position += span.length
    assert position == len(data) + 6
    said = {span.path: repr(span.value) for span in spans}
    assert said["base_offset"] == "3"
    assert said["attributes"].startswith("0: compression none, timestamp_type create_time, is_transactional 0")
    assert said["records[0].key"] == "b'key'"
    assert said["records[0].headers[0].key"] == "'name'"
    assert said["records[1].timestamp_delta"] == "-1"


def test_compressed_records_are_one_span() -> None:
    data = batch_of(Compression.GZIP)
    spans, error = trace_batch(data)
    assert error is None
    assert (spans[-1].offset, spans[-1].length) == (61, len(data) - 61)
    assert repr(spans[-1].value) == "2 records, compressed with gzip"


def test_a_broken_batch_is_explained_up_to_the_error() -> None:
    data = bytearray(batch_of())
    data[61] = 0x7E  # the first record is not that long
    spans, error = trace_batch(data)
    assert error is not None
    assert spans[-1].path.startswith("records[0]")
    assert trace_batch(bytes(10))[0] == []
