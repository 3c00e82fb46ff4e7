"""The rate of throttled replication is measured as Apache Kafka measures it, and only throttled replicas count.

Method: bytes at chosen times, with the default samples: eleven of a second each.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.replicas.replication_quota import (
    ALL_PARTITIONS,
    ReplicationQuota,
    throttled_partitions,
)


def quota(bytes_per_second: int | None = 1_000) -> ReplicationQuota:
    made = ReplicationQuota(11, 1_000)
    made.bytes_per_second = bytes_per_second
    return made


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("*", ALL_PARTITIONS),
        (" * ", ALL_PARTITIONS),
        ("", frozenset()),
        ("0:1", frozenset({0})),
        ("0:1,1:2,7:1", frozenset({0, 7})),
        ("0:2, 1:2", frozenset()),
        ("3:1, 4:1", frozenset({3, 4})),
    ],
)
def test_the_partitions_of_a_value(value: str, expected: frozenset[int] | None) -> None:
    assert throttled_partitions(value, 1) == expected


def test_which_partitions_are_throttled() -> None:
    made = quota()
    assert not made.is_throttled(("t", 0))
    made.throttle("t", {0, 2})
    made.throttle("all", ALL_PARTITIONS)
    assert [made.is_throttled(("t", number)) for number in range(3)] == [True, False, True]
    assert made.is_throttled(("all", 9))
    made.throttle("t", frozenset())
    made.throttle("other", frozenset())
    assert not made.is_throttled(("t", 0))
    assert made.changes == 4


@pytest.mark.parametrize(
    ("records", "now_ms", "is_exceeded"),
    [
        pytest.param([], 0, False, id="nothing"),
        pytest.param([(0, 1_000)], 0, False, id="a second's bytes at once"),
        pytest.param([(0, 1_001)], 0, True, id="more"),
        pytest.param([(0, 5_000)], 4_999, True, id="five seconds' bytes, a little early"),
        pytest.param([(0, 5_000)], 5_000, False, id="five seconds' bytes after five seconds"),
        pytest.param([(0, 500_000)], 10_999, True, id="the oldest sample counts"),
        pytest.param([(0, 500_000)], 11_000, False, id="until it is too old"),
        pytest.param([(0, 900), (999, 900), (1_000, 201)], 2_000, True, id="several samples"),
        pytest.param([(0, 900), (999, 900), (1_000, 200)], 2_000, False, id="several samples, at the limit"),
        pytest.param([(0, 9_000), (10_000, 2_000)], 11_000, True, id="only the younger sample is left"),
    ],
)
def test_the_rate(records: list[tuple[int, int]], now_ms: int, is_exceeded: bool) -> None:
    made = quota()
    for time_ms, size_bytes in records:
        made.record(size_bytes, time_ms)
    assert made.is_exceeded(now_ms) is is_exceeded


@pytest.mark.parametrize(
    ("size_bytes", "bytes_per_second", "free_ms"),
    [
        (1_000, 1_000, 50),
        (2_000, 1_000, 2_000),
        (2_001, 1_000, 2_001),
        (2_001, 3_000, 50),
        (1, 0, 11_000),
        (99_000, 1, 11_000),
    ],
)
def test_when_it_is_free(size_bytes: int, bytes_per_second: int, free_ms: int) -> None:
    made = quota(bytes_per_second)
    made.record(size_bytes, 0)
    found = made.free_ms(50)
    assert found == free_ms
    assert found == 50 or made.is_exceeded(found - 1)
    assert not made.is_exceeded(found)


def test_without_a_limit() -> None:
    made = quota(None)
    made.record(10**12, 0)
    assert not made.is_exceeded(0)
    assert made.free_ms(7) == 7
