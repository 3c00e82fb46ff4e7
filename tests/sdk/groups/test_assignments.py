"""A consumer group's assignments are computed by its assignors and encoded in the consumer protocol.

Method: check tables, and use hypothesis for groups in which some members send data that cannot be decoded.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.client.option_values import read_assignors
from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError
from kafkawire.sdk.groups.assignments import ConsumerAssignments
from kafkawire.sdk.groups.assignor import Assignor, MemberSubscription, PartitionCounts, ReplicaRacks
from kafkawire.sdk.groups.assignors import ASSIGNORS, Assignment, Subscriptions
from kafkawire.sdk.groups.assignors.range import RangeAssignor
from kafkawire.sdk.groups.classic_protocol import ClusterView, Joining, MemberInfo
from kafkawire.sdk.groups.consumer_protocol import decode_subscription, encode_subscription
from kafkawire.sdk.routing.partitions import TopicPartition

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


class Everything(RangeAssignor):
    """An application's assignor that gives everything to the first static member."""

    name = "everything"

    def assign(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None = None
    ) -> Assignment:
        chosen = next(member for member, said in subscriptions.items() if said.group_instance_id)
        partitions = [TopicPartition(topic, each) for topic, count in partition_counts.items() for each in range(count)]
        return {member: partitions if member == chosen else [] for member in subscriptions}


class Plain:
    """An assignor that does not derive from the protocol class, and lacks everything that has a default in it."""

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
    read = assignments.read(members)
    assert (read.topics, read.damage) == ({"t"}, {})
    made = assignments.assign("range", read.subscriptions, ClusterView({"t": 2}, {"t": [[], []]}))
    assert {member: assignments.assignment(each) for member, each in made.items()} == {"a": {P}, "b": {Q}}
    assert assignments.assignment(b"") == frozenset()


def test_an_assignor_of_the_application_sees_static_members() -> None:
    assignments = ConsumerAssignments([Everything()])
    data = dict(assignments.protocols(Joining(frozenset({"t"}), frozenset(), -1, None, frozenset(), -1)))["everything"]
    members = {"a": MemberInfo(data, None), "b": MemberInfo(data, "one")}
    made = assignments.assign("everything", assignments.read(members).subscriptions, ClusterView({"t": 2}, {}))
    assert {member: assignments.assignment(each) for member, each in made.items()} == {"a": set(), "b": {P, Q}}


@pytest.mark.parametrize(
    ("names", "cooperative"),
    [(["range"], False), (["cooperative-sticky"], True), (["range", "cooperative-sticky"], False)],
)
def test_a_member_is_cooperative_if_all_of_its_assignors_are(names: list[str], cooperative: bool) -> None:
    assert ConsumerAssignments(names).cooperative is cooperative


class Faulty(Assignor):
    """An application's assignor that returns a given result, and fails to create user data."""

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
        ({"c": [P]}, "the assignment includes c, which is not a member of the group"),
        ({"a": [TopicPartition("u", 0)]}, "u-0 was assigned to a, which does not subscribe to its topic"),
        ({"a": [P], "b": [TopicPartition("t", 2)]}, "t-2 was assigned to b, but does not exist"),
        ({"a": [P, Q], "b": [Q]}, "t-1 was assigned to a and to b"),
        ({"a": [Q, Q]}, "t-1 was assigned to a and to a"),
    ],
)
def test_assignments_that_cannot_be_are_refused(assignment: Assignment, message: str) -> None:
    assignments = ConsumerAssignments([Faulty(assignment)])
    subscriptions = {each: MemberSubscription(("t",)) for each in "ab"}
    with pytest.raises(LocalProtocolError, match=message):
        assignments.assign("faulty", subscriptions, ClusterView({"t": 2}, {}))


def test_user_data_that_cannot_be_made() -> None:
    joining = Joining(frozenset({"t"}), frozenset(), -1, None, frozenset(), -1)
    with pytest.raises(KafkaWireError, match=r"user data of assignor faulty: ValueError.'no user data'") as caught:
        ConsumerAssignments(["range", Faulty({})]).protocols(joining)
    assert isinstance(caught.value.__cause__, ValueError)


PARTITIONS = st.builds(TopicPartition, st.sampled_from(["t", "u", "x", "a b"]), st.integers(-2, 5))
USER_DATA = st.one_of(
    st.none(),
    st.binary(max_size=12),
    st.builds(ASSIGNORS["sticky"].user_data, st.lists(PARTITIONS, max_size=5), st.integers(-5, 9)),
)
SAID = st.builds(
    MemberSubscription,
    st.lists(st.sampled_from(["t", "u", "x", "", "a b", ".."]), max_size=4).map(tuple),
    st.lists(PARTITIONS, max_size=5).map(tuple),
    st.integers(-5, 9),
    st.sampled_from([None, "r1", ""]),
    USER_DATA,
).map(encode_subscription)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return noise, or a truncated subscription with another version and some changed bytes."""
    data = bytearray(draw(st.one_of(SAID, st.binary(max_size=40))))
    if len(data) >= 2 and draw(st.booleans()):
        data[:2] = draw(st.sampled_from([-2, -1, 0, 1, 2, 3, 4, 99])).to_bytes(2, "big", signed=True)
    for place in draw(st.lists(st.integers(0, max(len(data) - 1, 0)), max_size=2)):
        data[place : place + 1] = bytes([draw(st.sampled_from([0, 1, 0x7F, 0xFF]))])
    return bytes(data[: draw(st.sampled_from([len(data), len(data), draw(st.integers(0, len(data)))]))])


@pytest.mark.parametrize("name", ASSIGNORS)
@given(others=st.lists(damaged(), min_size=1, max_size=3), said=SAID)
def test_a_group_gets_its_partitions_whatever_some_members_say(name: str, others: list[bytes], said: bytes) -> None:
    """A member with a readable subscription to t and u gets its share; no member gets topics it did not ask for."""
    assignments = ConsumerAssignments([name])
    sound = encode_subscription(MemberSubscription(("t", "u")))
    data = {"sound": sound, "sound too": said, **{f"other {number}": each for number, each in enumerate(others)}}
    subscriptions, damage = assignments.read({each: MemberInfo(metadata, None) for each, metadata in data.items()})
    assert "sound" not in damage
    counts = {"t": 3, "u": 2}
    racks = {"t": [["r1"], ["r2"], []], "u": [["r1"], ["r2"]]}
    encoded = assignments.assign(name, subscriptions, ClusterView(counts, racks))
    assert encoded.keys() == data.keys()
    parts = {member: assignments.assignment(each) for member, each in encoded.items()}
    for member, part in parts.items():
        assert {partition.topic for partition in part} <= set(subscriptions[member].topics)
    given_away = [partition for part in parts.values() for partition in part]
    everything = {TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)}
    assert len(given_away) == len(set(given_away))
    missing = everything - set(given_away)
    owned = {partition for each in subscriptions.values() for partition in each.owned_partitions}
    assert missing <= (owned if name == "cooperative-sticky" else set()), "only partitions to be revoked may wait"
