"""Assignors give every partition that somebody wants to one member, evenly; uniform moves no more than it must.

Method: tables, and random groups by seed.
"""

from __future__ import annotations

from random import Random

import pytest

from kafkawire.reference_broker.groups.consumer.assignors import ASSIGNORS, Subscriber

T, U = b"t" * 16, b"u" * 16


def subscriber(*topics, current=None, instance=None):
    return Subscriber(instance, frozenset(topics), current or {})


def partitions(assignment):
    return sorted((topic, number) for owned in assignment.values() for topic in owned for number in owned[topic])


def size(owned):
    return sum(len(numbers) for numbers in owned.values())


def test_range_keeps_numbers_together_and_static_members_first():
    members = {"b": subscriber(T, U), "a": subscriber(T, U), "z": subscriber(T, U, instance="i")}
    found = ASSIGNORS["range"](members, {T: 4, U: 2})
    assert found == {
        "z": {T: frozenset({0, 1}), U: frozenset({0})},
        "a": {T: frozenset({2}), U: frozenset({1})},
        "b": {T: frozenset({3})},
    }


def test_range_with_different_subscriptions():
    found = ASSIGNORS["range"]({"a": subscriber(T), "b": subscriber(T, U)}, {T: 3, U: 2})
    assert found == {"a": {T: frozenset({0, 1})}, "b": {T: frozenset({2}), U: frozenset({0, 1})}}


def test_uniform_keeps_what_is_even():
    before = {"a": {T: frozenset({0, 3})}, "b": {T: frozenset({1, 2})}}
    members = {name: subscriber(T, current=before.get(name)) for name in ("a", "b", "c")}
    found = ASSIGNORS["uniform"](members, {T: 4})
    assert sorted(map(size, found.values())) == [1, 1, 2]
    kept = sum(len(found[name].get(T, frozenset()) & before[name][T]) for name in before)
    assert kept == 3, "one partition moves"


def test_uniform_takes_back_what_nobody_may_have():
    members = {"a": subscriber(T, current={T: frozenset({0, 9}), U: frozenset({0})})}
    assert ASSIGNORS["uniform"](members, {T: 2, U: 1}) == {"a": {T: frozenset({0, 1})}}


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
        found = ASSIGNORS[name](members, counts)
        wanted = {topic for member in members.values() for topic in member.topic_ids}
        assert partitions(found) == sorted((topic, number) for topic in wanted for number in range(counts[topic]))
        for member_id, owned in found.items():
            assert set(owned) <= members[member_id].topic_ids
        if same and name == "uniform":
            assert max(map(size, found.values())) - min(map(size, found.values())) <= 1
        members = {name: member._replace(current=found[name]) for name, member in members.items()}
        if len(members) > 1:
            members.popitem()


def test_uniform_is_stable():
    members = {f"m{number}": subscriber(T, U) for number in range(3)}
    first = ASSIGNORS["uniform"](members, {T: 7, U: 3})
    again = {name: member._replace(current=first[name]) for name, member in members.items()}
    assert ASSIGNORS["uniform"](again, {T: 7, U: 3}) == first


def test_uniform_gives_one_after_the_other():
    found = ASSIGNORS["uniform"]({"a": subscriber(T), "b": subscriber(T)}, {T: 4})
    assert found == {"a": {T: frozenset({0, 2})}, "b": {T: frozenset({1, 3})}}
