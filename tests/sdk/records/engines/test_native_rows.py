"""The extension alone keeps rows in its own memory, and checks a batch before it creates any object."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.record_formats import BATCH_BATCH_LENGTH_COUNTS_FROM
from kafkawire.sdk.records import walk
from kafkawire.sdk.records.engines import selection
from kafkawire.sdk.records.engines.shared_rows import HEADER_OBJECT_BYTES
from kafkawire.sdk.records.rows import PlainBatches
from tests.needs import EXTENSION
from tests.sdk.records.conftest import batch_of

pytestmark = EXTENSION.mark


def native_builder(columns: list[str]) -> Any:
    assert selection.built is not None
    return selection.built.RowsBuilder(columns)


def test_headers_of_a_broken_record_are_not_looked_at_if_they_are_too_many() -> None:
    """The code that explains the error would turn the headers into objects."""
    whole = batch_of([(1, None, b"v", [("", None)] * 1000)])
    for data in (whole[:-1] + b"\x7e", whole + b"\0"):
        size = len(data) - BATCH_BATCH_LENGTH_COUNTS_FROM
        broken = data[:8] + size.to_bytes(4, "big") + data[12:]
        for columns in (["value"], ["headers"]):
            (batch,) = walk(broken, check_crc=False, limit=1000 * HEADER_OBJECT_BYTES - 1, engine="native")
            with pytest.raises(DecodeError, match="the 1000 headers of a record take 400000 bytes"):
                native_builder(columns).begin(batch)
            (batch,) = walk(broken, check_crc=False, engine="native")
            with pytest.raises(DecodeError, match=r"records"):
                native_builder(columns).begin(batch)


def test_memory_of_a_table_is_not_twice_what_it_needs() -> None:
    data = batch_of([(1, None, bytes(100), ())] * 2370)
    assert len(data) < 256 * 1024
    builder = native_builder(["value"])

    def taken() -> Any:
        while builder.add_plain(data, PlainBatches(0, len(data)))[0]:
            pass
        builder.begin(next(walk(data, engine="native")))
        assert not builder.fill()
        return builder.take().values.data

    *_, values = (taken() for _ in range(4))
    assert values.nbytes > 3.5 * 1024 * 1024
    assert len(values.obj) < 1.5 * values.nbytes
