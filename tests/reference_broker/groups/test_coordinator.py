"""The coordinator finds the shard for a group, or answers that there is none yet; every request is answered once.

Method: use a coordinator with in-memory logs, or without any log.
"""

from __future__ import annotations

import gc

import pytest

from kafkawire.reference_broker.coordinators.placement import partition_of
from kafkawire.reference_broker.groups.requests import PROTOCOLS_MAX, Join
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.coordinators.counting_shard import MemoryLog
from tests.reference_broker.groups.group_bench import GroupBench, only

pytestmark = pytest.mark.usefixtures("frozen_heap")


def test_nothing_is_coordinated_before_the_topic_exists():
    bench = GroupBench(logs=[])
    refused = only(bench.join("m"))
    assert (refused.error_code, refused.member_id) == (ErrorCode.NOT_COORDINATOR, "m")
    assert only(bench.sync("m", 1)).error_code == ErrorCode.NOT_COORDINATOR
    assert bench.heartbeat("m", 1) == ErrorCode.NOT_COORDINATOR
    assert bench.commit() == [ErrorCode.NOT_COORDINATOR]
    bench.logs = [MemoryLog()]
    assert bench.heartbeat("m", 1) == ErrorCode.NOT_COORDINATOR, "this broker has not been elected"
    bench.elect()
    assert only(bench.join()).generation_id == 1


def test_groups_are_spread_over_partitions():
    logs = [MemoryLog() for _ in range(3)]
    bench = GroupBench(logs=logs)
    for group_id in ("a", "b", "c", "d"):
        bench.commit(group_id=group_id)
    for number, log in enumerate(logs):
        assert log.next_offset == sum(partition_of(group_id, 3) == number for group_id in "abcd")
    assert {group.group_id for group in bench.groups.classic_groups()} == set("abcd")
    bench.groups.unload()
    assert list(bench.groups.classic_groups()) == []


def test_all_requests_of_a_group_go_to_its_partition():
    logs = [MemoryLog() for _ in range(50)]
    bench = GroupBench(logs=logs)
    member_id = only(bench.join(instance="i")).member_id
    of_group = partition_of("g", len(logs))
    assert of_group not in {partition_of(other, len(logs)) for other in (member_id, "i", "c", "/h", "")}
    assert only(bench.sync(member_id, 1, {member_id: b"all"}, instance_id="i")).assignment == b"all"
    assert bench.heartbeat(member_id, 1, instance="i") is ErrorCode.NONE
    assert bench.commit(5, 1, member_id, "i") == [ErrorCode.NONE]
    assert bench.commit_in_transaction(1, member_id, "i") == [ErrorCode.NONE]
    assert bench.leave(member_id, instance="i") is ErrorCode.NONE
    assert [number for number, log in enumerate(logs) if log.next_offset] == [of_group]


def test_heartbeats_are_answered_while_loading():
    log = GroupBench()
    log.commit()
    bench = GroupBench(log.log)
    assert bench.groups.is_loading
    assert bench.heartbeat("m", 1) == ErrorCode.NONE
    assert only(bench.join()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert only(bench.sync("m", 1)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    while bench.groups.is_loading:
        bench.timers.fire(0)
    assert bench.heartbeat("m", 1) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"member_id": "unknown"},
        {"session_timeout_ms": 1},
        {"group_id": ""},
        {"protocols": ()},
        {"protocols": tuple((f"p{number}", b"") for number in range(PROTOCOLS_MAX + 1))},
    ],
)
def test_no_join_outlives_its_answer(fields):
    bench = GroupBench()
    gc.collect()
    others = [each for each in gc.get_objects() if type(each) is Join]
    gc.disable()
    try:
        assert bench.join(**fields), "the request is answered"
        assert not [each for each in gc.get_objects() if type(each) is Join and id(each) not in map(id, others)]
    finally:
        gc.enable()


def test_empty_group_ids():
    bench = GroupBench()
    answers = []
    bench.groups.leave("", [("m", None)], answers.append, 0)
    bench.groups.delete_offsets("", [], answers.append, 0)
    bench.groups.heartbeat("", 1, "m", None, answers.append, 0)
    codes = [answer.code if isinstance(answer, BrokerError) else answer for answer in answers]
    assert codes == [ErrorCode.INVALID_GROUP_ID] * 3
    assert only(bench.join(group_id="")).error_code == ErrorCode.INVALID_GROUP_ID
    assert only(bench.sync("m", 1, group_id="")).error_code == ErrorCode.INVALID_GROUP_ID
    assert bench.commit_in_transaction(-1, "", group_id="") == [ErrorCode.INVALID_GROUP_ID]
    assert bench.commit(group_id="") == [ErrorCode.NONE], "offsets without a group id are allowed"
    assert bench.delete("") == [ErrorCode.NONE]


def test_fetched_offsets_are_a_copy():
    bench = GroupBench()
    bench.commit(1)
    answers = []
    bench.groups.fetch("g", answers.append, 0)
    bench.commit(2)
    assert [entry.offset for entry in answers[0].offsets.values()] == [1]


def test_groups_are_described():
    bench, answers = GroupBench(), []
    bench.commit()
    bench.groups.describe("g", answers.append, 0)
    bench.groups.describe("none", answers.append, 0)
    assert answers[0] is bench.group
    assert (answers[1].code, answers[1].detail) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found.")
