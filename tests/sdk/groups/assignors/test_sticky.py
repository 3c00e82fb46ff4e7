"""Members keep as many of their partitions as balance allows, and their user data may contain anything.

Method: check Kafka's vectors (three rebalances each), use hypothesis for groups that stay, shrink and grow, and decode
truncated and made-up user data.
"""

from __future__ import annotations

import base64

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kafkawire.sdk.groups.assignor import MemberSubscription
from kafkawire.sdk.groups.assignors.sticky import StickyAssignor
from tests.sdk.groups.assignors.groups import (
    Group,
    assert_balanced,
    assert_valid,
    failed_vectors,
    groups,
    member_after,
    partitions,
    sizes,
)

ASSIGNOR = StickyAssignor()


def after(group: Group, generation_id: int = 1) -> dict[str, MemberSubscription]:
    """Return the members' subscriptions after their first assignment, which they have revoked, as in eager groups."""
    assignment = ASSIGNOR.assign(*group)
    return {
        member: member_after(ASSIGNOR, subscription, assignment[member], generation_id)._replace(owned_partitions=())
        for member, subscription in group.subscriptions.items()
    }


def test_vectors() -> None:
    assert failed_vectors(ASSIGNOR.name) == []


@given(group=groups())
def test_a_first_assignment_is_balanced(group: Group) -> None:
    assert_balanced(ASSIGNOR.assign(*group._replace(replica_racks=None)), group.subscriptions)


@given(group=groups())
def test_a_group_that_stays_moves_nothing(group: Group) -> None:
    group = group._replace(replica_racks=None)
    first = ASSIGNOR.assign(*group)
    again = ASSIGNOR.assign(after(group), group.partition_counts)
    assert {member: set(assigned) for member, assigned in again.items()} == {
        member: set(assigned) for member, assigned in first.items()
    }


@given(group=groups(equal=True), data=st.data())
def test_remaining_members_keep_everything(group: Group, data: st.DataObject) -> None:
    group = group._replace(replica_racks=None)
    assume(len(group.subscriptions) > 1)
    first, said = ASSIGNOR.assign(*group), after(group)
    del said[data.draw(st.sampled_from(sorted(said)))]
    second = ASSIGNOR.assign(said, group.partition_counts)
    assert_valid(second, said, group.partition_counts)
    assert all(set(first[member]) <= set(second[member]) for member in said)


@given(group=groups(equal=True))
def test_a_new_member_gets_a_share_and_nothing_else_moves(group: Group) -> None:
    group = group._replace(replica_racks=None)
    first, said = ASSIGNOR.assign(*group), after(group)
    said["joined"] = next(iter(said.values()))._replace(user_data=None)
    second = ASSIGNOR.assign(said, group.partition_counts)
    assert_valid(second, said, group.partition_counts)
    assert max(sizes(second).values()) - min(sizes(second).values()) <= 1
    assert all(set(second[member]) <= set(first[member]) for member in first)


@given(group=groups(), racks=st.booleans(), data=st.data())
def test_any_change_gives_a_valid_assignment(group: Group, racks: bool, data: st.DataObject) -> None:
    """Members change their subscription, come and go, miss a generation, or claim partitions that others own."""
    said = after(group)
    for member in data.draw(st.sets(st.sampled_from(sorted(said)))):
        other = data.draw(groups())
        said[member] = next(iter(other.subscriptions.values()))._replace(
            user_data=data.draw(st.sampled_from([subscription.user_data for subscription in said.values()]))
        )
    assignment = ASSIGNOR.assign(said, group.partition_counts, group.replica_racks if racks else None)
    assert_valid(assignment, said, group.partition_counts)


def test_user_data() -> None:
    """The bytes are Apache Kafka's: topics with partitions, then the generation."""
    data = ASSIGNOR.user_data(partitions("t0-0 t0-4 t1-2"), 7)
    assert data is not None
    assert base64.b64encode(data) == b"AAAAAgACdDAAAAACAAAAAAAAAAQAAnQxAAAAAQAAAAIAAAAH"
    assert ASSIGNOR.user_data((), -1) is None


def claimed(user_data: bytes | None) -> bool:
    """Return whether member `y` keeps a-0, which would go to `x` if no one claimed it."""
    subscriptions = {"x": MemberSubscription(("a",)), "y": MemberSubscription(("a",), user_data=user_data)}
    assignment = ASSIGNOR.assign(subscriptions, {"a": 2})
    assert_valid(assignment, subscriptions, {"a": 2})
    return assignment["y"] == partitions("a-0")


def test_user_data_of_the_first_release() -> None:
    data = ASSIGNOR.user_data(partitions("a-0"), 1)
    assert data is not None
    assert claimed(data)
    assert claimed(data[:-4])


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\x00",
        b"\xff" * 4,
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x01\x00\x01\xff\x7f\xff\xff\xff",
        b"\x00\x00\x00\x01\xff\xff\x00\x00\x00\x01\x00\x00\x00\x00",
        b"\x00\x00\x00\x01\x00\x01\xff\x00\x00\x00\x00",
    ],
)
def test_user_data_that_cannot_be_read(data: bytes | None) -> None:
    assert not claimed(data)


@given(data=st.binary(max_size=40), place=st.integers(0, 30))
def test_any_user_data(data: bytes, place: int) -> None:
    whole = ASSIGNOR.user_data(partitions("a-0"), 1)
    assert whole is not None
    claimed(data)
    claimed(whole[:place] + data + whole[place:])


@pytest.mark.parametrize("size", range(15))
def test_cut_user_data_claim_nothing(size: int) -> None:
    whole = ASSIGNOR.user_data(partitions("a-0"), 1)
    assert whole is not None
    assert claimed(whole[:size]) == (size >= len(whole) - 4)


def test_members_give_up_everything_before_they_join() -> None:
    assert not ASSIGNOR.cooperative
