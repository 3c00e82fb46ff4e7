"""Records of share groups restore the groups that wrote them.

Method: encode, decode and replay records for every part of a group, and compare.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.records import encode
from kafkawire.reference_broker.groups.share.group import ShareGroup, ShareMember
from kafkawire.reference_broker.groups.share.records import (
    SHARE_GROUP_RECORD_TYPES,
    current_record,
    epoch_record,
    group_tombstones,
    group_value_record,
    member_record,
    member_tombstones,
    replay,
    states_record,
    target_record,
)
from kafkawire.reference_broker.groups.share.state_partitions import StatePartitions, TopicStates
from kafkawire.reference_broker.groups.stored_records import decode_stored

T = b"t" * 16
PARTS = {T: frozenset({0, 2})}

MEMBER = ShareMember("m", "rack", "client", "/host", ("a", "b"), 5, 4, PARTS)
STATES = StatePartitions(
    {T: TopicStates("t", frozenset({1}), 7)}, {T: TopicStates("t", frozenset({0}), 7)}, {b"d" * 16: "d"}
)

RECORDS = [
    group_value_record("g", 6, 77),
    member_record("g", MEMBER),
    epoch_record("g", 5, 1_000),
    target_record("g", "m", PARTS),
    current_record("g", MEMBER),
    states_record("g", STATES),
]

GROUP = ShareGroup("g", 6, 77, {"m": MEMBER}, {"m": PARTS}, 5, 1_000, STATES)


def replayed(*records):
    groups = {}
    for record in records:
        found = decode_stored(*encode(record))
        assert found is not None
        assert replay(groups, found, 7) == "g"
    return groups


def test_a_group_is_restored():
    assert replayed(*RECORDS) == {"g": GROUP}
    assert replayed(*reversed(RECORDS)) == {"g": GROUP}, "compaction may have changed the order"


def test_a_member_is_removed():
    (group,) = replayed(*RECORDS, *member_tombstones("g", "m")).values()
    assert (group.members, group.target, group.epoch) == ({}, {}, 6)


def test_a_group_is_removed():
    assert replayed(*RECORDS, *group_tombstones("g", ["m"])) == {}
    assert replayed(*group_tombstones("g", ["m"])) == {}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record.key).__name__)
def test_the_key_of_every_record_says_its_type(record):
    key, _ = encode(record)
    assert int.from_bytes(key[:2], "big") in SHARE_GROUP_RECORD_TYPES
    assert len(SHARE_GROUP_RECORD_TYPES) == 6
