"""Share groups keep their ids and records: other requests for them are refused as in Apache Kafka.

Method: let a coordinator read an in-memory log with the records that Apache Kafka writes for such groups.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.coordinators.records import encode
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.reference_broker.groups import unserved as types
from kafkawire.reference_broker.groups.records import Committed
from kafkawire.reference_broker.groups.requests import Commit, GroupLimits
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.coordinators.counting_shard import MemoryLog
from tests.reference_broker.groups.consumer_bench import ConsumerBench
from tests.reference_broker.groups.group_bench import code_of, only

ENTRY = Committed(1, -1, "", 0, ZERO_UUID)

#: The records that Apache Kafka writes for a group with the member `m`.
SHARE = [
    CoordinatorRecord(types.ShareGroupMemberMetadataKey("g", "m"), types.ShareGroupMemberMetadataValue()),
    CoordinatorRecord(types.ShareGroupMetadataKey("g"), types.ShareGroupMetadataValue(2)),
    CoordinatorRecord(
        types.ShareGroupTargetAssignmentMemberKey("g", "m"), types.ShareGroupTargetAssignmentMemberValue()
    ),
    CoordinatorRecord(
        types.ShareGroupTargetAssignmentMetadataKey("g"), types.ShareGroupTargetAssignmentMetadataValue(2)
    ),
    CoordinatorRecord(
        types.ShareGroupCurrentMemberAssignmentKey("g", "m"), types.ShareGroupCurrentMemberAssignmentValue(2)
    ),
    CoordinatorRecord(
        types.ShareGroupStatePartitionMetadataKey("g"), types.ShareGroupStatePartitionMetadataValue([], [], [])
    ),
]


def bench_of(records=SHARE):
    log = MemoryLog()
    log.append([encode(record) for record in records], 0, lambda _: None)
    return ConsumerBench(log).loaded()


SESSION_MS = GroupLimits.of(read_options({})).group_consumer_session_timeout_ms


def without_members():
    gone = [CoordinatorRecord(record.key, None) for record in SHARE if hasattr(record.key, "member_id")]
    return [*SHARE, *gone]


def listed(bench):
    return [(group.group_id, group.state) for group in bench.groups.unserved_groups()]


def asked(bench):
    """Return the answers to all requests for the group."""
    answers = []
    bench.groups.leave("g", [("m", None)], answers.append, 0)
    for epoch in (0, 1, -1):
        answers.append(bench.beat("m", epoch))
    bench.groups.delete_offsets("g", [("t", 0)], lambda outcome: answers.append(code_of(outcome)), 0)
    for ask in (bench.groups.describe, bench.groups.describe_consumer):
        ask("g", lambda outcome: answers.append((outcome.code, outcome.detail)), 0)
    return [
        only(bench.sync("m", 1)).error_code,
        bench.heartbeat("m", 1),
        *answers,
        *bench.delete(),
        only(bench.join("m")).error_code,
        only(bench.join()).error_code,
    ]


def test_a_group_with_members_is_of_another_type():
    bench = bench_of()
    assert listed(bench) == [("g", "Stable")]
    assert asked(bench) == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        [ErrorCode.UNKNOWN_MEMBER_ID],
        *[ErrorCode.GROUP_ID_NOT_FOUND] * 4,
        (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a classic group."),
        (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a consumer group."),
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ]
    assert (list(bench.groups.classic_groups()), list(bench.groups.consumer_groups())) == ([], [])
    assert listed(bench.loaded()) == listed(bench)


def test_members_that_nobody_hears_are_gone_when_their_sessions_end():
    bench = bench_of()
    bench.timers.fire(SESSION_MS - 1)
    assert bench.delete() == [ErrorCode.NON_EMPTY_GROUP]
    bench.timers.fire(SESSION_MS)
    assert [state for _, state in listed(bench)] == ["Empty"]
    assert listed(bench.loaded()) != listed(bench), "their records stay for the next coordinator"
    assert bench.delete() == [ErrorCode.NONE]
    assert (listed(bench), listed(bench.loaded())) == ([], [])


def test_an_empty_group_is_deleted_with_all_its_records():
    bench = bench_of(without_members())
    assert [state for _, state in listed(bench)] == ["Empty"]
    assert bench.beat() == ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.delete() == [ErrorCode.NONE]
    for known in (bench, bench.loaded()):
        assert (listed(known), known.groups.offsets("g")) == ([], {})
    last = {key: value for batch in bench.log.batches for key, value in batch.records}
    assert set(last.values()) == {None}
    assert bench.beat().error_code == ErrorCode.NONE, "the id is free"


@pytest.mark.parametrize(("epoch", "member_id"), [(-1, ""), (2, "m")])
def test_offsets_are_refused_but_read_as_empty(epoch, member_id):
    codes, offsets = [], []
    bench = bench_of()
    commit = Commit("g", epoch, member_id, None)
    bench.groups.commit(commit, {("t", 0): ENTRY}, lambda outcome: codes.append(code_of(outcome)), 0)
    codes += bench.commit_in_transaction(epoch, member_id)
    assert codes == [ErrorCode.GROUP_ID_NOT_FOUND] * 2
    bench.groups.fetch("g", offsets.append, 0, "m", 7)
    assert only(offsets).offsets == {}


def test_an_empty_group_does_not_become_a_classic_one():
    assert only(bench_of(without_members()).join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_record_of_the_group_itself_frees_its_id():
    bench = bench_of([*SHARE, CoordinatorRecord(types.ShareGroupMetadataKey("g"), None)])
    assert listed(bench) == []
    assert only(bench.join()).generation_id == 1


def test_every_type_of_record_of_these_groups_is_known():
    names = {key.__name__.removesuffix("Key") for key, _ in types.UNSERVED_RECORD_TYPES.values()}
    assert len(names) == 6
    assert all(name.startswith("ShareGroup") for name in names)
