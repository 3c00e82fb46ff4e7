"""The count of held records follows acknowledgements, renewals, losses and locks, and counts each record once.

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
    held.release(first, 0, 2)
    assert held.count == 3
    held.release(first, 2, 5)
    assert held.count == 2
    held.release(first, 2)
    assert held.count == 2, "it is not counted any more"
    assert held.expire(199) == 200
    assert held.expire(200) is None
    assert (held.count, second.is_lost) == (0, False), "each delivery knows when its lock ends"


def test_losing() -> None:
    held = HeldRecords()
    first, second = acquired(3, 100), acquired(2, 200, node_id=2)
    held.add(first)
    held.add(second)
    held.renewed(second, 1, 300)
    held.lose(lambda each: each.node_id == 2)
    assert (held.count, first.is_lost, second.is_lost) == (3, False, True)
    held.renewed(second, 0, 400)
    assert held.count == 3, "a lost lock cannot be renewed"


def test_a_renewed_lock_ends_after_the_others() -> None:
    held = HeldRecords()
    held.add(first := acquired(3, 100))
    held.renewed(first, 1, 250)
    assert (held.count, held.expire(99)) == (3, 100)
    assert (held.expire(100), held.count) == (250, 1)
    held.release(first, 0)
    assert held.count == 1, "its lock has run out before"
    held.renewed(first, 1, 300)
    assert (held.expire(299), held.count) == (300, 1)
    held.release(first, 1)
    assert (held.count, held.expire(299)) == (0, None)


def test_a_renewed_lock_may_end_before_the_others() -> None:
    """A broker may renew locks for a shorter time, because the group's configuration was changed."""
    held = HeldRecords()
    held.add(first := acquired(2, 300))
    held.renewed(first, 0, 200)
    assert held.expire(199) == 200
    assert (held.expire(200), held.count) == (300, 1)
    assert (held.expire(201), held.count) == (300, 1)
    held.release(first, 0)
    assert held.count == 1


def test_a_failed_renewal_is_subtracted_once() -> None:
    held = HeldRecords()
    held.add(first := acquired(3, 100))
    held.lost(first, 0)
    held.renewed(first, 1, 200)
    held.lost(first, 1)
    assert held.count == 1
    for offset in (0, 1):
        held.release(first, offset)
    assert held.count == 1
    held.lose(lambda each: True)
    assert (held.count, first.is_lost) == (0, True)
    held.lost(first, 2)
    assert held.count == 0


def test_a_renewal_that_ends_after_the_other_locks() -> None:
    held = HeldRecords()
    held.add(first := acquired(2, 100))
    assert (held.expire(100), held.count) == (None, 0)
    held.renewed(first, 1, 200)
    assert (held.count, held.expire(100)) == (1, 200)
    held.release(first, 0)
    assert held.count == 1
    held.lose(lambda each: True)
    assert (held.count, first.is_lost) == (0, True)
