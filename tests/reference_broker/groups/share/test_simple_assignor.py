"""The simple assignor gives each partition to about the same number of members, and moves few of them.

Method: compute assignments for made-up members; hypothesis looks for an unbalanced one.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.groups.share.simple_assignor import ShareSubscriber, simple_assignment

T, U = b"t" * 16, b"u" * 16


def assigned(members, assignable, current=None):
    """Return the numbers of the partitions that each member gets of each topic, given the topics of the members."""
    current = current or {}
    subscribers = {name: ShareSubscriber(frozenset(topics), current.get(name, {})) for name, topics in members.items()}
    return simple_assignment(subscribers, assignable)


def shown(found):
    return {name: {topic: sorted(numbers) for topic, numbers in parts.items()} for name, parts in found.items()}


@pytest.mark.parametrize(
    ("members", "assignable", "expected"),
    [
        ({}, {T: [0]}, {}),
        ({"a": [T]}, {}, {"a": {}}),
        ({"a": []}, {T: [0]}, {"a": {}}),
        ({"a": [T]}, {T: [0, 1], U: [0]}, {"a": {T: [0, 1]}}),
        ({"a": [T], "b": [T]}, {T: [0, 1, 2]}, {"a": {T: [0, 2]}, "b": {T: [1]}}),
        ({"a": [T], "b": [T]}, {T: [0]}, {"a": {T: [0]}, "b": {T: [0]}}),
        ({"a": [T], "b": [T], "c": [T]}, {T: [0, 1]}, {"a": {T: [0, 1]}, "b": {T: [0]}, "c": {T: [1]}}),
        ({"a": [T], "b": [U], "c": [T, U]}, {T: [0], U: [0]}, {"a": {T: [0]}, "b": {U: [0]}, "c": {T: [0], U: [0]}}),
    ],
)
def test_assignments(members, assignable, expected):
    assert shown(assigned(members, assignable)) == expected


def test_members_keep_their_partitions():
    current = {"a": {T: frozenset({1, 3})}, "b": {T: frozenset({0, 2})}}
    found = assigned({"a": [T], "b": [T]}, {T: range(4)}, current)
    assert found == current
    found = assigned({"a": [T], "b": [T], "c": [T]}, {T: range(4)}, current)
    assert all(found[name][T] <= current[name][T] for name in "ab")


def test_partitions_without_a_state_are_not_assigned():
    current = {"a": {T: frozenset({0, 9}), U: frozenset({0})}}
    assert shown(assigned({"a": [T]}, {T: [0, 1]}, current)) == {"a": {T: [0, 1]}}


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 8), st.integers(0, 8))
def test_all_partitions_have_members_and_all_members_have_partitions(members, partitions, members_before, parts_before):
    names = [f"m{number}" for number in range(members)]
    before = assigned({f"m{number}": [T] for number in range(members_before)}, {T: range(parts_before)})
    found = assigned({name: [T] for name in names}, {T: range(partitions)}, before)
    sharers = [sum(number in found[name].get(T, ()) for name in names) for number in range(partitions)]
    owned = [len(found[name].get(T, ())) for name in names]
    assert min(sharers) >= 1
    assert max(sharers) <= -(-members // partitions)
    assert max(owned) - min(owned) <= max(1, -(-members // partitions))
    if members <= partitions:
        assert max(owned) - min(owned) <= 1
