"""The declarative forms read the formats that the schemas describe.

Method: parse bytes written by hand, and message sets, with the forms. `test_batch.py` tests the forms as an engine,
together with the others.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES, FORMATS
from kafkawire.sdk.records import MessageSetBuilder
from kafkawire.sdk.records.engines import python_batch
from kafkawire.sdk.records.engines.construct import ConstructBatch, form
from tests.sdk.records.conftest import batch_of


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
    with pytest.raises(DecodeError, match="the length says 7 bytes, but there are 8"):
        parsed("Record", bytes.fromhex("0e 00 00 00 01 04 61 61 00"))


def test_a_count_beyond_the_data_is_where_it_says() -> None:
    with pytest.raises(DecodeError) as caught:
        parsed("Record", bytes.fromhex("0e 00 00 00 01 02 61 14"))
    assert (caught.value.path, caught.value.reason) == ("headers", "10 elements do not fit into 0 bytes")
    assert caught.value.offset == 8


def batch_with(payload: bytes) -> bytes:
    """Return a batch that claims one record, whatever follows its header."""
    data = batch_of([(0, None, b"a", ())])[:BATCH_HEADER_BYTES] + payload
    return data[:8] + (len(data) - 12).to_bytes(4, "big") + data[12:]


DAMAGED_RECORDS = {
    "cut": ("12 00 00 00 01 02 61", "records[0] at byte 0: ends early: the records have 7 bytes"),
    "length": ("0e 00 00 00 01 04 61 61 00", "records[0] at byte 0: a record of 7 bytes has 8 bytes of content"),
    "headers": ("0e 00 00 00 01 02 61 14", "records[0] at byte 0: 10 headers in 0 bytes"),
    "more": ("0e 00 00 00 01 02 61 00 00", "records at byte 0: 1 bytes follow the last of 1 records"),
}


@pytest.mark.parametrize(("payload", "error"), DAMAGED_RECORDS.values(), ids=DAMAGED_RECORDS)
def test_errors_are_those_of_the_other_engines(payload: str, error: str) -> None:
    data = batch_with(bytes.fromhex(payload))
    for batch_class in (ConstructBatch, python_batch.RecordBatch):
        with pytest.raises(DecodeError) as caught:
            batch_class(data).records()
        assert str(caught.value) == error


@pytest.mark.parametrize("payload", [payload for payload, _ in DAMAGED_RECORDS.values()], ids=DAMAGED_RECORDS)
def test_what_only_this_engine_refuses_is_refused(monkeypatch: pytest.MonkeyPatch, payload: str) -> None:
    monkeypatch.setattr(python_batch, "parts", lambda *_: iter(()))
    with pytest.raises(DecodeError, match=r"^records"):
        ConstructBatch(batch_with(bytes.fromhex(payload))).records()
