"""Members with different subscriptions get balanced assignments with few moves.

Method: use hypothesis for validity, balance and stickiness (an unchanged group moves nothing), and hand-built groups
for the choice of the partition to move, for racks, and for members that cannot take part.
"""

from __future__ import annotations

import pytest
from hypothesis import given

from kafkawire.sdk.groups.assignor import MemberSubscription, subscribed_topics
from kafkawire.sdk.groups.assignors.general_assignment_builder import (
    GeneralAssignmentBuilder,
    _Moves,
    partition_hash,
)
from kafkawire.sdk.groups.assignors.ownership import Ownership
from kafkawire.sdk.groups.assignors.racks import Racks
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.groups.assignors.groups import (
    Group,
    assert_balanced,
    assert_valid,
    groups,
    partition,
    partitions,
    sizes,
)

NO_RACKS = Racks({}, {})


def built(
    wanted: dict[str, str],
    counts: dict[str, int],
    owned: dict[str, str] | None = None,
    former: dict[TopicPartition, str] | None = None,
    racks: Racks = NO_RACKS,
) -> dict[str, list[TopicPartition]]:
    subscriptions = {member: MemberSubscription(tuple(topics.split())) for member, topics in wanted.items()}
    had = {member: partitions((owned or {}).get(member, "")) for member in wanted}
    builder = GeneralAssignmentBuilder(subscriptions, counts, Ownership(had, set(), former or {}), racks)
    builder.build()
    return builder.assignment


@given(group=groups(equal=False))
def test_first_assignment_is_balanced_and_sticks(group: Group) -> None:
    counts = subscribed_topics(group.subscriptions, group.partition_counts)
    nothing: dict[str, list[TopicPartition]] = {member: [] for member in group.subscriptions}
    first = GeneralAssignmentBuilder(group.subscriptions, counts, Ownership(nothing, set(), {}), NO_RACKS)
    first.build()
    assert_valid(first.assignment, group.subscriptions, group.partition_counts)
    assert_balanced(first.assignment, group.subscriptions)
    second = GeneralAssignmentBuilder(group.subscriptions, counts, Ownership(first.assignment, set(), {}), NO_RACKS)
    second.build()
    assert second.assignment == first.assignment


def test_topics_with_fewest_subscribers_come_first() -> None:
    assignment = built({"x": "a", "y": "a b", "z": "a b"}, {"a": 3, "b": 3})
    assert assignment == {
        "x": partitions("a-0 a-1"),
        "y": partitions("b-0 b-2"),
        "z": partitions("b-1 a-2"),
    }


def test_a_new_member_takes_from_the_others() -> None:
    assignment = built({"x": "a b", "y": "a b", "new": "b"}, {"a": 3, "b": 3}, {"x": "a-0 a-1 b-0", "y": "a-2 b-1 b-2"})
    assert sizes(assignment) == {"x": 2, "y": 2, "new": 2}
    assert {each.topic for each in assignment["new"]} == {"b"}


def test_partitions_no_longer_subscribed_to_are_revoked() -> None:
    assignment = built({"x": "a", "y": "a b"}, {"a": 1, "b": 1}, {"x": "a-0 b-0"})
    assert assignment == {"x": partitions("a-0"), "y": partitions("b-0")}


def test_a_member_that_owns_all_it_subscribes_to_is_left_alone() -> None:
    assignment = built({"x": "a", "y": "b c", "z": "b c"}, {"a": 9, "b": 1, "c": 1}, {"x": "a-0 a-1"})
    assert assignment["x"] == partitions(" ".join(f"a-{number}" for number in range(9)))
    assert sizes(assignment) == {"x": 9, "y": 1, "z": 1}


def test_a_member_that_owns_all_it_subscribes_to_shares_topics_with_others() -> None:
    assignment = built({"x": "a b", "y": "b"}, {"a": 1, "b": 2}, {"x": "a-0 b-0 b-1"})
    assert assignment == {"x": partitions("a-0 b-1"), "y": partitions("b-0")}


def test_a_former_owner_comes_first() -> None:
    """Without its older claim, `z` would not get the first partition that moves, because `y` comes before it."""
    wanted, owned = {"x": "a", "y": "a", "z": "a"}, {"x": "a-0 a-1 a-2"}
    assert built(wanted, {"a": 3}, owned)["z"] == partitions("a-1")
    assert built(wanted, {"a": 3}, owned, {partition("a-0"): "z"})["z"] == partitions("a-0")


def test_a_former_owner_that_unsubscribed_gets_nothing() -> None:
    former = {partition("a-0"): "z"}
    assignment = built({"x": "a", "y": "a", "z": "b"}, {"a": 3, "b": 1}, {"x": "a-0 a-1 a-2"}, former)
    assert assignment["z"] == partitions("b-0")


def test_a_former_owner_gets_nothing_that_improves_no_balance() -> None:
    """`z` has just one partition less than the owner, so only a move in the others' topic improves the balance."""
    wanted = {"x": "a", "z": "a", "y": "b", "new": "b"}
    owned = {"x": "a-0 a-1", "z": "a-2", "y": "b-0 b-1 b-2"}
    assignment = built(wanted, {"a": 3, "b": 3}, owned, {partition("a-0"): "z"})
    assert sizes(assignment) == {"x": 2, "z": 1, "y": 2, "new": 1}
    assert (assignment["x"], assignment["z"]) == (partitions("a-0 a-1"), partitions("a-2"))


@pytest.mark.parametrize(("owned", "moved"), [("a-0", "a-1"), ("a-0 gone-0", "a-0")])
def test_what_nobody_owned_moves_before_what_somebody_owned(owned: str, moved: str) -> None:
    """`x` must give a partition of topic a to `y`; after any revocation, Kafka takes the first one."""
    wanted = {"x": "a b", "y": "a d", "z": "b c", "w": "b c"}
    had = {"x": owned, "y": "d-0 d-1", "z": "c-0 c-1 c-2 c-3 c-4", "w": "c-5 c-6 c-7 c-8 c-9"}
    assignment = built(wanted, {"a": 2, "b": 3, "c": 10, "d": 2}, had)
    assert sizes(assignment) == {"x": 4, "y": 3, "z": 5, "w": 5}
    assert set(assignment["y"]) == set(partitions(f"d-0 d-1 {moved}"))


def test_members_in_the_rack_come_first() -> None:
    replicas = {partition("a-0"): frozenset({"r1"}), partition("a-1"): frozenset({"r0"})}
    racks = Racks({"x": "r0", "y": "r1"}, replicas)
    assert built({"x": "a", "y": "a b"}, {"a": 2}, racks=racks) == {"x": partitions("a-1"), "y": partitions("a-0")}


def test_what_is_owned_in_another_rack_is_revoked_and_what_is_in_no_rack_is_assigned() -> None:
    racks_of = {"a-0": "r1", "a-1": "r0", "a-2": "r9"}
    racks = Racks({"x": "r0", "y": "r1"}, {partition(each): frozenset({rack}) for each, rack in racks_of.items()})
    assignment = built({"x": "a", "y": "a b"}, {"a": 3}, {"x": "a-0"}, racks=racks)
    assert assignment == {"x": partitions("a-1 a-2"), "y": partitions("a-0")}


def test_moves_that_improve_nothing_are_undone() -> None:
    """Partitions stay with their owners if moving them would not improve the balance."""
    owned = {"x": "a-0 a-1", "y": "b-0", "z": "b-1"}
    wanted = {"x": "a", "y": "a b", "z": "b"}
    assert built(wanted, {"a": 2, "b": 2}, owned) == {member: partitions(text) for member, text in owned.items()}


def test_a_partition_goes_back_before_another_of_its_topic_moves() -> None:
    moves = _Moves()
    moves.note(partition("a-0"), "x", "y")
    assert moves.instead(partition("a-1"), "y", "x") == partition("a-0")
    assert moves.instead(partition("a-1"), "x", "y") == partition("a-1"), "not opposite to an earlier move"
    assert moves.instead(partition("b-0"), "y", "x") == partition("b-0"), "the earlier move was in another topic"
    moves.note(partition("a-0"), "y", "z")
    assert moves.instead(partition("a-1"), "y", "x") == partition("a-1"), "a-0 has left y"
    assert moves.instead(partition("a-1"), "z", "x") == partition("a-0"), "x had a-0 first"
    assert moves.instead(partition("a-0"), "z", "x") == partition("a-0")
    moves.note(partition("a-0"), "z", "x")
    assert moves.instead(partition("a-1"), "z", "x") == partition("a-1"), "a-0 is back"


@pytest.mark.parametrize(
    ("text", "expected"), [("t0-0", 4605), ("t0-1", 4636), ("orders-17", -1008768843), ("日本-3", 836101)]
)
def test_partition_hash(text: str, expected: int) -> None:
    assert partition_hash(partition(text)) == expected % 2**32
