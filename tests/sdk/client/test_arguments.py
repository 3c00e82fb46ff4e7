"""The clients' arguments are converted exactly, or rejected with an error that gives their name, value and limit.

Method: check tables of arguments. tests/test_arguments.py shows that each of the clients' methods checks its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from kafkawire.sdk.admin.descriptions import GroupListing
from kafkawire.sdk.client.arguments import (
    checked_end,
    checked_mapping,
    checked_names,
    checked_number,
    checked_offset,
    checked_offsets,
    checked_partition,
    checked_partitions,
    checked_text,
    checked_timeout_ms,
    checked_times,
    is_several,
)
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.topics import checked_topic

T0 = TopicPartition("t", 0)
LAST = (1 << 63) - 1


class Number:
    """An integer type other than Python's, like numpy's."""

    def __index__(self) -> int:
        return 7


LISTING = GroupListing("g", "consumer", "Empty", "classic")


class Named(NamedTuple):
    name: str


def names_of_groups(given: object) -> list[str]:
    assert isinstance(given, tuple)
    return checked_names("group_id", given)


def times_of_an_admin(given: object) -> dict[TopicPartition, int]:
    return checked_times(given, special=True)


@pytest.mark.parametrize(
    ("check", "given", "result"),
    [
        (checked_partition, ("t", 0), T0),
        (checked_partition, TopicPartition("t", Number()), TopicPartition("t", 7)),  # type: ignore[arg-type]  # an integer
        (checked_partitions, (), []),
        (checked_partitions, ([],), []),
        *((checked_partitions, given, [T0]) for given in ((T0,), ({T0},), ([("t", 0)],), ((T0,),), (("t", 0),))),
        (lambda given: checked_names("key", given), ("ab",), ["ab"]),
        (lambda given: checked_names("key", given), (["a", "b"],), ["a", "b"]),
        (lambda given: checked_names("key", given), ("a", "b"), ["a", "b"]),
        (checked_timeout_ms, 0, 0),
        (checked_offsets, {("t", 0): Number()}, {T0: OffsetAndMetadata(7)}),
        (checked_offsets, {T0: OffsetAndMetadata(LAST, "m", 3)}, {T0: OffsetAndMetadata(LAST, "m", 3)}),
        (checked_times, {("t", 0): datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}, {T0: 1000}),
        (times_of_an_admin, {T0: -2}, {T0: -2}),
        (checked_end, 5, 5),
        (checked_end, {("t", 0): 5}, {T0: 5}),
    ],
)
def test_what_is_right(check: Callable[[object], Any], given: object, result: object) -> None:
    found = check(given)
    assert found == result
    assert type(found) is type(result)


@pytest.mark.parametrize(
    ("check", "given", "message"),
    [
        (checked_partition, ("t",), r"partition: expected a TopicPartition or (topic, number), got ('t',)"),
        (checked_partition, ("t", -1), "partition of t: expected 0 to 2147483647, got -1"),
        (checked_partition, ("t", "0"), "partition of t: expected an integer, got '0'"),
        (checked_partition, ("t", 10**5_000), "partition of t: expected 0 to 2147483647, got a number of 16610 bits"),
        (checked_partition, ("t", (10**5_000,)), "partition of t: expected an integer, got <tuple>"),
        (checked_partition, (b"t", 0), "topic b't': expected a string, got bytes"),
        (checked_partitions, ("t",), "partition: expected a TopicPartition or (topic, number), got 't'"),
        (checked_partitions, (["t"],), "partition: expected a TopicPartition or (topic, number), got 't'"),
        (
            checked_partitions,
            ([T0], T0),
            "partition: expected a TopicPartition or (topic, number), got [TopicPartition(topic='t', partition=0)]; "
            "pass several as separate arguments or in a list",
        ),
        (lambda given: checked_offset(T0, given), -5, f"offset of t-0: expected 0 to {LAST}, got -5"),
        (lambda given: checked_offset(T0, given), True, "offset of t-0: expected an integer, got True"),
        (checked_offsets, [T0], "offsets: expected a mapping, got [TopicPartition(topic='t', partition=0)]"),
        (checked_offsets, {T0: OffsetAndMetadata(0, None)}, "metadata of t-0: expected a string, got None"),  # type: ignore[arg-type]  # wrong
        (checked_offsets, {T0: OffsetAndMetadata(0, "", -2)}, "leader_epoch of t-0: expected -1 to 2147483647, got -2"),
        (checked_times, {T0: -1}, "time -1: expected 1970 or later"),
        (times_of_an_admin, {T0: -7}, "time -7: expected 1970 or later"),
        (checked_times, {T0: []}, "time []: expected milliseconds since the epoch, or a datetime"),
        (
            times_of_an_admin,
            {T0: "latest"},
            "time 'latest': expected milliseconds since the epoch, a datetime, or an OffsetTimestamp such as LATEST",
        ),
        (checked_end, {T0: -1}, f"offset of t-0: expected 0 to {LAST}, got -1"),
        (checked_timeout_ms, 0.5, "timeout_ms: expected an integer, got 0.5"),
        (lambda given: checked_text("group_id", given), 5, "group_id: expected a string, got 5"),
        (lambda given: checked_names("key", given), (5,), "key: expected a string, got 5"),
        *(
            (names_of_groups, given, f"group_id: expected a string, got {LISTING}; pass its group_id")
            for given in ((LISTING,), ([LISTING],), (LISTING, "g"))
        ),
        (names_of_groups, (Named("g"),), "group_id: expected a string, got Named(name='g'); pass its name"),
        (names_of_groups, ({5: "g"},), "group_id: expected a string, got 5"),
        (names_of_groups, (b"g",), "group_id: expected a string, got b'g'"),
        (checked_topic, Named("t"), "topic Named(name='t'): expected a string, got Named; pass its name"),
        (lambda given: checked_mapping("configs", given), 5, "configs: expected a mapping, got 5"),
        (lambda given: checked_number("n", given, 1, 2), 3, "n: expected 1 to 2, got 3"),
    ],
)
def test_what_is_wrong(check: Callable[[object], Any], given: object, message: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        check(given)
    assert str(caught.value) == message


@pytest.mark.parametrize("given", [["a"], ("a",), {"a"}, iter("a"), {"a": 1}.keys()])
def test_several_values(given: object) -> None:
    assert is_several(given)


@pytest.mark.parametrize("given", ["a", b"a", {"a": 1}, LISTING, Named("a"), T0, 5, None])
def test_what_is_not_taken_for_several_values(given: object) -> None:
    assert not is_several(given)
