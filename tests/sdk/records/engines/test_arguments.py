"""All engines refuse the same arguments, with the same errors and texts.

Method: make every call in a table of calls with wrong arguments, and in a table of accepted calls, on every engine.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.records import BinaryColumn, batch_builder_class, record_batch_class, walk
from kafkawire.sdk.records.engines import python_record
from kafkawire.sdk.records.engines import selection as engines
from kafkawire.sdk.records.walk import walked_records
from tests.sdk.records.conftest import AVAILABLE, batch_of

DATA = batch_of([(1, b"k", b"v", ())])
TWO = batch_of([(1, b"k", b"v", (("h", b"x"),)), (2, None, b"", ())])
GAPS = memoryview(bytearray(8))[::2]
HEADERS = [("h", GAPS)]
EMPTY = memoryview(bytearray(8)).cast("B", (2, 4))[:0]
#: An element type for which Python has no format character.
FOREIGN: Any = (ctypes.c_int32.__ctype_be__ * 1)(0x61626364)
COLUMN = BinaryColumn(bytes(4), b"")
INT32, INT64 = f"{-(2**31)} and {2**31 - 1}", f"{-(2**63)} and {2**63 - 1}"
#: A number with more digits than Python agrees to print.
HUGE, SO_HUGE = 10**5000, "a number of 16610 bits"
NOT_BYTES = "expected bytes or another contiguous buffer, got "


class Engine:
    """An engine's classes, under the same names for all engines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batch: Any = record_batch_class(name)
        self.record: Any = python_record.Record if engines.built is None or name != "native" else engines.built.Record

    def builder(self, **options: Any) -> Any:
        return batch_builder_class(self.name)(**options)

    def read(self, buffer: Any, **place: Any) -> Any:
        return self.batch(buffer).records(**place)

    def read_all(self, buffer: Any, **place: Any) -> Any:
        if engines.built is not None and self.name == "native":
            return engines.built.read_records(buffer, **place)
        return walked_records(buffer, engine=self.name, **place)

    def set(self, name: str, value: Any) -> Any:
        builder = self.builder()
        setattr(builder, name, value)
        return getattr(builder, name)

    def walk(self, buffer: Any, **options: Any) -> Any:
        return walk(buffer, engine=self.name, **options)


#: The call, the error, and its text.
REFUSED: list[tuple[Callable[[Engine], object], type[Exception], str]] = [
    (lambda engine: engine.builder().append(1, GAPS, None), EncodeError, f"key: {NOT_BYTES}memoryview"),
    (lambda engine: engine.builder().append(1, None, GAPS), EncodeError, f"value: {NOT_BYTES}memoryview"),
    (lambda engine: engine.builder().append(1, b"", b"", HEADERS), EncodeError, f"headers: {NOT_BYTES}memoryview"),
    (lambda engine: engine.builder().append(1, "key", None), EncodeError, f"key: {NOT_BYTES}str"),
    (lambda engine: engine.builder().append_many([GAPS], 1), EncodeError, f"value: {NOT_BYTES}memoryview"),
    (lambda engine: engine.walk(GAPS), TypeError, f"{NOT_BYTES}memoryview"),
    (lambda engine: engine.walk(5), TypeError, f"{NOT_BYTES}int"),
    (lambda engine: engine.batch(GAPS), TypeError, f"{NOT_BYTES}memoryview"),
    (lambda engine: engine.batch("text"), TypeError, f"{NOT_BYTES}str"),
    (lambda engine: engine.record("x", 2, b"", b""), TypeError, "offset: expected an integer, got 'x' of str"),
    (lambda engine: engine.record(2**70, 2, b"", b""), OverflowError, f"offset: {2**70} is not within {INT64}"),
    (
        lambda engine: engine.record(1, None, b"", b""),
        TypeError,
        "timestamp_ms: expected an integer, got None of NoneType",
    ),
    (
        lambda engine: engine.record(1, -(2**63) - 1, b"", b""),
        OverflowError,
        f"timestamp_ms: {-2**63 - 1} is not within {INT64}",
    ),
    (
        lambda engine: engine.record(1, 2, b"", b"", (), 1.7),
        TypeError,
        "sequence: expected an integer, got 1.7 of float",
    ),
    (lambda engine: engine.record(1, 2, b"", b"", (), 2**31), OverflowError, "sequence: "
        f"{2**31} is not within {INT32}"),
    (
        lambda engine: engine.record(1, 2, b"", b"", (), 1, "t", 2**31),
        OverflowError,
        f"partition: {2**31} is not within {INT32}",
    ),
    (lambda engine: engine.record(1, 2, b"", b"", (), 1, 5), TypeError, "topic: expected str, got int"),
    (lambda engine: engine.record(1, 2, 5, b""), TypeError, "key: expected bytes or None, got int"),
    (lambda engine: engine.read(DATA, topic=5), TypeError, "topic: expected str, got int"),
    (lambda engine: engine.read(DATA, topic=None), TypeError, "topic: expected str, got NoneType"),
    (lambda engine: engine.read(DATA, partition=1.5), TypeError, "partition: expected an integer, got 1.5 of float"),
    (lambda engine: engine.read(DATA, partition=2**31), OverflowError, f"partition: {2**31} is not within {INT32}"),
    (lambda engine: engine.read_all(DATA, topic=5), TypeError, "topic: expected str, got int"),
    (lambda engine: engine.read_all(b"", topic=None), TypeError, "topic: expected str, got NoneType"),
    (
        lambda engine: engine.read_all(DATA, partition=None),
        TypeError,
        "partition: expected an integer, got None of NoneType",
    ),
    (lambda engine: engine.read_all(DATA, partition=2**31), OverflowError, f"partition: {2**31} is not within {INT32}"),
    (lambda engine: engine.record(HUGE, 2, b"", b""), OverflowError, f"offset: {SO_HUGE} is not within {INT64}"),
    (
        lambda engine: engine.builder().append(HUGE, b"", b""),
        EncodeError,
        f"timestamp_ms: {SO_HUGE} is not a time in ms, nor -1 for none",
    ),
    (
        lambda engine: engine.set("last_offset_delta", HUGE),
        EncodeError,
        f"last_offset_delta: {SO_HUGE} is not within -1 and 2147483647",
    ),
    (lambda engine: engine.batch(DATA, "0"), TypeError, "'str' object cannot be interpreted as an integer"),
    (lambda engine: engine.batch(DATA, 0, None), TypeError, "'NoneType' object cannot be interpreted as an integer"),
    (lambda engine: engine.batch(DATA, 0, 1.5), TypeError, "'float' object cannot be interpreted as an integer"),
    (lambda engine: engine.batch(DATA, 2**63), OverflowError, "Python int too large to convert to C ssize_t"),
    (lambda engine: engine.walk(DATA, limit=None), TypeError, "'NoneType' object cannot be interpreted as an integer"),
    (lambda engine: engine.walk(DATA, limit=2**63), OverflowError, "Python int too large to convert to C ssize_t"),
    (
        lambda engine: engine.builder().append(1.5, b"", b""),
        EncodeError,
        "timestamp_ms: expected an integer, got 1.5 of float",
    ),
    (
        lambda engine: engine.builder().append_many([], "bad"),
        EncodeError,
        "timestamp_ms: expected an integer, got 'bad' of str",
    ),
    (
        lambda engine: engine.builder().append_many([], -2),
        EncodeError,
        "timestamp_ms: -2 is not a time in ms, nor -1 for none",
    ),
    (
        lambda engine: engine.builder().append_columns(COLUMN, None),
        EncodeError,
        "timestamp_ms: expected an integer, got None of NoneType",
    ),
    (
        lambda engine: engine.builder().append_columns(None, 1),
        EncodeError,
        "values: expected a BinaryColumn, got NoneType",
    ),
    (
        lambda engine: engine.builder().append(1, b"", b"", [("a\ud800b", b"")]),
        EncodeError,
        r"headers: 'a\ud800b' is not encodable as UTF-8: surrogates not allowed",
    ),
    (
        lambda engine: engine.builder().append(1, b"", b"", [(b"h", b"")]),
        EncodeError,
        "headers: expected a string as the name, got bytes",
    ),
    (
        lambda engine: engine.set("last_offset_delta", 2**63),
        EncodeError,
        f"last_offset_delta: {2**63} is not within -1 and 2147483647",
    ),
    (
        lambda engine: engine.set("last_offset_delta", -2),
        EncodeError,
        "last_offset_delta: -2 is not within -1 and 2147483647",
    ),
    (
        lambda engine: engine.set("base_sequence", 1.7),
        EncodeError,
        "base_sequence: expected an integer, got 1.7 of float",
    ),
    (
        lambda engine: engine.set("producer_epoch", 2**15),
        EncodeError,
        "producer_epoch: 32768 is not within -32768 and 32767",
    ),
    (
        lambda engine: engine.builder(delete_horizon_ms="x"),
        EncodeError,
        "delete_horizon_ms: expected an integer, got 'x' of str",
    ),
]  # fmt: skip

#: The call, and its result.
TAKEN: list[tuple[Callable[[Engine], object], object]] = [
    (lambda engine: engine.builder().append(1, EMPTY, EMPTY, [("h", EMPTY)]), 0),
    (lambda engine: engine.builder().append(1, FOREIGN, FOREIGN, [("h", FOREIGN)]), 0),
    (lambda engine: list(engine.walk(EMPTY)), []),
    (lambda engine: repr(engine.builder(is_transactional="yes").is_transactional), "True"),
    (lambda engine: repr(engine.set("is_transactional", [])), "False"),
    (lambda engine: repr(engine.builder(delete_horizon_ms=True).delete_horizon_ms), "1"),
    (lambda engine: repr(engine.set("base_offset", True)), "1"),
    (lambda engine: repr(engine.record(True, False, None, None).offset), "1"),
    (lambda engine: repr(engine.read(DATA, topic="t", partition=True)[0].partition), "1"),
]  # fmt: skip


@pytest.mark.parametrize("name", AVAILABLE)
@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=range(len(REFUSED)))
def test_refused(name: str, call: Callable[[Engine], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call(Engine(name))
    assert type(caught.value) is error
    assert str(caught.value) == text


@pytest.mark.parametrize("name", AVAILABLE)
@pytest.mark.parametrize(("call", "result"), TAKEN, ids=range(len(TAKEN)))
def test_taken(name: str, call: Callable[[Engine], object], result: object) -> None:
    assert call(Engine(name)) == result


@pytest.mark.parametrize("name", ["offsets", "data", "validity"])
def test_columns_of_what_is_no_buffer(name: str) -> None:
    buffers: dict[str, Any] = {"offsets": bytes(4), "data": b"", "validity": None}
    with pytest.raises(EncodeError, match=f"^{name}: {NOT_BYTES}int$"):
        BinaryColumn(**{**buffers, name: 5})


@pytest.mark.parametrize("damage", range(61, len(TWO) - 1))
def test_damage_is_told_alike(damage: int) -> None:
    """When reading record by record, all engines fail at the same record, with the same position, path and text."""
    for byte in (0, 1, 0x35, 0x80, 0xFF):
        data = TWO[:damage] + bytes([byte]) + TWO[damage + 1 :]
        first, *others = (
            (outcome(Engine(name), data, "records"), outcome(Engine(name), data, "views")) for name in AVAILABLE
        )
        assert others == [first] * len(others)


def outcome(engine: Engine, data: bytes, method: str) -> Any:
    """Return the records read from a batch, and the error after them."""
    found: list[Any] = []
    try:
        for record in getattr(engine.batch(data), method)():
            found.append(repr(record))
    except DecodeError as error:
        return found, error.path, error.offset, error.reason
    return found


@pytest.mark.parametrize("name", AVAILABLE)
def test_a_number_that_appends_while_it_is_read(name: str) -> None:
    builder: Any = Engine(name).builder()

    class Appends:
        def __index__(self) -> int:
            builder.append_many([b"v"] * 5, 1)
            return 2

    with pytest.raises(EncodeError, match=r"^last_offset_delta: 2 is not within 4 and 2147483647$"):
        builder.last_offset_delta = Appends()
    assert builder.last_offset_delta == 4
