"""A record's parts are checked and converted, or rejected with a reason, before anything is buffered."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire.sdk.errors import EncodeError, KafkaWireError, LocalProtocolError
from kafkawire.sdk.producer.arguments import (
    Held,
    PartitionerFailed,
    check_callback,
    checked_partition,
    checked_values,
    content,
    contents,
    header_pairs,
    timestamp,
    wanted_partition,
)
from kafkawire.sdk.producer.engine import are_plain
from kafkawire.sdk.protocol.tables.enums import AclOperation


@pytest.mark.parametrize(
    ("given", "expected"),
    [(b"a", b"a"), ("ä", "ä".encode()), (bytearray(b"b"), b"b"), (memoryview(b"cd"), b"cd"), (array("B", [1]), b"\1")],
)
def test_content(given: Any, expected: bytes) -> None:
    found = content("value", given)
    assert type(found) is bytes
    assert found == expected


@pytest.mark.parametrize("given", [5, 1.5, object(), [b"a"], "\ud800", memoryview(b"abcd")[::2]])
def test_no_content(given: Any) -> None:
    with pytest.raises(EncodeError, match=r"^value: "):
        content("value", given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([("a", b"1"), ("a", None)], (("a", b"1"), ("a", None))),
        ({"k": "text"}, (("k", b"text"),)),
        ((("n", bytearray(b"x")),), (("n", b"x"),)),
    ],
)
def test_headers(given: Any, expected: Any) -> None:
    pairs, size = header_pairs(given)
    assert pairs == expected
    assert {type(value) for _, value in pairs} <= {bytes, type(None)}, "data that the caller may change must be copied"
    assert size >= sum(len(name) + len(value or b"") for name, value in expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([("a", 5)], "expected bytes, text or None, got 5"),
        ([("a", 1.5)], "expected bytes"),
        ([(b"a", b"")], "expected a string as the name"),
        ([("a",)], "expected pairs of a name and a value"),
        (5, "expected pairs"),
    ],
)
def test_no_headers(given: Any, message: str) -> None:
    with pytest.raises(EncodeError, match=f"^headers.*: .*{message}"):
        header_pairs(given)


def test_timestamp() -> None:
    assert timestamp(-1) == -1
    with pytest.raises(EncodeError, match="timestamp"):
        timestamp(-2)


def test_partition() -> None:
    assert checked_partition("t", 2, 3) == 2
    assert checked_partition("t", AclOperation.ANY, 3) == 1, "any integer type will do"
    for absent in (3, -1):
        with pytest.raises(LocalProtocolError, match=f"topic t has partitions 0 to 2, not {absent}"):
            checked_partition("t", absent, 3)
    with pytest.raises(LocalProtocolError, match="topic t has partitions 0 to 2, not a number of 16610 bits"):
        checked_partition("t", 10**5_000, 3)
    for wrong in (True, 1.0, None, "1"):
        with pytest.raises(LocalProtocolError, match=f"partition of t: expected an integer, got {wrong!r}"):
            checked_partition("t", wrong, 3)


def test_a_partition_that_a_topic_may_have() -> None:
    assert wanted_partition("t", 2**31 - 1) == 2**31 - 1
    assert type(wanted_partition("t", AclOperation.ANY)) is int, "any integer type will do"
    for wrong, text in (
        (True, "an integer, got True"),
        ("0", "an integer, got '0'"),
        (-1, "0 to 2147483647, got -1"),
        (2**31, "0 to 2147483647, got 2147483648"),
        (10**5_000, "0 to 2147483647, got a number of 16610 bits"),
    ):
        with pytest.raises(LocalProtocolError, match=f"^partition of t: expected {text}$"):
            wanted_partition("t", wrong)
        with pytest.raises(LocalProtocolError, match=f"^partition of t: expected {text}$"):
            Held("t", None, b"v", (), wrong, 0, 0)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(LocalProtocolError, match=r"^topic 5: expected a string, got int$"):
        wanted_partition(5, -1)
    with pytest.raises(LocalProtocolError, match=r"^topic 5: expected a string, got int$"):
        wanted_partition(5, "0")
    assert wanted_partition(5, 0) == 0, "the sending thread must check the topic itself"


def test_what_a_partitioner_did_can_always_be_told() -> None:
    class Silent(Exception):
        def __repr__(self) -> str:
            raise ValueError("no text")

    failure = PartitionerFailed.of(b"k" * 1_000, Silent())
    assert str(failure.reason).startswith("the partitioner returned an invalid partition for key b'kkk")
    assert str(failure.reason).endswith("k: <Silent>")


def test_contents_end_at_the_first_error() -> None:
    def given() -> Iterator[Any]:
        yield "text"
        yield None
        raise ValueError("mine")

    found, error = contents(given(), 10, are_plain)
    assert (found, str(error)) == ([b"text", None], "mine")
    assert contents(iter(["a", b"b", "c"]), 2, are_plain) == ([b"a", b"b"], None)
    assert contents(iter(["a", 5, "c"]), 3, None) == (["a", 5, "c"], None)
    found, error = contents(iter(["a", 5, "c"]), 3, are_plain)
    assert found == [b"a"]
    assert isinstance(error, KafkaWireError)


@pytest.mark.parametrize("given", ["abc", b"abc", bytearray(b"abc"), memoryview(b"abc"), {"a": 1}, 5, None])
def test_one_value_is_not_many(given: object) -> None:
    with pytest.raises(
        LocalProtocolError, match=r"values: expected an iterable of values, got .*; use send for a single value"
    ):
        checked_values(given)


def test_values_may_come_from_anywhere() -> None:
    for given in (["a"], ("a",), (each for each in "a"), {"a"}, dict.fromkeys("a").keys()):
        assert list(checked_values(given)) == ["a"]


def test_what_cannot_be_called_is_no_callback() -> None:
    check_callback("on_delivery", print)
    with pytest.raises(LocalProtocolError, match="on_delivery: expected a callable, got 5"):
        check_callback("on_delivery", 5)
