"""Assignors give each subscribed partition to one member, and share them evenly; range assigns consecutive numbers.

Method: check tables, and random groups generated from seeds.
"""

from __future__ import annotations

from random import Random

import pytest

from kafkawire.reference_broker.groups.consumer.assignors import ASSIGNORS
from tests.reference_broker.groups.consumer.subscribing import partitions, size, subscriber

T, U = b"t" * 16, b"u" * 16


def test_range_keeps_numbers_together_and_static_members_first():
    members = {"b": subscriber(T, U), "a": subscriber(T, U), "z": subscriber(T, U, instance="i")}
    found = ASSIGNORS["range"](members, {T: 4, U: 2}, is_homogeneous=True)
    assert found == {
        "z": {T: frozenset({0, 1}), U: frozenset({0})},
        "a": {T: frozenset({2}), U: frozenset({1})},
        "b": {T: frozenset({3})},
    }


def test_range_with_different_subscriptions():
    found = ASSIGNORS["range"]({"a": subscriber(T), "b": subscriber(T, U)}, {T: 3, U: 2}, is_homogeneous=False)
    assert found == {"a": {T: frozenset({0, 1})}, "b": {T: frozenset({2}), U: frozenset({0, 1})}}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@pytest.mark.parametrize("seed", range(50))
def test_everything_is_assigned_once(name, seed):
    random = Random(seed)
    topics = [bytes([number]) * 16 for number in range(random.randrange(1, 5))]
    counts = {topic: random.randrange(1, 9) for topic in topics}
    same = random.random() < 0.5
    chosen = random.sample(topics, random.randrange(1, len(topics) + 1))
    members = {}
    for number in range(random.randrange(1, 7)):
        wanted = chosen if same else random.sample(topics, random.randrange(1, len(topics) + 1))
        members[f"m{number}"] = subscriber(*wanted)
    found = {}
    for _ in range(3):
        found = ASSIGNORS[name](members, counts, is_homogeneous=same)
        wanted = {topic for member in members.values() for topic in member.topic_ids}
        assert partitions(found) == sorted((topic, number) for topic in wanted for number in range(counts[topic]))
        for member_id, owned in found.items():
            assert set(owned) <= members[member_id].topic_ids
        if same and name == "uniform":
            assert max(map(size, found.values())) - min(map(size, found.values())) <= 1
        members = {name: member._replace(current=found[name]) for name, member in members.items()}
        if len(members) > 1:
            members.popitem()
