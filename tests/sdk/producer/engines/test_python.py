"""The Python engine checks the arguments of `send` and chooses the partition before the accumulator takes the record.

Method: use an owner that records calls. test_accumulator.py tests the accumulator, on both engines.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import Closed, EncodeError, LocalProtocolError
from kafkawire.sdk.producer.arguments import FILL_ONE_AFTER_THE_OTHER, TO_BE_CHOSEN, Held
from kafkawire.sdk.producer.engines.python import Appender, Topic, are_plain, murmur2_partition
from kafkawire.sdk.producer.outcome import Outcome
from kafkawire.sdk.routing.partitions import TopicPartition


class Owner:
    """An owner that takes every record."""

    def __init__(self) -> None:
        self.taken: list[tuple[Held, int]] = []
        self.outcome = Outcome(TopicPartition("t", 0))

    def take(self, record: Held, number: int) -> tuple[Outcome, int]:
        self.taken.append((record, number))
        return self.outcome, len(self.taken) - 1


def appender(partitions: int = 4, custom_partitioner: bool = False) -> tuple[Appender, Owner]:
    owner = Owner()
    made = Appender(owner, custom_partitioner)
    made.topics["t"] = Topic("t")
    made.topics["t"].partitions = partitions
    return made, owner


@pytest.mark.parametrize(
    ("given", "custom", "expected"),
    [
        ({}, False, FILL_ONE_AFTER_THE_OTHER),
        ({}, True, FILL_ONE_AFTER_THE_OTHER),
        ({"partition": 3}, False, 3),
        ({"partition": 3, "key": b"k"}, True, 3),
        ({"key": b"k"}, False, murmur2_partition(b"k", 4)),
        ({"key": "k"}, False, murmur2_partition(b"k", 4)),
        ({"key": b"k"}, True, TO_BE_CHOSEN),
    ],
)
def test_partition(given: dict[str, Any], custom: bool, expected: int) -> None:
    made, owner = appender(custom_partitioner=custom)
    made.send("t", b"v", **given)
    assert owner.taken[0][1] == expected


def test_an_unknown_topic_is_left_to_the_owner() -> None:
    made, owner = appender(partitions=0)
    made.send("t", b"v", partition=9)
    made.send("new", b"v", key=b"k")
    assert [number for _, number in owner.taken] == [TO_BE_CHOSEN] * 2


def test_contents() -> None:
    made, owner = appender()
    called: list[Any] = []
    delivery = made.send("t", "v", key="k", headers={"h": "x"}, timestamp_ms=5, on_delivery=called.append)
    record, _ = owner.taken[0]
    assert (record.key, record.value, record.headers, record.timestamp_ms) == (b"k", b"v", (("h", b"x"),), 5)
    owner.outcome.settle(1)
    assert called == [delivery]


@pytest.mark.parametrize(
    ("values", "plain"),
    [
        ([], True),
        ([b"a", None], True),
        ([b"a", "b"], False),
        ([bytearray(b"a")], False),
        ([None, type("B", (bytes,), {})()], False),
    ],
)
def test_plain_values(values: list[Any], plain: bool) -> None:
    assert are_plain(values) is plain


def test_refused() -> None:
    made, owner = appender()
    with pytest.raises(EncodeError):
        made.send("t", 5)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(LocalProtocolError, match="topic t has partitions 0 to 3, not -1"):
        made.send("t", b"v", partition=-1)
    made.refusal = Closed("closed")
    with pytest.raises(Closed):
        made.send("t", b"v")
    assert not owner.taken
