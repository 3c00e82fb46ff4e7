"""The uniform assignor is even, moves little, and levels loads of members that want different topics.

Method: tables; beside Apache Kafka its choices are compared by `tests/kafka/test_mixed_group_sequences.py`.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.consumer.uniform_assignor import uniform_assignment
from tests.reference_broker.groups.consumer.subscribing import size, subscriber

T, U = b"t" * 16, b"u" * 16


@pytest.mark.parametrize("same", [True, False])
def test_what_is_even_is_kept(same):
    before = {"a": {T: frozenset({0, 3})}, "b": {T: frozenset({1, 2})}}
    members = {name: subscriber(T, current=before.get(name)) for name in ("a", "b", "c")}
    found = uniform_assignment(members, {T: 4}, is_homogeneous=same)
    assert sorted(map(size, found.values())) == [1, 1, 2]
    kept = sum(len(found[name].get(T, frozenset()) & before[name][T]) for name in before)
    assert kept == 3, "one partition moves"


@pytest.mark.parametrize("same", [True, False])
def test_what_nobody_may_have_is_taken_back(same):
    members = {"a": subscriber(T, current={T: frozenset({0, 9}), U: frozenset({0})})}
    assert uniform_assignment(members, {T: 2}, is_homogeneous=same) == {"a": {T: frozenset({0, 1})}}


@pytest.mark.parametrize("same", [True, False])
def test_it_is_stable(same):
    members = {f"m{number}": subscriber(T, U) for number in range(3)}
    first = uniform_assignment(members, {T: 7, U: 3}, is_homogeneous=same)
    again = {name: member._replace(current=first[name]) for name, member in members.items()}
    assert uniform_assignment(again, {T: 7, U: 3}, is_homogeneous=same) == first


def test_loads_are_levelled_between_members_that_want_different_topics():
    members = {
        "a": subscriber(T, current={T: frozenset(range(6))}),
        "b": subscriber(T, U, current={U: frozenset(range(2))}),
        "c": subscriber(U),
    }
    found = uniform_assignment(members, {T: 6, U: 2}, is_homogeneous=False)
    assert sorted(map(size, found.values())) == [2, 3, 3]
    assert found["b"].get(U, frozenset()) | found["c"].get(U, frozenset()) == {0, 1}


def test_a_topic_that_one_member_wants_is_its_own():
    members = {"a": subscriber(T), "b": subscriber(U)}
    found = uniform_assignment(members, {T: 5, U: 1}, is_homogeneous=False)
    assert found == {"a": {T: frozenset(range(5))}, "b": {U: frozenset({0})}}


def test_members_without_topics_get_nothing():
    members = {"a": subscriber(current={T: frozenset({0})}), "b": subscriber()}
    assert uniform_assignment(members, {}, is_homogeneous=True) == {"a": {}, "b": {}}
    mixed = {"a": subscriber(), "b": subscriber(T)}
    assert uniform_assignment(mixed, {T: 1}, is_homogeneous=False) == {"a": {}, "b": {T: frozenset({0})}}
