"""Each topic is assigned in ranges, identically for co-partitioned topics, and within racks if racks matter.

Method: check Kafka's vectors; use hypothesis for the sizes of the ranges, and hand-built groups for co-partitioned
topics and racks.
"""

from __future__ import annotations

from hypothesis import given

from kafkawire.sdk.groups.assignor import MemberSubscription
from kafkawire.sdk.groups.assignors.range import RangeAssignor
from tests.sdk.groups.assignors.groups import Group, failed_vectors, groups, partitions

ASSIGNOR = RangeAssignor()


def test_vectors() -> None:
    assert failed_vectors(ASSIGNOR.name) == []


@given(group=groups())
def test_counts_of_each_topic_differ_by_at_most_one(group: Group) -> None:
    assignment = ASSIGNOR.assign(*group)
    for topic in group.partition_counts:
        counts = [
            sum(each.topic == topic for each in assignment[member])
            for member, subscription in group.subscriptions.items()
            if topic in subscription.topics
        ]
        assert not counts or max(counts) - min(counts) <= 1


def test_ranges() -> None:
    subscriptions = {
        "x": MemberSubscription(("a", "b")),
        "y": MemberSubscription(("a", "b")),
        "z": MemberSubscription(("b",)),
    }
    assert ASSIGNOR.assign(subscriptions, {"a": 3, "b": 4}) == {
        "x": partitions("a-0 a-1 b-0 b-1"),
        "y": partitions("a-2 b-2"),
        "z": partitions("b-3"),
    }


def test_co_partitioned_topics_are_assigned_alike_within_racks() -> None:
    """In both topics, partition 0 has replicas only in the second member's rack, and partition 1 in the first's."""
    subscriptions = {
        "x": MemberSubscription(("a", "b"), rack_id="r0"),
        "y": MemberSubscription(("a", "b"), rack_id="r1"),
    }
    racks = {"a": [["r1"], ["r0"]], "b": [["r1"], ["r0", "r1"]]}
    assert ASSIGNOR.assign(subscriptions, {"a": 2, "b": 2}, racks) == {
        "x": partitions("a-1 b-1"),
        "y": partitions("a-0 b-0"),
    }


def test_co_partitioned_topics_go_to_the_first_of_several_members_in_the_rack() -> None:
    subscriptions = {
        "x": MemberSubscription(("a", "b"), rack_id="r0"),
        "y": MemberSubscription(("a", "b"), rack_id="r1"),
    }
    racks = {topic: [["r0", "r1"], ["r1"]] for topic in "ab"}
    assert ASSIGNOR.assign(subscriptions, {"a": 2, "b": 2}, racks) == {
        "x": partitions("a-0 b-0"),
        "y": partitions("a-1 b-1"),
    }


def test_balance_comes_before_racks() -> None:
    subscriptions = {"x": MemberSubscription(("a",), rack_id="r0"), "y": MemberSubscription(("a",), rack_id="r1")}
    racks = {"a": [["r1"], ["r1"], ["r1"], ["r0"]]}
    assert ASSIGNOR.assign(subscriptions, {"a": 4}, racks) == {"x": partitions("a-2 a-3"), "y": partitions("a-0 a-1")}


def test_members_give_up_everything_before_they_join() -> None:
    assert not ASSIGNOR.cooperative


def test_user_data() -> None:
    assert ASSIGNOR.user_data(partitions("a-0"), 1) is None
