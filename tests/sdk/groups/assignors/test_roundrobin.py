"""Partitions are assigned one after another, as in Apache Kafka.

Method: check Kafka's vectors, use hypothesis for balance, and check one hand-built group.
"""

from __future__ import annotations

from hypothesis import given

from kafkawire.sdk.groups.assignor import MemberSubscription
from kafkawire.sdk.groups.assignors.roundrobin import RoundRobinAssignor
from tests.sdk.groups.assignors.groups import Group, failed_vectors, groups, partitions, sizes

ASSIGNOR = RoundRobinAssignor()


def test_vectors() -> None:
    assert failed_vectors(ASSIGNOR.name) == []


@given(group=groups(equal=True))
def test_counts_differ_by_at_most_one_with_equal_subscriptions(group: Group) -> None:
    counts = sizes(ASSIGNOR.assign(*group)).values()
    assert max(counts) - min(counts) <= 1


def test_members_that_do_not_subscribe_to_a_topic_are_skipped() -> None:
    subscriptions = {
        "x": MemberSubscription(("a",)),
        "y": MemberSubscription(("a", "b")),
        "z": MemberSubscription(("b",)),
    }
    assert ASSIGNOR.assign(subscriptions, {"a": 3, "b": 3}) == {
        "x": partitions("a-0 a-2"),
        "y": partitions("a-1 b-0 b-2"),
        "z": partitions("b-1"),
    }


def test_members_give_up_everything_before_they_join() -> None:
    assert not ASSIGNOR.cooperative


def test_user_data() -> None:
    assert ASSIGNOR.user_data(partitions("a-0"), 1) is None
