"""The share partitions of a group: which need a state, which are about to have one, and which have one.

Method: follow made-up partitions through all steps.
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.share.state_partitions import (
    INITIALIZE_AGAIN_MS,
    StatePartitions,
    TopicStates,
)
from kafkawire.reference_broker.groups.topics import TopicFacts

T, U = b"t" * 16, b"u" * 16

TOPICS = {"t": TopicFacts(T, 3), "u": TopicFacts(U, 1)}


def states(name, *numbers, noted_ms=0):
    return TopicStates(name, frozenset(numbers), noted_ms)


def test_missing_states_are_asked_for_and_asked_for_again():
    known = StatePartitions()
    missing = known.missing(["t", "u", "none"], TOPICS, 5)
    assert missing == {T: states("t", 0, 1, 2, noted_ms=5), U: states("u", 0, noted_ms=5)}
    begun = known.begin(missing)
    assert (begun.initializing, begun.assignable) == (missing, {})
    assert begun.missing(["t", "u"], TOPICS, 5 + INITIALIZE_AGAIN_MS - 1) == {}
    assert set(begun.missing(["t", "u"], TOPICS, 5 + INITIALIZE_AGAIN_MS)) == {T, U}


def test_states_that_have_begun():
    known = StatePartitions(initializing={T: states("t", 0, 1, 2)}).begun({T: states("t", 0, 1)})
    assert known.assignable == {T: {0, 1}}
    assert known.initializing == {T: states("t", 2)}
    assert known.refused({T: frozenset({2})}).initializing == {}
    more = known.begun({T: states("t", 2)})
    assert (more.assignable, more.initializing) == ({T: {0, 1, 2}}, {})
    assert more.missing(["t"], {"t": TopicFacts(T, 4)}, 0) == {T: states("t", 3)}


def test_states_that_are_deleted():
    known = StatePartitions({T: states("t", 1)}, {T: states("t", 0), U: states("u", 0)}, {b"d" * 16: "d"})
    assert {topic_id: set(found.partitions) for topic_id, found in known.to_delete().items()} == {T: {0, 1}, U: {0}}
    assert known.forget(frozenset({T})) == StatePartitions({}, {U: states("u", 0)}, {b"d" * 16: "d"})
    assert StatePartitions(deleting={T: "t"}).begin({T: states("t", 0)}).deleting == {}


def test_whether_everything_is_assigned():
    known = StatePartitions(initialized={T: states("t", 0, 1), U: states("u", 0)})
    names = frozenset({"t"})
    assert not known.assigned_all([{T: frozenset({0})}], names)
    assert known.assigned_all([{T: frozenset({0})}, {T: frozenset({0, 1})}], names)
    assert not known.assigned_all([{T: frozenset({0, 1, 2})}], names)
    assert not known.assigned_all([{T: frozenset({0, 1})}], frozenset({"t", "u"}))
