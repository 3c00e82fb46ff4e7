"""Offsets and groups are written as Kafka writes them, and read back.

Method: compare bytes with those that Apache Kafka 4.3 writes.
"""

from __future__ import annotations

import struct

import pytest

from kafkawire.reference_broker.coordinators.records import decode, encode
from kafkawire.reference_broker.groups.classic.group import ClassicGroup, GroupState, Member
from kafkawire.reference_broker.groups.records import (
    RECORD_TYPES,
    Committed,
    group_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
    stored_group,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)

TOPIC_ID = bytes(range(16))
ENTRY = Committed(7, 3, "meta", 1000, TOPIC_ID)
OFFSET_KEY = b"\x00\x01" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x02"


def test_bytes_of_an_offset():
    key, value = encode(offset_record("g", "t", 2, ENTRY))
    assert key == OFFSET_KEY
    tagged = b"\x01" + b"\x00\x10" + TOPIC_ID
    assert value == b"\x00\x04" + struct.pack(">qi", 7, 3) + b"\x05meta" + struct.pack(">q", 1000) + tagged


def test_bytes_of_an_offset_with_an_expiry():
    _, value = encode(offset_record("g", "t", 2, ENTRY._replace(expire_timestamp=2000)))
    assert value == b"\x00\x01" + struct.pack(">q", 7) + b"\x00\x04meta" + struct.pack(">qq", 1000, 2000)


def test_tombstones():
    assert encode(offset_tombstone("g", "t", 2)) == (OFFSET_KEY, None)
    assert encode(group_tombstone("g")) == (b"\x00\x02\x00\x01g", None)


def read_back(record):
    key, value = encode(record)
    again = decode(RECORD_TYPES, key, value)
    assert again is not None
    assert isinstance(again.key, GroupMetadataKey)
    assert isinstance(again.value, GroupMetadataValue)
    return stored_group(again.key.group, again.value)


def stable_group():
    group = ClassicGroup("g", GroupState.STABLE, 5, "consumer", "range", state_changed_ms=77)
    group.add(Member("m1", None, "c", "/h", 10, 20, (("range", b"sub"), ("other", b"x")), b"assigned"))
    group.add(Member("m2", "i", "c", "/h", 11, 21, (("range", b"sub2"),), b"assigned2"))
    return group


def test_groups_come_back():
    record = group_record(stable_group())
    assert record.is_held
    assert record.value_version == 3, "Apache Kafka 4.3 writes no other version"
    group = read_back(record)
    assert (group.state, group.generation_id, group.protocol_type) == (GroupState.STABLE, 5, "consumer")
    assert (group.protocol_name, group.leader_id, group.state_changed_ms) == ("range", "m1", 77)
    first, second = group.members.values()
    assert (first.member_id, first.session_timeout_ms, first.rebalance_timeout_ms) == ("m1", 10, 20)
    assert (first.protocols, first.assignment) == ((("range", b"sub"),), b"assigned")
    assert (second.instance_id, group.static_members) == ("i", {"i": "m2"})


def test_given_assignments_are_written_instead():
    group = read_back(group_record(stable_group(), {"m2": b"new"}))
    assert [member.assignment for member in group.members.values()] == [b"", b"new"]


def test_empty_group_comes_back():
    group = read_back(group_record(ClassicGroup("g", generation_id=6, protocol_type="consumer")))
    assert (group.state, group.generation_id, group.protocol_name, group.leader_id) == (GroupState.EMPTY, 6, None, None)


def test_members_of_old_records_take_their_session_timeout_to_join():
    record = group_record(stable_group())
    assert isinstance(record.value, GroupMetadataValue)
    for member in record.value.members:
        member.rebalance_timeout = -1
    assert [member.rebalance_timeout_ms for member in read_back(record).members.values()] == [10, 11]


@pytest.mark.parametrize(("rebalance_timeout_ms", "expected_ms"), [(-1, 10), (0, 0), (1, 1)])
def test_rebalance_timeout_of_the_first_versions_is_the_session_timeout(rebalance_timeout_ms, expected_ms):
    group = ClassicGroup("g", GroupState.STABLE, 5, "consumer", "range", state_changed_ms=77)
    group.add(Member("m1", None, "c", "/h", 10, rebalance_timeout_ms, (("range", b"sub"),), b"assigned"))
    assert read_back(group_record(group)).members["m1"].rebalance_timeout_ms == expected_ms
