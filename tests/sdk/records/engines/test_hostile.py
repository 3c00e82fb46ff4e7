"""Objects that lie, change, raise, or run code at the wrong moment never crash an engine; all engines react the same.

Method: pass hostile objects in every place that takes an object, on every builder and batch. A builder must stay
usable, and its sealed batch must be whole and hold the accepted records. Under the sanitizers, an out-of-bounds access
ends the run.
"""

from __future__ import annotations

import copy
import gc
import itertools
import mmap
import pickle
import struct
import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.records import (
    BatchBuilder,
    BinaryColumn,
    Compression,
    Record,
    batch_builder_class,
    record_batch_class,
)
from kafkawire.sdk.records.columns import columns
from kafkawire.sdk.records.engines import selection as engines
from tests import hostile
from tests.needs import EXTENSION
from tests.sdk.records.conftest import AVAILABLE

pytestmark = pytest.mark.usefixtures("frozen_heap")

BUILDERS = [name for name in AVAILABLE if name != "construct"]
LONG = b"x" * 100_000
HEADER_BYTES = 61


@pytest.fixture(params=BUILDERS)
def builder(request: pytest.FixtureRequest) -> BatchBuilder:
    return batch_builder_class(request.param)(2**30)


def held(builder: BatchBuilder) -> list[Record]:
    """Return the records that a builder has accepted, after checking every length and the checksum."""
    data = builder.build()
    if not data:
        return []
    batch = record_batch_class("python")(data)
    batch.check_crc()
    assert batch.size_in_bytes == len(data)
    records = batch.records()
    assert len(records) == batch.records_count == builder.count
    assert [record.offset for record in records] == sorted({record.offset for record in records})
    return records


class LyingBytes(bytes):
    """Bytes that claim to be longer than they are."""

    def __len__(self) -> int:
        return 10 * len(LONG)


# --- false lengths ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claimed", [0, 1, 2**31, 2**62])
def test_headers_that_lie_about_their_number(builder: BatchBuilder, claimed: int) -> None:
    entries: list[Any] = [("name", LONG), ("other", None), ("third", b"")]
    builder.append(1, None, b"v", hostile.LyingSequence(claimed, entries))  # type: ignore[arg-type]  # on purpose
    for kind in (hostile.LyingList, hostile.LyingTuple):
        lying: Any = kind([("a", b"b")])
        lying.claimed, lying.others = claimed, tuple(entries)
        builder.append(1, None, b"v", lying)
    records = held(builder)
    assert [record.headers for record in records] == [tuple(entries)] * 3


@pytest.mark.parametrize("number", [64, 8192])
def test_headers_whose_number_takes_more_bytes_than_the_claimed_one(builder: BatchBuilder, number: int) -> None:
    headers: Any = hostile.LyingSequence(1, [("", None)] * number)
    builder.append(1, None, None, headers)
    builder.append(1, None, b"v")
    records = held(builder)
    assert [len(record.headers) for record in records] == [number, 0]


def test_names_and_values_that_lie_about_their_size(builder: BatchBuilder) -> None:
    lying = LyingBytes(b"short")
    builder.append(1, lying, lying, [(hostile.LyingText("name"), lying)])
    builder.append_many([lying], 1)
    first, second = held(builder)
    assert (first.key, first.value, first.headers) == (b"short", b"short", (("name", b"short"),))
    assert second.value == b"short"


def test_values_that_lie_about_their_number(builder: BatchBuilder) -> None:
    for claimed in (0, 2**62):
        values: Any = hostile.LyingSequence(claimed, [b"a", LONG, None])
        assert builder.append_many(values, 1) == 3
    assert [record.value for record in held(builder)] == [b"a", LONG, None] * 2


# --- buffers that change between looks --------------------------------------------------------------------------------


def test_buffers_that_change_between_looks(builder: BatchBuilder) -> None:
    def changing() -> Any:
        return hostile.HostileBuffer(b"small", LONG, b"")

    builder.append(1, changing(), changing(), [("name", changing())])
    builder.append_many([changing()], 1)
    first, second = held(builder)
    assert (first.key, first.value, first.headers, second.value) == (
        b"small",
        b"small",
        (("name", b"small"),),
        b"small",
    )


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_a_batch_looks_once_at_its_buffer(engine: str, compression: Compression) -> None:
    writer = batch_builder_class("python")(2**30, compression)
    writer.append_many([b"value" * 20] * 5, 1)
    data = writer.build()
    source: Any = hostile.HostileBuffer(data, b"", b"short", data[::-1])
    batch = record_batch_class(engine)(source)
    batch.check_crc()
    found = columns([batch])
    views = [view.value for view in batch.views()]
    kept = batch.data
    payload = batch.payload()
    values = [record.value for record in batch.records()]
    del batch
    gc.collect()
    assert source.looks == 1
    assert bytes(kept) == data
    assert len(payload) > HEADER_BYTES
    assert values == views == [found.values.at(row) for row in range(5)] == [b"value" * 20] * 5


# --- columns ----------------------------------------------------------------------------------------------------------


class LyingColumn(BinaryColumn):
    """A column whose row count differs from that in its offsets."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> Any:
        return memoryview(b"other")


class DuckColumn:
    """An object with the attributes of a column, which change with every access."""

    def __init__(self, offsets: Any, data: Any, validity: Any) -> None:
        self._attributes = {
            name: iter(each) for name, each in zip(("o", "d", "v"), (offsets, data, validity), strict=True)
        }

    offsets = property(lambda self: next(self._attributes["o"]))
    data = property(lambda self: next(self._attributes["d"]))
    validity = property(lambda self: next(self._attributes["v"]))


def ends(*numbers: int) -> bytes:
    return struct.pack(f"={len(numbers)}i", *numbers)


def test_columns_that_lie_about_their_length(builder: BatchBuilder) -> None:
    assert builder.append_columns(LyingColumn(ends(0, 1, 3), b"abc"), 1) == 2
    assert [record.value for record in held(builder)] == [b"a", b"bc"]


def test_columns_that_were_changed(builder: BatchBuilder) -> None:
    for name, content, reason in (
        ("offsets", ends(0, 1, 2**31 - 1), r"offsets\[1\]"),
        ("offsets", ends(-5, 1, 1), r"offsets\[0\]"),
        ("offsets", ends(2, 1, 1), r"offsets\[0\]"),
        ("offsets", b"", "not a sequence of int32"),
        ("offsets", b"12345", "not a sequence of int32"),
        ("data", b"", r"offsets\[0\]"),
        ("validity", b"", "validity: 0 bytes are too few for 2 values"),
    ):
        column = BinaryColumn(ends(0, 1, 3), b"abc", b"\x03")
        setattr(column, name, content)
        with pytest.raises(EncodeError, match=reason):
            builder.append_columns(column, 1)
        with pytest.raises(EncodeError, match=reason):
            builder.append_columns(BinaryColumn(ends(0, 1, 3), b"abc"), 1, column)
    held(builder)


def test_columns_that_are_others_at_each_look(builder: BatchBuilder) -> None:
    column: Any = DuckColumn([ends(0, 1, 3), b""], [b"abc", b""], [b"\x02", None])
    assert builder.append_columns(column, 1) == 2
    buffers: Any = DuckColumn(
        [hostile.HostileBuffer(ends(0, 3), ends(0, 1_000_000))], [hostile.HostileBuffer(b"abc", b"")], [None]
    )
    assert builder.append_columns(buffers, 1) == 1
    assert [record.value for record in held(builder)] == [None, b"bc", b"abc"]


@pytest.mark.parametrize("wrong", [None, 5, [b"a"], "text"])
def test_what_is_no_column(builder: BatchBuilder, wrong: Any) -> None:
    with pytest.raises(EncodeError, match=r"^values: expected a BinaryColumn, got "):
        builder.append_columns(wrong, 1)
    with pytest.raises(EncodeError, match=r"^start: "):
        builder.append_columns(BinaryColumn(ends(0), b""), 1, start=-1)


# --- code that runs in between ----------------------------------------------------------------------------------------


def meddle(builder: BatchBuilder) -> list[Callable[[], object]]:
    """Return the actions that code running in between may take on a builder."""
    return [
        lambda: builder.append(5, b"inner", LONG),
        lambda: builder.append_many([LONG] * 3, 5),
        lambda: setattr(builder, "last_offset_delta", builder.last_offset_delta + 1),
        lambda: builder.__init__(),  # type: ignore[misc]  # on purpose
    ]


@pytest.mark.parametrize("place", ["timestamp_ms", "key", "value", "headers", "header value"])
@pytest.mark.parametrize("which", range(3))
def test_appending_inside_of_append(builder: BatchBuilder, place: str, which: int) -> None:
    fuse = hostile.Fuse(meddle(builder)[which])
    text: Any = hostile.HostileBuffer(b"buffer", fuse=fuse)
    arguments: dict[str, Any] = {"timestamp_ms": 1, "key": b"k", "value": b"v", "headers": [("h", b"")]}
    arguments |= {
        "timestamp_ms": {"timestamp_ms": hostile.Number(7, fuse)},
        "key": {"key": text},
        "value": {"value": text},
        "headers": {"headers": hostile.LyingSequence(1, [("h", b"")] * 3, fuse)},
        "header value": {"headers": [("h", text)]},
    }[place]
    for _ in range(3):
        assert builder.append(**arguments) == builder.last_offset_delta
    assert fuse.calls
    outer = [record for record in held(builder) if record.timestamp_ms != 5]
    assert len(outer) == 3


@pytest.mark.parametrize("place", ["timestamp_ms", "key", "value", "headers"])
def test_sealing_inside_of_append(builder: BatchBuilder, place: str) -> None:
    builder.append(1, None, b"first")
    sealed: list[memoryview] = []
    fuse = hostile.Fuse(lambda: sealed.append(builder.seal()))
    text: Any = hostile.HostileBuffer(LONG, fuse=fuse)
    arguments: dict[str, Any] = {"timestamp_ms": 1, "key": None, "value": None, "headers": ()}
    arguments |= {
        "timestamp_ms": {"timestamp_ms": hostile.Number(7, fuse)},
        "key": {"key": text},
        "value": {"value": text},
        "headers": {"headers": hostile.LyingSequence(1, [("h", LONG)], fuse)},
    }[place]
    with pytest.raises(EncodeError, match="the batch is sealed"):
        builder.append(**arguments)
    assert builder.build() == bytes(sealed[0])
    assert len(held(builder)) == 1


def test_a_list_that_changes_while_it_is_appended(builder: BatchBuilder) -> None:
    values: list[Any] = [b"a", b"b"]
    values[0] = hostile.HostileBuffer(b"a", fuse=hostile.Fuse(values.clear))
    assert builder.append_many(values, 1) == 1
    growing: list[Any] = []
    fuse = hostile.Fuse(lambda: growing.append(b"more") if len(growing) < 10 else None)
    growing.extend(hostile.HostileBuffer(b"a", fuse=fuse) for _ in range(5))
    assert builder.append_many(growing, 1) == 10
    assert len(held(builder)) == 11


def test_headers_that_change_while_they_are_read(builder: BatchBuilder) -> None:
    headers: list[Any] = []
    headers += [("h", hostile.HostileBuffer(b"value", fuse=hostile.Fuse(headers.clear))), ("i", LONG)]
    builder.append(1, None, None, headers)
    (record,) = held(builder)
    assert record.headers == (("h", b"value"), ("i", LONG))


def test_a_timestamp_that_is_read_once(builder: BatchBuilder) -> None:
    counter = itertools.count(-5)

    class Changing:
        def __index__(self) -> int:
            return next(counter)

    times: Any = Changing()
    with pytest.raises(EncodeError, match=r"^timestamp_ms: -5 is not a time"):
        builder.append(times, None, b"")
    assert builder.append(hostile.Number(3), None, b"") == 0  # type: ignore[arg-type]  # on purpose
    assert next(counter) == -4
    assert held(builder)[0].timestamp_ms == 3


# --- errors at every call ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError])
def test_errors_at_every_call(builder: BatchBuilder, error: type[BaseException]) -> None:
    def run(fuse: hostile.Fuse) -> None:
        # An error in `__buffer__` cannot be raised before 3.12.
        text: Any = hostile.HostileBuffer(b"b", fuse=fuse) if sys.version_info >= (3, 12) else b"b"
        headers: Any = hostile.LyingSequence(1, [("h", text), ("i", None)], fuse)
        builder.append(hostile.Number(1, fuse), text, text, headers)  # type: ignore[arg-type]  # on purpose
        number: Any = hostile.Number(1, fuse)
        builder.append_many(hostile.LyingSequence(9, [text, text], fuse), number)

    raised = list(hostile.raised_at_every_call(run, error))
    assert raised.pop() is None
    assert len(raised) >= 5
    assert all(isinstance(each, error | EncodeError) for each in raised)
    for record in held(builder):
        assert (record.key, record.value) in ((b"b", b"b"), (None, b"b"))


@EXTENSION.mark
def test_sizes_that_do_not_fit() -> None:
    """Some sizes exceed an int32, and two exceed it only in sum; none of this memory is ever touched."""
    builder = batch_builder_class("native")(2**40)
    builder.append(1, None, b"v")
    with mmap.mmap(-1, 2**31) as pages, memoryview(pages) as huge, huge[: 2**30] as half:
        for key, value in ((huge, None), (None, huge), (half, half), (huge, huge)):
            assert builder.append(1, key, value) is None
        assert builder.append_many([huge], 1) == 0
        assert builder.append_columns(BinaryColumn(ends(0, 2**31 - 1), huge), 1) == 0
    assert len(held(builder)) == 1


# --- objects made without their constructor ---------------------------------------------------------------------------


def native_types() -> list[Any]:
    module: Any = engines.built
    found = [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__]
    builder = module.BatchBuilder()
    builder.append_many([b"a"], 1)
    views = module.RecordBatch(builder.build()).views()
    return list({*found, type(views), type(next(views))})


@EXTENSION.mark
def test_every_type_of_the_extension_survives_what_it_is_not_made_for() -> None:
    for kind in native_types():
        objects: list[Any] = []
        makers: list[Callable[[], object]] = [kind, lambda kind=kind: kind.__new__(kind), partial(object.__new__, kind)]
        makers += [partial(kind, 0, 1), partial(kind, len)]
        for make in makers:
            try:
                objects.append(make())
            except (TypeError, EncodeError):
                continue
        assert objects or kind.__name__ == "RecordBatch", f"{kind} cannot be made, which is intended only for a batch"
        for thing in objects:
            for name in dir(thing):
                exercise(thing, name)
            for use in (repr, hash, iter, next, len, memoryview, copy.copy, copy.deepcopy, pickle.dumps, bytes):
                swallow(lambda use=use, thing=thing: use(thing))
            swallow(lambda thing=thing: thing == 5)


def exercise(thing: Any, name: str) -> None:
    """Use an attribute in every possible way."""
    value = swallow(lambda: getattr(thing, name))
    swallow(lambda: setattr(thing, name, None))
    swallow(lambda: delattr(thing, name))
    if callable(value) and name not in ("__class__", "__init_subclass__", "__subclasshook__"):
        for arguments in ((), (None,), (None, None), (b"", 0), (1, None, b"v"), ([None], 1), (1, 1, None, None)):
            swallow(lambda arguments=arguments: value(*arguments))


def swallow(action: Callable[[], Any]) -> Any:
    """Call a function that may raise; only a crash is a failure here."""
    try:
        return action()
    except Exception:
        return None


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize("position", [-(2**63), -1, 1, 2**62, 2**63 - 1])
def test_positions_out_of_the_buffer(engine: str, position: int) -> None:
    with pytest.raises(DecodeError, match="a batch has a header of 61 bytes"):
        record_batch_class(engine)(bytes(HEADER_BYTES), position)


# --- deep structures that are freed -----------------------------------------------------------------------------------


class Link(bytes):
    """Bytes that hold another object."""

    next: object


def test_a_long_chain_of_records_is_freed() -> None:
    """Freeing nested structures must not take C stack for each record."""
    link, held = Link(b""), set[int]()
    link.next, end = held, weakref.ref(held)
    record = Record(0, 0, None, link)
    for _ in range(200_000):
        link = Link(b"")
        link.next = record
        record = Record(0, 0, None, link)
    del link, record, held
    gc.collect()
    assert end() is None


@EXTENSION.mark
@pytest.mark.parametrize("at_once", [False, True])
def test_a_list_of_records_is_nowhere_to_be_seen_while_it_is_filled(at_once: bool) -> None:
    """The collector may run while headers are made; its list of all lists must not include the half-filled list."""
    builder = batch_builder_class("native")(2**30)
    for index in range(37):
        builder.append(1, None, b"v", [("h", b"")] * 3 if index else ())
    data, seen = builder.build(), list[int]()
    batch = record_batch_class("native")(data)
    held = [thing for thing in gc.get_objects() if type(thing) is list]  # lists from earlier tests, with their ids
    others = {id(thing) for thing in held}

    def look(phase: str, info: object) -> None:
        lists = [thing for thing in gc.get_objects() if type(thing) is list and id(thing) not in others]
        seen.extend(len(found) for found in lists if any(type(one).__name__ == "Record" for one in found))

    threshold, callbacks, gc.callbacks[:] = gc.get_threshold(), gc.callbacks[:], [look]
    gc.set_threshold(5, 1000, 1000)
    try:
        records = engines.built.read_records(data) if at_once and engines.built else batch.records()
    finally:
        gc.callbacks[:] = callbacks
        gc.set_threshold(*threshold)
    assert (len(records), gc.is_tracked(records)) == (37, True)
    assert set(seen) <= {37}
