"""Groups for the assignor tests: made by hypothesis, and what must hold for every assignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from kafkawire.conformance.misc_vectors import check_misc_vector
from kafkawire.sdk.groups.assignor import MemberSubscription
from kafkawire.sdk.groups.assignors import Assignment, Assignor, PartitionCounts, ReplicaRacks, Subscriptions
from kafkawire.sdk.protocol.engines.selection import ENGINE
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.vectors import read_vectors

__all__ = [
    "Group",
    "assert_balanced",
    "assert_valid",
    "failed_vectors",
    "groups",
    "member_after",
    "partition",
    "partitions",
    "sizes",
]

TOPICS: tuple[str, ...] = ("a", "b", "c", "d")
RACKS: tuple[str, ...] = ("rack0", "rack1", "rack2")


class Group(NamedTuple):
    """What an assignor is given."""

    subscriptions: dict[str, MemberSubscription]
    partition_counts: PartitionCounts
    replica_racks: ReplicaRacks | None


@st.composite
def groups(draw: st.DrawFn, equal: bool | None = None) -> Group:
    """Return a new group: nobody owns anything, every member subscribes to at least one topic, which may not exist.

    Args:
        draw: given by hypothesis.
        equal: whether all members have the same subscription; None for either.
    """
    counts = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9), min_size=1))
    wanted = st.sets(st.sampled_from([*TOPICS, "missing"]), min_size=1).map(lambda topics: tuple(sorted(topics)))
    if equal if equal is not None else draw(st.booleans()):
        wanted = st.just(draw(wanted))
    in_racks = draw(st.booleans())
    racks = st.none() | st.sampled_from(RACKS) if in_racks else st.none()
    instances = st.none() | st.uuids().map(str)
    names = draw(st.sets(st.text("abXY01-_", min_size=1, max_size=6), min_size=1, max_size=7))
    subscriptions = {
        name: MemberSubscription(draw(wanted), rack_id=draw(racks), group_instance_id=draw(instances))
        for name in sorted(names)
    }
    replicas = st.sets(st.sampled_from(RACKS), min_size=1)
    replica_racks = {topic: [draw(replicas) for _ in range(count)] for topic, count in counts.items()}
    return Group(subscriptions, counts, replica_racks if in_racks else None)


def partition(text: str) -> TopicPartition:
    """Return the partition called `topic-number`."""
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def partitions(text: str) -> list[TopicPartition]:
    """Return the partitions of a text such as `a-0 a-1 b-0`."""
    return [partition(part) for part in text.split()]


def sizes(assignment: Assignment) -> dict[str, int]:
    """Return how many partitions each member has."""
    return {member: len(assigned) for member, assigned in assignment.items()}


def assert_valid(
    assignment: Mapping[str, Sequence[TopicPartition]], subscriptions: Subscriptions, partition_counts: PartitionCounts
) -> None:
    """Assert that each partition with a subscriber went to exactly one of its subscribers."""
    assert assignment.keys() == subscriptions.keys()
    given = [each for assigned in assignment.values() for each in assigned]
    wanted = {topic for subscription in subscriptions.values() for topic in subscription.topics}
    assert sorted(given) == sorted(
        TopicPartition(topic, number) for topic in wanted for number in range(partition_counts.get(topic, 0))
    )
    for member, assigned in assignment.items():
        assert {each.topic for each in assigned} <= set(subscriptions[member].topics)


def assert_balanced(assignment: Assignment, subscriptions: Subscriptions) -> None:
    """Assert that no partition could move to a subscriber that has at least two fewer."""
    for assigned in assignment.values():
        for each in assigned:
            for other, subscription in subscriptions.items():
                assert each.topic not in subscription.topics or len(assigned) <= len(assignment[other]) + 1


def member_after(
    assignor: Assignor, subscription: MemberSubscription, assigned: Iterable[TopicPartition], generation_id: int
) -> MemberSubscription:
    """Return what a member sends after it got an assignment."""
    owned = tuple(assigned)
    user_data = assignor.user_data(owned, generation_id)
    return subscription._replace(owned_partitions=owned, generation_id=generation_id, user_data=user_data)


def failed_vectors(name: str) -> list[str]:
    """Return the failures of Apache Kafka's vectors for an assignor; there must be at least 30 vectors."""
    vectors = [vector for vector in read_vectors("misc") if vector.get("assignor") == name]
    assert len(vectors) >= 30
    return [failure for vector in vectors if (failure := check_misc_vector(vector, ENGINE)) is not None]
