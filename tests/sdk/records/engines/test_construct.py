"""The declarative forms read what the schemas describe.

Method: forms on bytes written by hand, and on message sets. As an engine the forms are tested with the others in
`test_batch.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.record_formats import FORMATS
from kafkawire.sdk.records import MessageSetBuilder
from kafkawire.sdk.records.engines.construct import form


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


def test_a_count_beyond_the_data_is_where_it_says() -> None:
    with pytest.raises(DecodeError) as caught:
        parsed("Record", bytes.fromhex("0e 00 00 00 01 02 61 14"))
    assert (caught.value.path, caught.value.reason) == ("headers", "10 elements in 0 bytes")
    assert caught.value.offset == 8
