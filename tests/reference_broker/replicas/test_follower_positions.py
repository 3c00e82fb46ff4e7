"""A leader knows the position of each follower, and when the follower was last caught up.

Method: make fetches at given times; the tables have one row for each rule in Kafka's `ReplicaState`.
"""

import pytest

from kafkawire.reference_broker.replicas.follower_positions import (
    UNKNOWN_BROKER_EPOCH,
    FollowerPosition,
    FollowerPositions,
)

LAG_MAX_MS = 30_000
BEGUN_MS = 100_000


class Session:
    """A partition in a fetch session."""

    def __init__(self, idle_ms=None):
        self.idle_ms = idle_ms
        self.reads = 0

    def read_again(self):
        self.reads += 1


def begun(*, is_in_sync=True):
    position = FollowerPosition(2)
    position.begin(10, BEGUN_MS, is_in_sync=is_in_sync, is_new_leader=True)
    return position


@pytest.mark.parametrize(
    ("fetches", "caught_up_ms"),
    [
        pytest.param([(1, 10, 10)], 1, id="at the end"),
        pytest.param([(1, 12, 10)], 1, id="past the end, which a truncation will mend"),
        pytest.param([(1, 10, 10), (2, 9, 10)], 1, id="behind: the earlier time stays"),
        pytest.param([(1, 5, 10), (2, 9, 20)], 0, id="never at the end as of the previous fetch"),
        pytest.param([(1, 5, 10), (2, 10, 20)], 1, id="at the end as of the previous fetch"),
        pytest.param([(1, 5, 10), (2, 10, 20), (3, 20, 30), (4, 30, 40)], 3, id="always one fetch behind"),
        pytest.param([(5, 10, 10), (3, 10, 10)], 5, id="the clock was set back"),
    ],
)
def test_when_a_follower_was_caught_up(fetches, caught_up_ms):
    position = begun()
    for after_ms, end_offset, leader_end_offset in fetches:
        position.fetched(end_offset, 0, leader_end_offset, BEGUN_MS + after_ms, 7)
    assert position.last_caught_up_ms() == BEGUN_MS + caught_up_ms
    assert (position.end_offset, position.broker_epoch) == (fetches[-1][1], 7)


@pytest.mark.parametrize(
    ("is_in_sync", "end_offset", "after_ms", "expected"),
    [
        pytest.param(True, None, LAG_MAX_MS, True, id="in sync, not heard of"),
        pytest.param(True, None, LAG_MAX_MS + 1, False, id="in sync, not heard of for too long"),
        pytest.param(False, None, 0, False, id="not in sync, not heard of"),
        pytest.param(True, 20, LAG_MAX_MS + 1, True, id="at the end, whenever that was"),
        pytest.param(True, 19, LAG_MAX_MS + 1, False, id="behind"),
    ],
)
def test_who_is_caught_up(is_in_sync, end_offset, after_ms, expected):
    position = begun(is_in_sync=is_in_sync)
    if end_offset is not None:
        position.fetched(end_offset, 0, 20, BEGUN_MS, 7)
    assert position.is_caught_up(20, BEGUN_MS + after_ms, LAG_MAX_MS) is expected


def test_fetches_of_an_idle_follower_count():
    """These fetches do not contain the partition, and the leader does not read it; the session records the time."""
    position, session = begun(), Session(BEGUN_MS + 50_000)
    position.fetched(10, 0, 10, BEGUN_MS, 7, session)
    assert position.is_caught_up(11, BEGUN_MS + 80_000, LAG_MAX_MS)
    assert not position.is_caught_up(11, BEGUN_MS + 80_001, LAG_MAX_MS)
    # The leader has appended more; the next fetch is less than one fetch behind.
    position.fetched(10, 0, 12, BEGUN_MS + 50_100, 7, session)
    assert position.caught_up_ms == BEGUN_MS + 50_000


def test_a_partition_that_was_read_says_no_more_than_its_fetch():
    position = begun()
    position.fetched(9, 0, 10, BEGUN_MS, 7, Session(None))
    assert position.last_caught_up_ms() == BEGUN_MS


@pytest.mark.parametrize("is_in_sync", [True, False])
@pytest.mark.parametrize("is_new_leader", [True, False])
def test_a_new_term(is_in_sync, is_new_leader):
    position, session = begun(), Session(idle_ms=BEGUN_MS + 39_999)
    position.fetched(10, 3, 10, BEGUN_MS + 1, 7, session)
    position.begin(15, BEGUN_MS + 40_000, is_in_sync=is_in_sync, is_new_leader=is_new_leader)
    kept = (-1, -1, -1, UNKNOWN_BROKER_EPOCH) if is_new_leader else (10, 3, 15, 7)
    assert (position.end_offset, position.start_offset, position.leader_end_offset, position.broker_epoch) == kept
    assert session.reads == (not is_new_leader)
    assert position.is_caught_up(16, BEGUN_MS + 70_000, LAG_MAX_MS) is is_in_sync
    # A fetch from before the term proves nothing about an out-of-sync follower.
    position.fetched(15, 3, 16, BEGUN_MS + 41_000, 7)
    assert position.is_caught_up(17, BEGUN_MS + 41_000, LAG_MAX_MS) is is_in_sync


def test_an_assignment_keeps_what_is_known():
    positions = FollowerPositions()
    positions.assign([2, 3])
    second = positions.get(2)
    positions.assign([4, 2])
    assert [each.broker_id for each in positions] == [4, 2]
    assert positions.get(2) is second
    assert positions.get(3) is None
    positions.clear()
    assert len(positions) == 0
