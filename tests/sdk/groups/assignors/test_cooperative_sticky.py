"""Members continue to read the partitions that they keep; others are revoked first, and assigned in the next rebalance.

Method: check Kafka's vectors (three rebalances each), and let hypothesis play rebalances until nothing moves.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.groups.assignor import MemberSubscription
from kafkawire.sdk.groups.assignors.cooperative_sticky import CooperativeStickyAssignor
from tests.sdk.groups.assignors.groups import (
    Group,
    assert_valid,
    failed_vectors,
    groups,
    member_after,
    partitions,
)

ASSIGNOR = CooperativeStickyAssignor()


def test_vectors() -> None:
    assert failed_vectors(ASSIGNOR.name) == []


@given(group=groups(), data=st.data())
def test_rebalances_settle_and_never_assign_a_partition_twice(group: Group, data: st.DataObject) -> None:
    """After a change, no rebalance assigns a partition that another member still owns; the second one is complete.

    With racks, two more may be needed, as in Apache Kafka: a partition assigned outside its racks is revoked again.
    """
    assignment = ASSIGNOR.assign(*group)
    said = {
        member: member_after(ASSIGNOR, subscription, assignment[member], 1)
        for member, subscription in group.subscriptions.items()
    }
    for member in data.draw(st.sets(st.sampled_from(sorted(said)), max_size=len(said) - 1)):
        del said[member]
    for number in range(data.draw(st.integers(0, 2))):
        said[f"joined{number}"] = MemberSubscription(next(iter(said.values())).topics)
    for generation_id in (2, 3) if group.replica_racks is None else (2, 3, 4, 5):
        assignment = ASSIGNOR.assign(said, group.partition_counts, group.replica_racks)
        for member, assigned in assignment.items():
            held = {each for other in said if other != member for each in said[other].owned_partitions}
            assert held.isdisjoint(assigned)
        said = {
            member: member_after(ASSIGNOR, subscription, assignment[member], generation_id)
            for member, subscription in said.items()
        }
    assert_valid(assignment, said, group.partition_counts)


def test_what_moves_waits_for_the_next_rebalance() -> None:
    said = {
        "x": MemberSubscription(("a",), tuple(partitions("a-0 a-1")), generation_id=1),
        "y": MemberSubscription(("a",)),
    }
    first = ASSIGNOR.assign(said, {"a": 2})
    assert first == {"x": partitions("a-0"), "y": []}
    said["x"] = said["x"]._replace(owned_partitions=tuple(first["x"]), generation_id=2)
    assert ASSIGNOR.assign(said, {"a": 2}) == {"x": partitions("a-0"), "y": partitions("a-1")}


@pytest.mark.parametrize(
    ("generation_id", "user_data", "owner"),
    [
        (3, None, "x"),
        (1, None, "y"),
        (-1, b"\x00\x00\x00\x03", "x"),
        (-1, b"\x00\x00\x00\x01", "y"),
        (-1, b"\x00\x00\x00\x01more", "y"),
        (-1, b"\x03", "y"),
    ],
)
def test_the_later_of_two_claims_wins(generation_id: int, user_data: bytes | None, owner: str) -> None:
    """Members of older releases state their generation only in the user data."""
    subscriptions = {
        "x": MemberSubscription(("a",), tuple(partitions("a-0")), generation_id, user_data=user_data),
        "y": MemberSubscription(("a",), tuple(partitions("a-0")), generation_id=2),
    }
    assert ASSIGNOR.assign(subscriptions, {"a": 1})[owner] == partitions("a-0")


def test_user_data() -> None:
    assert ASSIGNOR.user_data((), 7) == b"\x00\x00\x00\x07"
    assert ASSIGNOR.user_data((), -1) == b"\xff\xff\xff\xff"


def test_members_keep_what_they_have_while_they_join() -> None:
    assert CooperativeStickyAssignor.cooperative
