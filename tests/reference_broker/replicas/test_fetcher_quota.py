"""While the followers' quota is exceeded, throttled partitions that lag behind are not fetched, but all others are.

Method: use a fetcher and its scripted leader; the limit is so low that one batch exceeds it for seconds.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.replicas.fetcher import Fetcher
from kafkawire.reference_broker.replicas.replication_quota import ALL_PARTITIONS, ReplicationQuota
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.replicas.following import exchange, many
from tests.reference_broker.replicas.scripted_leaders import ScriptedBroker


@pytest.fixture
def quota() -> ReplicationQuota:
    """Return a quota that throttles partition 0 to 100 bytes per second."""
    made = ReplicationQuota(11, 1_000)
    made.bytes_per_second = 100
    made.throttle("t", {0})
    return made


def filled(quota: ReplicationQuota, count: int) -> tuple[Fetcher, ScriptedBroker]:
    """Return a fetcher for partitions with one batch each; the batches have been fetched but are not yet committed."""
    fetcher, broker = many(count, quota=quota)
    for number in range(count):
        broker.logs["t", number].append(b"x" * 300)
    exchange(fetcher, broker, 0)
    for number in range(count):
        broker.logs["t", number].append(b"y" * 300, is_committed=True)
    return fetcher, broker


def ends(fetcher: Fetcher) -> list[int]:
    return [each.replica.log.next_offset for each in fetcher.partitions.values()]


def lag(fetcher: Fetcher, number: int, records: int) -> None:
    """Pretend that, according to the leader's last answer, the follower lags by a number of records."""
    fetcher.partitions[TopicPartition("t", number)].lag = records


def test_one_that_lags_is_withheld_until_the_quota_is_free(quota: ReplicationQuota) -> None:
    fetcher, broker = filled(quota, 2)
    lag(fetcher, 0, 1)
    assert quota.is_exceeded(0)
    request = exchange(fetcher, broker, 10)
    assert [each.partitions for each in request.forgotten_topics_data] == [(0,)]
    assert ends(fetcher) == [1, 2]
    free_ms = quota.free_ms(10)
    assert exchange(fetcher, broker, free_ms - 1).topics != ()
    assert ends(fetcher) == [1, 2]
    exchange(fetcher, broker, free_ms)
    assert ends(fetcher) == [2, 2]


def test_one_in_sync_is_fetched(quota: ReplicationQuota) -> None:
    fetcher, broker = filled(quota, 1)
    assert quota.is_exceeded(10)
    exchange(fetcher, broker, 10)
    assert ends(fetcher) == [2]


def test_a_new_one_is_withheld(quota: ReplicationQuota) -> None:
    """A new partition is withheld, since it is not known to be in sync."""
    quota.record(10_000, 0)
    fetcher, broker = many(2, quota=quota)
    request = exchange(fetcher, broker, 1)
    assert [each.partition for each in request.topics[0].partitions] == [1]


def test_a_fetcher_of_throttled_partitions_alone_waits_for_the_quota(quota: ReplicationQuota) -> None:
    fetcher, _ = filled(quota, 1)
    lag(fetcher, 0, 1)
    assert fetcher.plan(10) is None
    assert fetcher.due_ms(10) == quota.free_ms(10) > 1_000
    assert fetcher.plan(quota.free_ms(10)) is not None


@pytest.mark.parametrize("is_known", [True, False])
def test_the_throttled_partitions_change(quota: ReplicationQuota, *, is_known: bool) -> None:
    """The withheld partitions are fetched again, and other partitions are withheld."""
    fetcher, broker = filled(quota, 3)
    lag(fetcher, 0, 1)
    lag(fetcher, 1, 1)
    if is_known:
        exchange(fetcher, broker, 10)
    quota.throttle("t", {1})
    for number in range(3):
        broker.logs["t", number].append(b"z" * 300)
    lag(fetcher, 1, 1)
    exchange(fetcher, broker, 20)
    exchange(fetcher, broker, 20)
    assert ends(fetcher) == [3, 2 if is_known else 1, 3]
    quota.throttle("t", ())
    exchange(fetcher, broker, 20)
    assert ends(fetcher) == [3, 3, 3]


def test_a_withheld_one_is_removed(quota: ReplicationQuota) -> None:
    fetcher, broker = filled(quota, 2)
    lag(fetcher, 0, 1)
    exchange(fetcher, broker, 10)
    fetcher.remove(TopicPartition("t", 0))
    assert fetcher._throttled == {}
    quota.throttle("t", ALL_PARTITIONS)
    exchange(fetcher, broker, quota.free_ms(10))
    assert ends(fetcher) == [2]


def test_a_withheld_one_that_moves_stays_withheld(quota: ReplicationQuota) -> None:
    fetcher, broker = filled(quota, 2)
    lag(fetcher, 0, 1)
    exchange(fetcher, broker, 10)
    fetcher.partitions[TopicPartition("t", 0)].replica.followed(1, 1)
    fetcher.moved(TopicPartition("t", 0))
    exchange(fetcher, broker, 10)
    assert ends(fetcher) == [1, 2]


def test_bytes_of_others_do_not_count(quota: ReplicationQuota) -> None:
    quota.throttle("t", {5})
    filled(quota, 2)
    assert not quota.is_exceeded(0)
