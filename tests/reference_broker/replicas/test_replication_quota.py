"""The rate of throttled replication is measured as by Apache Kafka, and includes only throttled replicas.

Method: record bytes at chosen times, with the default of eleven samples of one second each.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.replicas.replication_quota import (
    ALL_PARTITIONS,
    ReplicationQuota,
    ReplicationQuotas,
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
    assert made.changes == 3
    made.throttle("all", ALL_PARTITIONS)
    assert made.changes == 3


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


LEADER, FOLLOWER = "leader.replication.throttled.rate", "follower.replication.throttled.rate"


@pytest.mark.parametrize(
    ("own", "of_all", "rates"),
    [
        pytest.param({}, {}, (None, None), id="none"),
        pytest.param({LEADER: "5"}, {}, (5, None), id="of this broker"),
        pytest.param({}, {FOLLOWER: " 0 "}, (None, 0), id="of all brokers"),
        pytest.param({LEADER: "5", FOLLOWER: "6"}, {LEADER: "7"}, (5, 6), id="its own takes precedence"),
        pytest.param({LEADER: str(2**63 - 1)}, {LEADER: "7"}, (None, None), id="no limit"),
    ],
)
def test_the_rates_of_a_broker(
    own: dict[str, str], of_all: dict[str, str], rates: tuple[int | None, int | None]
) -> None:
    quotas = ReplicationQuotas(1, 11, 1_000)
    quotas.configure_broker({LEADER: "1", FOLLOWER: "1"}, {})
    quotas.configure_broker(own, of_all)
    assert (quotas.leader.bytes_per_second, quotas.follower.bytes_per_second) == rates


@pytest.mark.parametrize("value", ["", "-1", "many"])
def test_a_rate_that_is_none_has_no_effect(value: str, caplog: pytest.LogCaptureFixture) -> None:
    """Other programs may write any value to the registry."""
    quotas = ReplicationQuotas(1, 11, 1_000)
    quotas.configure_broker({LEADER: "3"}, {})
    quotas.configure_broker({LEADER: value, FOLLOWER: "4"}, {})
    assert (quotas.leader.bytes_per_second, quotas.follower.bytes_per_second) == (3, 4)
    assert f"{LEADER} must be an integer of 0 or higher, got {value!r}" in caplog.text


def test_the_throttled_partitions_of_a_topic() -> None:
    quotas = ReplicationQuotas(1, 11, 1_000)
    quotas.configure_topic(
        "t", {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "2:1,3:2"}
    )
    assert [quotas.leader.is_throttled(("t", number)) for number in (2, 3)] == [True, True]
    assert [quotas.follower.is_throttled(("t", number)) for number in (2, 3)] == [True, False]
    quotas.configure_topic("t", {"leader.replication.throttled.replicas": ""})
    assert not any(each.is_throttled(("t", 2)) for each in (quotas.leader, quotas.follower))
