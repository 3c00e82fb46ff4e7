"""The records of a group restore it, and tombstones remove members and groups in Kafka's order.

Method: replay encoded records; also records as older releases and damaged groups have them.
"""

from __future__ import annotations

from typing import Any

from kafkawire.reference_broker.coordinators.records import decode, encode
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.reference_broker.groups.streams import records as types
from kafkawire.reference_broker.groups.streams.group import StreamsGroup, StreamsMember, StreamsMemberState
from kafkawire.reference_broker.groups.streams.records import STREAMS_GROUP_RECORD_TYPES, replay
from tests.reference_broker.groups.streams.streams_bench import WORD_COUNT, tasks

MEMBER = StreamsMember(
    "m",
    None,
    "rack",
    "client",
    "/host",
    1_000,
    3,
    "p",
    ("host", 80),
    {"zone": "a", "area": "b"},
    7,
    6,
    StreamsMemberState.UNREVOKED_TASKS,
    tasks({"0": (0, 2)}, {"1": (1,)}, {"1": (2,)}),
    tasks({"0": (1,), "1": (0,)}, {"1": (3,)}, {"1": (4,)}),
    {("0", 0): 5, ("0", 2): 7, ("0", 1): 4, ("1", 0): 3},
)


def stored(record: CoordinatorRecord) -> CoordinatorRecord:
    """Return a record after a round trip through the log."""
    found = decode(STREAMS_GROUP_RECORD_TYPES, *encode(record))
    assert found is not None
    return found


def group() -> tuple[dict[str, StreamsGroup], StreamsGroup]:
    """Return a group with one member, and the groups that contain it."""
    groups: dict[str, StreamsGroup] = {}
    for record in (
        types.member_record("g", MEMBER),
        types.topology_record("g", WORD_COUNT),
        types.group_value_record("g", 9, 77, 0, {"num.standby.replicas": "2"}),
        types.target_record("g", "m", tasks({"1": (1, 0)}, {"0": (1,)}, {"0": (2,)})),
        types.epoch_record("g", 8, 123),
        types.current_record("g", MEMBER),
    ):
        assert replay(groups, stored(record)) == "g"
    return groups, groups["g"]


def test_records_hold_everything() -> None:
    _, found = group()
    assert found.members == {"m": MEMBER}
    assert found.target == {"m": tasks({"1": (0, 1)}, {"0": (1,)}, {"0": (2,)})}
    assert (found.topology, found.epoch, found.metadata_hash) == (WORD_COUNT, 9, 77)
    assert (found.validated_topology_epoch, found.assignment_configs) == (0, {"num.standby.replicas": "2"})
    assert (found.assignment_epoch, found.assigned_ms) == (8, 123)
    assert found.owners.active == dict.fromkeys((("0", 0), ("0", 2), ("0", 1), ("1", 0)), "p")
    assert found.owners.standby == {("1", 1): {"p"}, ("1", 3): {"p"}}
    assert found.owners.warmup == {("1", 2): {"p"}, ("1", 4): {"p"}}


def test_member_is_removed() -> None:
    groups, found = group()
    found.shutdown_member_id = "m"
    current, *others = types.member_tombstones("g", "m")
    replay(groups, stored(current))
    assert (found.members["m"].epoch, any(found.members["m"].assigned), found.owners) == (-1, False, ({}, {}, {}))
    for record in others:
        replay(groups, stored(record))
    assert (found.members, found.target, found.shutdown_member_id) == ({}, {}, None)


def test_group_is_removed() -> None:
    groups, found = group()
    records = types.group_tombstones("g", ["m"])
    for record in records:
        replay(groups, stored(record))
    assert groups == {}
    assert (found.assignment_epoch, found.assigned_ms, found.members) == (-1, 0, {})
    assert [type(record.key).__name__.removeprefix("StreamsGroup").removesuffix("Key") for record in records] == [
        "CurrentMemberAssignment",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "MemberMetadata",
        "Metadata",
        "Topology",
    ]


def test_topology_is_removed() -> None:
    groups, found = group()
    replay(groups, CoordinatorRecord(types.TopologyKey("g"), None))
    assert found.topology is None


def test_tombstones_of_unknown_groups_and_members_count_for_nothing() -> None:
    groups: dict[str, StreamsGroup] = {}
    for record in types.group_tombstones("g", ["m"]):
        replay(groups, record)
    assert groups == {}
    groups, found = group()
    before = dict(found.members)
    for record in types.member_tombstones("g", "x"):
        replay(groups, record)
    assert found.members == before


def test_older_records_have_no_epochs_of_tasks() -> None:
    groups: dict[str, StreamsGroup] = {}
    Ids: Any = types.CurrentValue.TaskIds
    for number, epochs in enumerate(([], None, [4])):
        value = types.CurrentValue(7, 6, 99, [Ids("0", [0, 1], epochs)])
        replay(groups, stored(CoordinatorRecord(types.CurrentKey("g", f"{number}"), value)))
        member = groups["g"].members[f"{number}"]
        assert member.since == {("0", 0): 7, ("0", 1): 7}
        assert member.state is StreamsMemberState.UNKNOWN
