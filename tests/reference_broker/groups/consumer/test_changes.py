"""Changes to members change the group's epoch, its target assignment and its preferred assignor.

Method: use a coordinator with an in-memory log.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.consumer.assignors import ASSIGNORS
from kafkawire.reference_broker.groups.consumer.changes import Change, preferred_assignor
from kafkawire.reference_broker.groups.consumer.group import ConsumerGroup, ConsumerMember
from kafkawire.reference_broker.groups.topics import TopicFacts
from tests.reference_broker.groups.consumer_bench import ConsumerBench, T, numbers


def test_changes_are_gathered_for_a_while_after_an_assignment():
    bench = ConsumerBench(group_consumer_assignment_interval_ms=1_000)
    first = bench.beat("a", now=5)
    assert (first.member_epoch, numbers(first)) == (2, [0, 1, 2, 3])
    second = bench.beat("b", now=1_004)
    assert (second.member_epoch, numbers(second), bench.consumers.epoch) == (2, [], 3)
    assert bench.beat("b", 2, now=1_004).member_epoch == 2
    assert bench.beat("b", 2, now=1_005).member_epoch == 3
    assert bench.loaded().consumers.assigned_ms == 1_005


def test_a_member_gives_up_what_it_does_not_read_any_more_while_changes_are_gathered():
    bench = ConsumerBench(group_consumer_assignment_interval_ms=1_000)
    bench.beat("a", now=5)
    told = bench.beat("a", 2, (0, 1, 2, 3), now=6, topics=["u"])
    assert (told.member_epoch, told.assignment.topic_partitions) == (2, [])
    assert bench.consumers.members["a"].revoking == {T: frozenset(range(4))}


def test_a_member_that_has_revoked_at_its_epoch_is_not_fenced_for_that():
    bench = ConsumerBench(group_consumer_assignment_interval_ms=60_000)
    bench.beat("a", now=5, rebalance_timeout_ms=1_000)
    bench.beat("a", 2, (0, 1, 2, 3), now=6, topics=["u"])
    assert bench.beat("a", 2, (), now=7).member_epoch == 2
    assert bench.consumers.members["a"].revoking == {}
    bench.timers.fire(1_006)
    assert set(bench.consumers.members) == {"a"}


def test_a_member_takes_the_place_of_another():
    group = ConsumerGroup("g", target={"old": {T: frozenset({1})}, "other": {T: frozenset({2})}})
    old, new = ConsumerMember("old", "i", topics=("t",)), ConsumerMember("new", "i", topics=("t",))
    group.put(old)
    change = Change(group, new, new, "old")
    assert (change.is_known, change.has_subscription_changed, list(change.members())) == (True, False, ["new"])
    assert (change.target_of("new"), change.target_of("other")) == ({T: frozenset({1})}, {T: frozenset({2})})


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((None, None), "uniform"),
        (("range", None), "range"),
        (("range", "uniform", "uniform"), "uniform"),
        (("uniform", "range"), "uniform"),
        (("range", "uniform"), "uniform"),
    ],
)
def test_the_assignor_that_most_members_ask_for(asked, expected):
    members = {str(number): ConsumerMember(str(number), assignor=name) for number, name in enumerate(asked)}
    assert preferred_assignor(members) == expected


@pytest.mark.parametrize(
    ("subscriptions", "is_homogeneous"),
    [
        ([{"topics": ["t"]}, {"topics": ["t"]}], True),
        ([{"topics": ["t"]}, {"topics": ["t", "u"]}], False),
        ([{"topics": [], "regex": "t"}, {"topics": [], "regex": "t"}], True),
        ([{"topics": ["t"], "regex": "t"}, {"topics": ["t"], "regex": "t"}], False),
    ],
)
def test_members_with_one_subscription_are_assigned_as_such(monkeypatch, subscriptions, is_homogeneous):
    told = []

    def assign(subscribers, counts, *, is_homogeneous):
        told.append(is_homogeneous)
        return {member_id: {} for member_id in subscribers}

    monkeypatch.setitem(ASSIGNORS, "uniform", assign)
    bench = ConsumerBench()
    for number, subscription in enumerate(subscriptions):
        bench.beat(str(number), **subscription)
    bench.resolve()
    bench.beat("0", bench.consumers.members["0"].epoch)
    assert told[-1] is is_homogeneous


def test_a_topic_that_grows_raises_the_epoch():
    bench = ConsumerBench()
    bench.beat("a")
    bench.topics["t"] = TopicFacts(T, 5)
    assert bench.beat("a", 2).member_epoch == 3
