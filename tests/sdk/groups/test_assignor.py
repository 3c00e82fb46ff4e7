"""All assignors share their names, their choice of topics and their order of members.

Method: check the table of assignors, and small hand-built groups.
"""

from __future__ import annotations

import pytest
from hypothesis import given

from kafkawire.sdk.client.options import ASSIGNOR_NAMES
from kafkawire.sdk.groups.assignor import (
    Assignment,
    Assignor,
    MemberSubscription,
    PartitionCounts,
    ReplicaRacks,
    Subscriptions,
    partitions_of,
    sorted_members,
    subscribed_topics,
)
from kafkawire.sdk.groups.assignors import ASSIGNORS
from tests.sdk.groups.assignors.groups import Group, assert_valid, groups, partitions


def test_names_and_protocols() -> None:
    assert {name: assignor.cooperative for name, assignor in ASSIGNORS.items()} == {
        "range": False,
        "roundrobin": False,
        "sticky": False,
        "cooperative-sticky": True,
    }
    assert all(assignor.name == name for name, assignor in ASSIGNORS.items())
    assert tuple(ASSIGNORS) == ASSIGNOR_NAMES


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=list(ASSIGNORS))
@given(group=groups())
def test_every_first_assignment_is_valid(assignor: Assignor, group: Group) -> None:
    assert_valid(assignor.assign(*group), group.subscriptions, group.partition_counts)


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=list(ASSIGNORS))
def test_groups_with_nothing_to_assign(assignor: Assignor) -> None:
    nothing = {"x": MemberSubscription(()), "y": MemberSubscription(("missing", "empty"))}
    assert assignor.assign(nothing, {"empty": 0, "other": 3}) == {"x": [], "y": []}


def test_an_assignor_of_the_application_needs_a_name_and_a_method() -> None:
    class OneForAll(Assignor):
        name = "one-for-all"

        def assign(
            self,
            subscriptions: Subscriptions,
            partition_counts: PartitionCounts,
            replica_racks: ReplicaRacks | None = None,
        ) -> Assignment:
            return {}

    own = OneForAll()
    assert (own.name, own.cooperative, own.user_data((), -1)) == ("one-for-all", False, None)


def test_subscribed_topics() -> None:
    subscriptions = {"x": MemberSubscription(("b", "a", "missing")), "y": MemberSubscription(("b", "empty"))}
    assert subscribed_topics(subscriptions, {"a": 1, "b": 2, "c": 3, "empty": 0}) == {"a": 1, "b": 2}


def test_partitions_of() -> None:
    assert list(partitions_of("a", 3)) == partitions("a-0 a-1 a-2")


def test_order_of_members() -> None:
    """A static member keeps its place in the order, whatever member id it gets after a restart."""
    subscriptions = {
        "id1": MemberSubscription(()),
        "id0": MemberSubscription(()),
        "id2": MemberSubscription((), group_instance_id="z"),
        "id3": MemberSubscription((), group_instance_id="a"),
    }
    assert sorted_members(subscriptions) == ["id3", "id2", "id0", "id1"]
