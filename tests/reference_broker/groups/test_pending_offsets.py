"""Pending offsets take effect when committed, unless a later offset is in effect; deleted offsets are dropped.

Method: check tables of events with record offsets, and the offset in effect afterwards.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.pending_offsets import PendingOffset, PendingOffsets
from kafkawire.reference_broker.groups.records import Committed

A, B = ("t", 0), ("t", 1)


def pending(record_offset, partition=A, group_id="g"):
    return PendingOffset(group_id, partition, Committed(record_offset, -1, "", 0, b""), record_offset)


def test_an_abort_leaves_nothing():
    offsets = PendingOffsets()
    offsets.put(7, pending(1))
    assert list(offsets.of_group("g")) == [A]
    assert offsets.end(7, False) == []
    assert list(offsets.of_group("g")) == []
    assert offsets.end(7, True) == [], "no transaction is open"


def test_a_commit_counts_in_the_order_of_writing():
    offsets = PendingOffsets()
    offsets.put(7, pending(1, B))
    offsets.put(7, pending(2))
    offsets.put(8, pending(3, group_id="h"))
    assert offsets.end(7, True) == [pending(1, B), pending(2)]
    assert list(offsets.of_group("h")) == [A]


@pytest.mark.parametrize(("committed_at", "counts"), [(4, True), (6, False)])
def test_what_was_committed_later_stays(committed_at, counts):
    offsets = PendingOffsets()
    offsets.put(7, pending(5))
    offsets.committed("g", A, committed_at)
    assert list(offsets.of_group("g")) == [A], "the offset is unstable until the transaction ends"
    assert bool(offsets.end(7, True)) is counts


def test_a_later_one_of_the_same_transaction_counts_again():
    offsets = PendingOffsets()
    offsets.put(7, pending(1))
    offsets.committed("g", A, 2)
    offsets.put(7, pending(3))
    assert offsets.end(7, True) == [pending(3)]


def test_two_transactions_of_one_partition():
    offsets = PendingOffsets()
    offsets.put(7, pending(1))
    offsets.put(8, pending(2))
    assert offsets.end(8, True) == [pending(2)]
    offsets.committed("g", A, 2)
    assert list(offsets.of_group("g")) == [A]
    assert offsets.end(7, True) == []


def test_deleted_offsets_are_forgotten():
    offsets = PendingOffsets()
    offsets.put(7, pending(1))
    offsets.put(7, pending(2, B))
    offsets.put(8, pending(3))
    assert {found.record_offset for found in offsets.of_topic("t")} == {1, 2, 3}
    offsets.remove("g", A)
    offsets.remove("g", ("other", 0))
    assert [found.record_offset for found in offsets.of_topic("t")] == [2]
    assert offsets.end(8, True) == []
    assert offsets.end(7, True) == [pending(2, B)]


@pytest.mark.parametrize("is_commit", [False, True])
@pytest.mark.parametrize("removed", [[], [A], [A, B]])
def test_nothing_stays_of_groups_whose_transactions_have_ended(removed, is_commit):
    """Any number of groups may come and go."""
    offsets = PendingOffsets()
    for producer_id in (7, 8):
        offsets.put(producer_id, pending(1))
        offsets.put(producer_id, pending(2, B))
    offsets.committed("g", A, 3)
    for partition in removed:
        offsets.remove("g", partition)
    for producer_id in (7, 8):
        offsets.end(producer_id, is_commit)
    assert vars(offsets) == vars(PendingOffsets())
