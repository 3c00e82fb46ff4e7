"""A fetch request has the right fields for each partition, and positions are checked when they must be."""

from __future__ import annotations

import pytest

from kafkawire.sdk.consumer.fetching.partition_fetch import PartitionFetch
from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.routing.metadata import Partition
from tests.sdk.consumer.user_side import T1
from tests.sdk.simulation import backoff


def test_a_request() -> None:
    fetch = PartitionFetch(T1, backoff(), 1_000)
    fetch.begin(5, Position(40, 2))
    fetch.home, fetch.leader_epoch = 3, 6
    asked = fetch.to_fetch()
    assert (asked.partition, asked.fetch_offset, asked.current_leader_epoch) == (1, 40, 6)
    assert asked.partition_max_bytes == 1_000
    assert fetch.sent == fetch.to_send() == (3, 5, 40, 6)
    fetch.move(Position(41, 2))
    assert fetch.sent != fetch.to_send()


@pytest.mark.parametrize(
    ("place", "checked", "known", "needed"),
    [
        (Position(4, 2), None, 3, True),
        (Position(4, 2), None, -1, False),
        (Position(4, 2), 3, 3, False),
        (Position(4, 2), 3, 0, True),
        (Position(4, 2), 3, -1, False),
        (Position(4), None, 3, False),
        (None, None, 3, False),
    ],
)
def test_a_position_is_checked_once_for_each_epoch(
    place: Position | None, checked: int | None, known: int, needed: bool
) -> None:
    fetch = PartitionFetch(T1, backoff(), 1_000)
    fetch.begin(1, place)
    if checked is not None:
        fetch.checked_epoch = checked
    assert fetch.needs_check(Partition(1, known)) == needed
