"""The native engine behaves like the Python engine: it has the same hashes, checks and deliveries.

Method: run both engines side by side, if the extension is built; other tests run the whole producer on each.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.errors import Closed, EncodeError, LocalProtocolError
from kafkawire.sdk.producer.arguments import Held
from kafkawire.sdk.producer.engines import python, selection
from kafkawire.sdk.producer.outcome import Outcome
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.needs import EXTENSION

native: Any = selection.built
pytestmark = EXTENSION.mark

#: The extension reads a clock that advances in kernel ticks, which are at most this long.
TICK_MS = 10


class Owner:
    """An owner that takes every record."""

    def __init__(self) -> None:
        self.taken: list[tuple[Held, int]] = []

    def take(self, record: Held, number: int) -> tuple[Outcome, int]:
        self.taken.append((record, number))
        return Outcome(TopicPartition("t", 0)), 0


def both() -> list[tuple[Any, Owner]]:
    made = []
    for engine in (native, python):
        owner = Owner()
        appender = engine.Appender(owner, False)
        appender.topics["t"] = engine.Topic("t")
        appender.topics["t"].partitions = 5
        appender.topics["t"].open.extend([None] * 5)
        made.append((appender, owner))
    return made


def test_murmur2() -> None:
    random = Random(3)
    for size in range(70):
        key = random.randbytes(size)
        for partitions in (1, 2, 7, 1_000, 2**31 - 1):
            assert native.murmur2_partition(key, partitions) == python.murmur2_partition(key, partitions)


def test_plain_values() -> None:
    values = [b"a", None, b"", "b", bytearray(b"c"), 5, type("B", (bytes,), {})()]
    for end in range(len(values) + 1):
        assert native.are_plain(values[:end]) is python.are_plain(values[:end])
    with pytest.raises(TypeError):
        native.are_plain(None)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"value": "text"},
        {"value": bytearray(b"b"), "key": memoryview(b"k")},
        {"value": b"v", "key": "k", "headers": {"a": "b"}},
        {"value": b"v", "headers": [("a", b"1"), ("ä", None)]},
        {"value": b"v", "headers": (("a", b"1"), ("a", b"2"))},
        {"value": b"v", "headers": [["a", b"1"]]},
        {"value": b"v", "headers": []},
        {"value": b"v", "partition": 4, "timestamp_ms": 7},
        {"value": b"v", "partition": True},
        {"value": b"v", "partition": 5},
        {"value": b"v", "partition": 2**80},
        {"value": b"v", "partition": -(10**5_000)},
        {"value": b"v", "partition": AclOperation.ANY},
        {"value": b"v", "timestamp_ms": -1},
        {"value": b"v", "timestamp_ms": True},
        {"value": b"v", "timestamp_ms": -2},
        {"value": b"v", "timestamp_ms": 2**63 - 1},
        {"value": b"v", "timestamp_ms": 2**63},
        {"value": b"v", "timestamp_ms": 1.5},
        {"value": 1},
        {"value": b"v", "headers": [("a", 1)]},
        {"value": b"v", "headers": [("a", b"1", b"2")]},
    ],
)
def test_what_reaches_the_accumulator(given: dict[str, Any]) -> None:
    found = []
    for appender, owner in both():
        try:
            appender.send("t", **given)
            record, number = owner.taken[0]
            names = ("topic", "key", "value", "headers", "partition", "bound_bytes")
            time = record.timestamp_ms if "timestamp_ms" in given else 0
            found.append((number, time, [getattr(record, name) for name in names]))
        except (EncodeError, LocalProtocolError) as error:
            found.append((type(error), str(error)))
    assert found[0] == found[1]


def test_the_time_is_now() -> None:
    appender, owner = both()[0]
    before = now_ms()
    appender.send("t", b"v")
    assert before - TICK_MS <= owner.taken[0][0].timestamp_ms <= now_ms()


def test_the_refusal() -> None:
    for appender, _ in both():
        appender.refusal = Closed("closed")
        with pytest.raises(Closed, match="closed") as caught:
            appender.send("t", b"v")
        assert caught.value is not appender.refusal


def test_equal_names_are_one_topic() -> None:
    appender, owner = both()[0]
    for name in ("t", "".join(["", "t"]), "t"):
        appender.send(name, b"v", partition=1)
    assert [number for _, number in owner.taken] == [1] * 3


@pytest.mark.parametrize("kind", ["Appender", "Batch", "Delivery", "Topic"])
def test_they_have_the_same_names(kind: str) -> None:
    def public(of: Any) -> set[str]:
        return {name for name in dir(of) if not name.startswith("_")}

    instances = {"Appender": ("topics", "refusal"), "Topic": ("name", "partitions", "open", "sticky")}
    expected = public(getattr(python, kind)) | set(instances.get(kind, ()))
    assert expected <= public(getattr(native, kind))
