"""The extension's buffers stay alive as long as anything points into them, and are released after that.

Method: let views, records and sealed batches outlive their sources, compare reference counts before and after, and use
objects in ways for which they were not made.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import types
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import Compression, batch_builder_class, record_batch_class
from kafkawire.sdk.records.columns import columns
from kafkawire.sdk.records.engines import selection as engines
from tests.needs import EXTENSION
from tests.sdk.records.conftest import ROWS

pytestmark = [EXTENSION.mark, pytest.mark.usefixtures("frozen_heap")]

HEADER_BYTES = 61


def batch_of(compression: Compression = Compression.NONE) -> bytes:
    builder = batch_builder_class("native")(2**20, compression)
    for row in ROWS:
        builder.append(*row)
    return builder.build()


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.SNAPPY])
def test_views_keep_the_bytes(compression: Compression) -> None:
    views = list(record_batch_class("native")(bytearray(batch_of(compression))).views())
    gc.collect()
    assert [(view.timestamp_ms, view.key, view.value, view.headers) for view in views] == ROWS
    assert [view.offset for view in views] == [0, 1, 2, 3]
    records = record_batch_class("native")(batch_of(compression)).records()
    assert views == records
    assert repr(views) == repr(records)


def test_a_buffer_is_locked_while_it_is_read_and_free_afterwards() -> None:
    data = bytearray(batch_of())
    batch = record_batch_class("native")(data)
    with pytest.raises(BufferError):
        data.clear()
    view = next(batch.views())
    del batch
    with pytest.raises(BufferError):
        data.clear()
    del view
    data.clear()


@pytest.mark.parametrize("name", ["key", "value", "headers", "topic"])
def test_objects_in_a_record_are_read_without_a_call(name: str) -> None:
    module = engines.built
    assert module is not None
    assert isinstance(vars(module.Record)[name], types.MemberDescriptorType)
    record = module.Record(1, 2, b"k", b"v", (("h", b"x"),), 3, "t", 4)
    assert getattr(record, name) == {"key": b"k", "value": b"v", "headers": (("h", b"x"),), "topic": "t"}[name]
    with pytest.raises(AttributeError, match="read-only"):
        setattr(record, name, None)
    assert getattr(module.Record.__new__(module.Record), name) is None


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 127, 128, 8190, 8191, 8192, 20_000])
def test_short_and_long_records_are_read_alike(size: int) -> None:
    contents = [None, b"", b"c" * size]
    rows = [(time, key, value) for time in (0, 63, 64, 8191, 8192, 2**40) for key in contents for value in contents]
    builder = batch_builder_class("native")(2**30)
    for row in rows:
        builder.append(*row)
    data = builder.build()
    expected = record_batch_class("python")(data).records()
    for kind in (bytes, bytearray):  # the last record ends where the memory ends
        batch = record_batch_class("native")(kind(data))
        assert [record.__reduce__() for record in batch.records()] == [record.__reduce__() for record in expected]
        assert [(view.timestamp_ms, view.key, view.value) for view in batch.views()] == rows
        assert [batch.columns().values.at(row) for row in range(len(rows))] == [row[2] for row in rows]


def test_nothing_is_leaked() -> None:
    data = batch_of()
    before = sys.getrefcount(data)
    batch: Any = None
    for _ in range(100):
        batch = record_batch_class("native")(data)
        assert len(batch.records()) == len(list(batch.views())) == columns([batch]).count
        with pytest.raises(DecodeError):
            record_batch_class("native")(data, 5)
    del batch
    gc.collect()
    assert sys.getrefcount(data) == before


def test_a_sealed_batch_outlives_its_builder() -> None:
    sealed = []
    for _ in range(10):
        builder = batch_builder_class("native")()
        builder.append_many([b"x" * 100] * 100, 1)
        sealed.append(builder.seal())
    assert len({bytes(batch) for batch in sealed}) == 1
    with pytest.raises(TypeError):
        sealed[0][0] = 1


def test_objects_that_were_not_made() -> None:
    batch_class = record_batch_class("native")
    with pytest.raises(TypeError, match="argument"):
        batch_class.__new__(batch_class)
    builder: Any = batch_builder_class("native")()
    for _ in range(2):
        with pytest.raises(BufferError, match="sealed and has records"):
            memoryview(builder)
        assert builder.seal() == b""  # the builder has no memory, so none may be returned


def test_a_batch_that_is_made_again_stays_what_it_was() -> None:
    batch_class: Any = record_batch_class("native")
    data = batch_of()
    batch = batch_class.__new__(batch_class, data)
    for other in (b"", bytes(HEADER_BYTES), bytes(8) + b"\0\x10\0\0" + bytes(49)):
        with contextlib.suppress(DecodeError):
            batch.__init__(other)
        batch.check_crc()
        assert bytes(batch.data) == data


def test_no_memory_is_given_out_that_nobody_wrote() -> None:
    for _ in range(3):  # the size of the last batch is reserved for the next
        batch_of()
        builder: Any = batch_builder_class("native")(2**20, Compression.GZIP)
        builder.append(1, None, b"value")
        builder.build()
        assert bytes(memoryview(builder)[:HEADER_BYTES]) == bytes(HEADER_BYTES)


def test_a_walk_in_a_cycle_gives_its_buffer_back() -> None:
    class Other:
        walk: Any

    data = bytearray(batch_of())
    walk_class: Any = engines.built.Walk  # type: ignore[union-attr]  # see `pytestmark`
    walk = walk_class.__new__(walk_class)
    assert list(walk) == []
    other = Other()
    walk.__init__(data, True, 2**20, other)
    other.walk = walk
    with pytest.raises(TypeError, match="walked over only once"):
        walk.__init__(data, True, 2**20, other)
    assert len(list(walk)) == 1
    del walk, other
    gc.collect()
    data.clear()


def test_memory_that_changes_meanwhile_is_not_overrun() -> None:
    data = bytearray(batch_of())
    batch = record_batch_class("native")(data)
    views = batch.views()
    view = next(views)
    for index in range(61, len(data)):
        data[index] = 0xFF
    with pytest.raises(DecodeError):
        list(views)
    assert view.offset == 0
    with pytest.raises(DecodeError):
        batch.records()
    with pytest.raises(DecodeError):
        columns([batch])
