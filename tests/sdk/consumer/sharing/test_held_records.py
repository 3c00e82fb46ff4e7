"""The count of held records follows acknowledgements, losses and locks, and never goes below zero.

Method: use a few acquisitions, with a clock that the test sets.
"""

from __future__ import annotations

from kafkawire.sdk.consumer.sharing.acquisitions import Acquired, Ledger
from kafkawire.sdk.consumer.sharing.held_records import HeldRecords
from kafkawire.sdk.routing.partitions import TopicIdPartition

LEDGER = Ledger(lambda: None, lambda: 0, is_explicit=True)


def acquired(count: int, until_ms: int, node_id: int = 1) -> Acquired:
    return Acquired(TopicIdPartition(b"i" * 16, "t", 0), node_id, count, until_ms, 30_000, LEDGER)


def test_counting() -> None:
    held = HeldRecords()
    first, second = acquired(3, 100), acquired(2, 200, node_id=2)
    held.add(first)
    held.add(second)
    assert held.count == 5
    held.release(first, 2)
    assert (held.count, first.left) == (3, 1)
    held.release(first, 5)
    assert (held.count, first.left) == (2, 0)
    held.release(first, 1)
    assert held.count == 2, "it is not counted any more"
    assert held.expire(199) == 200
    assert held.expire(200) is None
    assert (held.count, second.is_lost, first.is_lost) == (0, True, False)


def test_losing() -> None:
    held = HeldRecords()
    first, second = acquired(3, 100), acquired(2, 200, node_id=2)
    held.add(first)
    held.add(second)
    held.lose(lambda each: each.node_id == 2)
    assert (held.count, first.is_lost, second.is_lost) == (3, False, True)
