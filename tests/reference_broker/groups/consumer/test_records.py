"""Records of consumer groups survive encoding and decoding, and tombstones remove the right state.

Method: encode records, decode them, and replay them into an empty dictionary of groups.
"""

from __future__ import annotations

from kafkawire.reference_broker.coordinators.records import decode, encode
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.reference_broker.groups.consumer.group import ConsumerGroup, ConsumerMember, MemberState, Resolved
from kafkawire.reference_broker.groups.consumer.records import (
    CONSUMER_RECORD_TYPES,
    current_record,
    epoch_record,
    group_tombstones,
    group_value_record,
    member_record,
    member_tombstones,
    regex_record,
    regex_tombstones,
    replay,
    target_record,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentValue as CurrentValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey as PartitionsKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataValue as PartitionsValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionValue as RegexValue,
)

T = b"t" * 16
MEMBER = ConsumerMember(
    "m",
    "i",
    "rack",
    "client",
    "/host",
    1_000,
    ("a", "b"),
    "range",
    7,
    6,
    MemberState.UNREVOKED_PARTITIONS,
    {T: frozenset({1, 2})},
    {T: frozenset({3})},
    {(T, 1): 5, (T, 2): 7, (T, 3): 6},
)


def stored(*records):
    groups: dict[str, ConsumerGroup] = {}
    for record in records:
        again = decode(CONSUMER_RECORD_TYPES, *encode(record))
        assert again is not None
        assert replay(groups, again) == "g"
    return groups


RECORDS = (
    member_record("g", MEMBER),
    current_record("g", MEMBER),
    target_record("g", "m", {T: frozenset({1})}),
    group_value_record("g", 8, 99),
    epoch_record("g", 7, 1_000),
)


def test_groups_come_back():
    group = stored(*RECORDS)["g"]
    assert group.members == {"m": MEMBER}
    assert (group.epoch, group.metadata_hash, group.assignment_epoch) == (8, 99, 7)
    assert (group.target, group.static_members) == ({"m": {T: frozenset({1})}}, {"i": "m"})
    assert set(group.owners) == {(T, 1), (T, 2), (T, 3)}


def test_member_goes():
    group = stored(*RECORDS, *member_tombstones("g", "m"))["g"]
    assert (group.members, group.target, group.owners) == ({}, {}, {})


def test_group_goes():
    group = stored(*RECORDS)["g"]
    assert stored(*RECORDS, *group_tombstones("g", group.members)) == {}
    assert stored(*member_tombstones("g", "m")) == {}


def test_partitions_of_an_older_record_are_had_since_its_epoch():
    record = current_record("g", MEMBER)
    assert isinstance(record.value, CurrentValue)
    for part in (*record.value.assigned_partitions, *record.value.partitions_pending_revocation):
        part.assignment_epochs = None
    assert stored(record)["g"].members["m"].since == {(T, 1): 7, (T, 2): 7, (T, 3): 7}


def test_a_state_of_a_later_release_is_unknown():
    record = current_record("g", MEMBER)
    assert isinstance(record.value, CurrentValue)
    for state in (3, 127, -1):
        record.value.state = state
        assert stored(record)["g"].members["m"].state is MemberState.UNKNOWN


def test_what_expressions_stand_for_goes_with_the_group():
    resolved = regex_record("g", "a.*", Resolved(frozenset({"ab", "aa"}), 7, 8))
    assert resolved.value == RegexValue(["aa", "ab"], 7, 8)
    group = stored(*RECORDS, resolved)["g"]
    assert group.resolved == {"a.*": Resolved(frozenset({"aa", "ab"}), 7, 8)}
    assert not stored(*RECORDS, resolved, *regex_tombstones("g", ["a.*"]))["g"].resolved
    ends = group_tombstones("g", group.members, group.resolved)
    assert [record.key.SCHEMA.key for record in ends] == [8, 7, 6, 5, 16, 4, 3], "the order is that of Apache Kafka"
    assert all(record in ends for record in member_tombstones("g", "m"))
    assert stored(*RECORDS, resolved, *ends) == {}
    assert stored(*regex_tombstones("g", ["a.*"])) == {}
    assert stored(CoordinatorRecord(PartitionsKey("g"), PartitionsValue())) == {}
