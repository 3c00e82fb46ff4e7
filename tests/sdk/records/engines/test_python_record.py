"""Records of every engine are read-only, equal and hash alike, and survive copying and pickling; views of them too.

Method: the same records from the constructors of all engines and from batches; every attribute set and deleted; every
argument of a wrong type.
"""

from __future__ import annotations

import contextlib
import copy
import pickle
from typing import Any

import pytest

from kafkawire.sdk.records import Record, batch_builder_class, record_batch_class
from kafkawire.sdk.records.engines import python_record
from kafkawire.sdk.records.engines import selection as engines
from tests.sdk.records.conftest import AVAILABLE

CLASSES: list[Any] = [python_record.Record, *([engines.built.Record] if engines.built is not None else [])]
NAMES = ("offset", "timestamp", "key", "value", "headers", "sequence", "topic", "partition")
VALUES: tuple[Any, ...] = (1, 2, b"k", b"v", (("h", None), ("i", b"x")), 3, "topic", 4)


def decoded() -> list[Any]:
    """Return one record, as each engine decodes it, and as a view."""
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


def test_records_compare_by_content() -> None:
    records = [record_class(*VALUES) for record_class in CLASSES]
    assert all(one == other and hash(one) == hash(other) for one in records for other in records)
    assert len(set(records)) == 1
    for record in records:
        for index, changed in enumerate((9, 9, None, None, (), 9, "other", 9)):
            for record_class in CLASSES:
                assert record != record_class(*VALUES[:index], changed, *VALUES[index + 1 :])
        assert record != "record"
        assert record != VALUES


def test_decoded_records_are_equal() -> None:
    first, *others = decoded()
    assert all(first == other and other == first for other in others)
    assert {repr(record) for record in others} == {repr(first)}
    assert {first, *others} == {first}
    assert {hash(other) for other in others} == {hash(first)}


def test_views_pass_for_records() -> None:
    """Of the engine that is asked, lazy or not."""
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
        assert b"native" not in pickle.dumps(record, protocol)  # it can be read where there is no extension


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
    with pytest.raises(OverflowError, match=r"^offset: -6, not within -5 and 5$"):
        python_record.checked_field("offset", -6, -5, 5)
