"""Every engine's records and views are read-only, compare and hash identically, and survive copying and pickling.

Method: create the same records with the constructors of all engines and from batches, try to set and delete every
attribute, and pass every argument with a wrong type.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import pickle
import re
from typing import Any

import pytest

from kafkawire.sdk.protocol.tables.record_formats import TimestampType
from kafkawire.sdk.records import Record, batch_builder_class, record_batch_class
from kafkawire.sdk.records.engines import python_record
from kafkawire.sdk.records.engines import selection as engines
from tests.sdk.records.conftest import AVAILABLE

CLASSES: list[Any] = [python_record.Record, *([engines.built.Record] if engines.built is not None else [])]
NAMES = ("offset", "timestamp_ms", "key", "value", "headers", "sequence", "topic", "partition", "timestamp_type")
VALUES: tuple[Any, ...] = (1, 2, b"k", b"v", (("h", None), ("i", b"x")), 3, "topic", 4, TimestampType.LOG_APPEND_TIME)


def decoded() -> list[Any]:
    """Return one record as each engine decodes it, and as a view."""
    builder = batch_builder_class("python")()
    builder.append(2, b"k", b"v", [("h", None)])
    batches = [record_batch_class(name)(builder.build()) for name in AVAILABLE]
    return [record for batch in batches for record in (*batch.records(), *batch.views())]


@pytest.mark.parametrize("record_class", CLASSES)
def test_attributes(record_class: Any) -> None:
    record = record_class(*VALUES)
    assert tuple(getattr(record, name) for name in NAMES) == VALUES
    assert record_class(**dict(zip(NAMES, VALUES, strict=True))) == record
    plain = record_class(1, 2, None, None)
    assert (plain.headers, plain.sequence, plain.topic, plain.partition) == ((), -1, "", -1)
    assert [
        record_class(1, 2, None, None, **chosen).timestamp_type
        for chosen in ({}, {"timestamp_type": None}, *({"timestamp_type": each} for each in (0, 1, *TimestampType)))
    ] == [TimestampType.CREATE_TIME, None, *TimestampType, *TimestampType]
    assert type(record_class(1, 2, None, None, timestamp_type=1).timestamp_type) is TimestampType


def test_what_a_record_has_is_listed() -> None:
    """`help(Record)` shows the same on every engine; type checkers read the Python class."""
    for record_class in CLASSES:
        # From Python 3.13 on, the compiler strips the indentation from docstrings; Cython keeps it.
        assert inspect.getdoc(record_class) == inspect.getdoc(python_record.Record)
    text = inspect.getdoc(python_record.Record) or ""
    assert re.findall(r"^    (\w+): ", text, re.MULTILINE)[: len(NAMES)] == [*NAMES]


def test_the_name_without_a_unit_says_what_to_use() -> None:
    for record in [*decoded(), *(record_class(*VALUES) for record_class in CLASSES)]:
        assert not hasattr(record, "timestamp")
        with pytest.raises(AttributeError, match=r"^timestamp: a record has timestamp_ms, milliseconds"):
            _ = record.timestamp


@pytest.mark.parametrize("name", AVAILABLE)
def test_a_decoded_record_knows_who_set_its_timestamp(name: str) -> None:
    for kind, time_ms in ((TimestampType.CREATE_TIME, 2), (TimestampType.LOG_APPEND_TIME, 7)):
        builder = batch_builder_class("python")(timestamp_type=kind, log_append_time=7)
        builder.append(2, b"k", b"v")
        batch = record_batch_class(name)(builder.build())
        for record in (*batch.records("t", 1), *batch.views()):
            assert (record.timestamp_ms, record.timestamp_type) == (time_ms, kind)
            assert type(record.timestamp_type) is TimestampType


def test_records_compare_by_content() -> None:
    records = [record_class(*VALUES) for record_class in CLASSES]
    assert all(one == other and hash(one) == hash(other) for one in records for other in records)
    assert len(set(records)) == 1
    for record in records:
        for index, changed in enumerate((9, 9, None, None, (), 9, "other", 9, None)):
            for record_class in CLASSES:
                assert record != record_class(*VALUES[:index], changed, *VALUES[index + 1 :])
        assert record != "record"
        assert record != VALUES


@pytest.mark.parametrize("record_class", CLASSES)
def test_repr(record_class: Any) -> None:
    plain = "Record(offset=1, timestamp_ms=2, key=None, value=b'', headers=(), sequence=-1)"
    assert repr(record_class(1, 2, None, b"")) == plain
    assert repr(record_class(*VALUES)) == (
        "Record(topic='topic', partition=4, offset=1, timestamp_ms=2, key=b'k', value=b'v', "
        "headers=(('h', None), ('i', b'x')), sequence=3, timestamp_type=LOG_APPEND_TIME)"
    )
    one = record_class(1, 2, b"", None, (("h", b"x"),), timestamp_type=None)
    assert repr(one).endswith("value=None, headers=(('h', b'x'),), sequence=-1, timestamp_type=None)")


@pytest.mark.parametrize("record_class", CLASSES)
def test_the_repr_of_a_huge_record_is_bounded(record_class: Any) -> None:
    large = record_class(1, 2, b"k" * 61, bytes(10**7), (("n" * 70_000, b"v" * 10**6),) * 9_000, 0, "t" * 10_000, 1)
    text = repr(large)
    assert len(text) < 2_000
    assert f"key=b'{'k' * 60}'… of 61 bytes, value=b'" in text
    assert "… of 10000000 bytes, headers=(('nnn" in text
    assert "… of 70000 characters, b'vvv" in text
    assert "… 8995 more), sequence=0)" in text


class Unwilling:
    def __repr__(self) -> str:
        raise ValueError("no")


def test_the_repr_of_what_a_deserializer_made_is_bounded() -> None:
    for value in (10**5_000, [["x" * 10**6] * 10**4] * 10**4, {"a": 10**5_000}, Unwilling(), "é" * 10**6):
        record = python_record.new_record(1, 2, None, value, (), -1, "t", 0, TimestampType.CREATE_TIME)
        assert len(repr(record)) < 2_000
    assert "value={'id': 5}, " in repr(python_record.new_record(1, 2, None, {"id": 5}, (), -1, "t", 0, None))


def test_decoded_records_are_equal() -> None:
    first, *others = decoded()
    assert all(first == other and other == first for other in others)
    assert {repr(record) for record in others} == {repr(first)}
    assert {first, *others} == {first}
    assert {hash(other) for other in others} == {hash(first)}


def test_views_pass_for_records() -> None:
    """A view is an instance of its engine's record class, lazy or not."""
    builder = batch_builder_class("python")()
    builder.append(2, b"k", b"v", [("h", None)])
    for name in AVAILABLE:
        batch = record_batch_class(name)(builder.build())
        (record,), (view,) = batch.records(), batch.views()
        assert isinstance(view, type(record))
        assert hash(view) == hash(record)


@pytest.mark.parametrize("name", [*NAMES, "other"])
def test_read_only(name: str) -> None:
    for record in [*decoded(), *(record_class(*VALUES) for record_class in CLASSES)]:
        before = repr(record)
        with pytest.raises(AttributeError, match=f"^{name}: a record is read-only$"):
            setattr(record, name, VALUES[0])
        with pytest.raises(AttributeError, match=f"^{name}: a record is read-only$"):
            delattr(record, name)
        assert repr(record) == before


@pytest.mark.parametrize("record_class", CLASSES)
def test_a_record_is_made_once(record_class: Any) -> None:
    record = record_class(*VALUES)
    with contextlib.suppress(AttributeError):
        record.__init__(9, 9, None, None)
    assert record == record_class(*VALUES)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_copies(protocol: int) -> None:
    for record in [*decoded(), *(record_class(*VALUES) for record_class in CLASSES)]:
        for copied in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record, protocol))):
            assert copied == record
            assert type(copied) is Record
        assert b"native" not in pickle.dumps(record, protocol)  # it can be unpickled without the extension


@pytest.mark.parametrize("record_class", CLASSES)
@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"key": "text"}, "key: expected bytes or None, got str"),
        ({"value": bytearray()}, "value: expected bytes or None, got bytearray"),
        ({"topic": None}, "topic: expected str, got NoneType"),
        ({"headers": None}, "headers: expected a tuple, got NoneType"),
        ({"headers": [("h", b"")]}, "headers: expected a tuple, got list"),
        ({"headers": (("h",),)}, "headers: expected tuples of str and bytes or None"),
        ({"headers": (["h", b""],)}, "headers: expected tuples of str and bytes or None"),
        ({"headers": ((b"h", b""),)}, "headers: expected tuples of str and bytes or None"),
        ({"headers": (("h", "v"),)}, "headers: expected tuples of str and bytes or None"),
        ({"timestamp_type": "CREATE_TIME"}, "timestamp_type: expected an integer, got 'CREATE_TIME' of str"),
    ],
)
def test_refused(record_class: Any, changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        record_class(**{**dict(zip(NAMES, VALUES, strict=True)), **changed})


def test_places() -> None:
    assert python_record.checked_place("t", 2**31 - 1) == 2**31 - 1
    for topic, partition, error in ((None, 1, TypeError), ("t", 1.5, TypeError), ("t", 2**31, OverflowError)):
        with pytest.raises(error):
            python_record.checked_place(topic, partition)
    with pytest.raises(OverflowError, match=r"^offset: -6 is not within -5 and 5$"):
        python_record.checked_field("offset", -6, -5, 5)
