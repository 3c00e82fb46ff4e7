"""The uniform assignor assigns evenly, moves few partitions, and balances members that want different topics.

Method: check tables; `tests/kafka/test_mixed_group_sequences.py` compares its choices with Apache Kafka's.
"""

from __future__ import annotations

from random import Random
from zlib import crc32

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
    assert kept == 3, "only one partition moves"


@pytest.mark.parametrize("same", [True, False])
def test_what_nobody_may_have_is_taken_back(same):
    members = {"a": subscriber(T, current={T: frozenset({0, 9}), U: frozenset({0})})}
    assert uniform_assignment(members, {T: 2}, is_homogeneous=same) == {"a": {T: frozenset({0, 1})}}


@pytest.mark.parametrize(("others", "keeps_last"), [(10, True), (11, False)])
def test_partitions_are_kept_in_the_order_of_a_table_of_java(others, keeps_last):
    """`new HashSet<>(List.of(0, ..., 16))` yields 16 right after 0 as long as the table has 16 buckets."""
    current = frozenset({*range(others), 16})
    members = {"a": subscriber(T, current={T: current}), "b": subscriber(T)}
    kept = uniform_assignment(members, {T: 17}, is_homogeneous=True)["a"][T]
    assert len(kept) < len(current)
    assert (16 in kept) == keeps_last


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


def drawn(chance):
    """Return members with topics and assignments, partition counts, and whether all members have the same topics."""
    topics = [bytes([chance.randrange(256) for _ in range(16)]) for _ in range(1 + chance.randrange(4))]
    counts = {topic_id: 1 + chance.randrange(9) for topic_id in topics}
    free = {topic_id: list(range(count + chance.randrange(2))) for topic_id, count in counts.items()}
    same, members = bool(chance.randrange(2)), {}
    for number in range(1 + chance.randrange(7)):
        wanted = [topic_id for topic_id in topics if same or chance.randrange(3)]
        current = {}
        for topic_id in topics:
            taken, free[topic_id] = free[topic_id][: (share := chance.randrange(7))], free[topic_id][share:]
            current |= {topic_id: frozenset(taken)} if taken else {}
        members[f"m{number}"] = subscriber(*wanted, current=current)
    return members, counts, same


def test_choices_stay_as_they_are():
    """Random sequences compare the choices with Apache Kafka's; this test detects changed choices without Kafka."""
    chance, digest = Random(1), 0
    for _ in range(400):
        members, counts, same = drawn(chance)
        found = uniform_assignment(members, counts, is_homogeneous=same)
        text = sorted(
            (name, sorted((key, sorted(of_it)) for key, of_it in parts.items())) for name, parts in found.items()
        )
        digest = crc32(repr(text).encode(), digest)
    assert digest == 4003032781
