"""The assignments of a consumer's group: its assignors, encoded as the consumer protocol."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kafkawire.sdk.client.groups.assignor import Assignor, MemberSubscription, PartitionCounts, ReplicaRacks
from kafkawire.sdk.client.groups.classic_protocol import ClusterView, Joining, MemberInfo
from kafkawire.sdk.client.option_values import read_assignors
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.classic.assignments import ConsumerAssignments
from kafkawire.sdk.consumer.classic.assignors import ASSIGNORS, Assignment, Subscriptions
from kafkawire.sdk.consumer.classic.assignors.range import RangeAssignor
from kafkawire.sdk.consumer.classic.consumer_protocol import decode_subscription, encode_subscription
from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


class Everything(RangeAssignor):
    """An assignor of the application: the first static member gets everything."""

    name = "everything"

    def assign(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None = None
    ) -> Assignment:
        chosen = next(member for member, said in subscriptions.items() if said.group_instance_id)
        partitions = [TopicPartition(topic, each) for topic, count in partition_counts.items() for each in range(count)]
        return {member: partitions if member == chosen else [] for member in subscriptions}


class Plain:
    """An assignor that is not derived from the protocol class, with nothing that has a default there."""

    name = "plain"

    def assign(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None = None
    ) -> Assignment:
        return {member: [] for member in subscriptions}


def test_an_assignor_may_leave_out_what_has_a_default() -> None:
    (chosen,) = read_assignors("assignors", [Plain()])
    assignments = ConsumerAssignments([chosen])
    assert not assignments.cooperative
    joining = Joining(frozenset({"t"}), frozenset(), -1, None, frozenset(), -1)
    assert decode_subscription(dict(assignments.protocols(joining))["plain"]).user_data is None


def test_each_assignor_has_its_subscription() -> None:
    assignments = ConsumerAssignments(["range", "sticky"])
    joining = Joining(frozenset({"u", "t"}), frozenset({P}), 4, "r1", frozenset({P, Q}), 4)
    protocols = dict(assignments.protocols(joining))
    assert list(protocols) == ["range", "sticky"]
    said = decode_subscription(protocols["range"])
    assert (said.topics, said.owned_partitions, said.generation_id, said.rack_id) == (("t", "u"), (P,), 4, "r1")
    assert said.user_data is None
    assert decode_subscription(protocols["sticky"]).user_data == ASSIGNORS["sticky"].user_data([P, Q], 4)


def test_an_assignment_is_made_and_read() -> None:
    assignments = ConsumerAssignments(["range"])
    joining = Joining(frozenset({"t"}), frozenset(), -1, None, frozenset(), -1)
    data = dict(assignments.protocols(joining))["range"]
    members = {"a": MemberInfo(data, None), "b": MemberInfo(data, None)}
    assert assignments.topics(members) == {"t"}
    made = assignments.assign("range", members, ClusterView({"t": 2}, {"t": [[], []]}))
    assert {member: assignments.assignment(each) for member, each in made.items()} == {"a": {P}, "b": {Q}}
    assert assignments.assignment(b"") == frozenset()


def test_an_assignor_of_the_application_sees_static_members() -> None:
    assignments = ConsumerAssignments([Everything()])
    data = dict(assignments.protocols(Joining(frozenset({"t"}), frozenset(), -1, None, frozenset(), -1)))["everything"]
    members = {"a": MemberInfo(data, None), "b": MemberInfo(data, "one")}
    made = assignments.assign("everything", members, ClusterView({"t": 2}, {}))
    assert {member: assignments.assignment(each) for member, each in made.items()} == {"a": set(), "b": {P, Q}}


@pytest.mark.parametrize(
    ("names", "cooperative"),
    [(["range"], False), (["cooperative-sticky"], True), (["range", "cooperative-sticky"], False)],
)
def test_a_member_is_cooperative_if_all_of_its_assignors_are(names: list[str], cooperative: bool) -> None:
    assert ConsumerAssignments(names).cooperative is cooperative


class Faulty(Assignor):
    """An assignor of the application that returns what it is given, and cannot make user data."""

    name = "faulty"

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment

    def user_data(self, partitions: Iterable[TopicPartition], generation_id: int) -> bytes | None:
        raise ValueError("no user data")

    def assign(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None = None
    ) -> Assignment:
        return self._assignment


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ({"c": [P]}, "the assignment names c, which is not a member"),
        ({"a": [TopicPartition("u", 0)]}, "u-0 was assigned to a, which does not subscribe to its topic"),
        ({"a": [P], "b": [TopicPartition("t", 2)]}, "t-2 was assigned to b, and does not exist"),
        ({"a": [P, Q], "b": [Q]}, "t-1 was assigned to a and to b"),
        ({"a": [Q, Q]}, "t-1 was assigned to a and to a"),
    ],
)
def test_assignments_that_cannot_be_are_refused(assignment: Assignment, message: str) -> None:
    assignments = ConsumerAssignments([Faulty(assignment)])
    members = {each: MemberInfo(encode_subscription(MemberSubscription(("t",))), None) for each in "ab"}
    with pytest.raises(LocalProtocolError, match=message):
        assignments.assign("faulty", members, ClusterView({"t": 2}, {}))


def test_user_data_that_cannot_be_made() -> None:
    joining = Joining(frozenset({"t"}), frozenset(), -1, None, frozenset(), -1)
    with pytest.raises(KafkaWireError, match=r"user data of assignor faulty: ValueError.'no user data'") as caught:
        ConsumerAssignments(["range", Faulty({})]).protocols(joining)
    assert isinstance(caught.value.__cause__, ValueError)
