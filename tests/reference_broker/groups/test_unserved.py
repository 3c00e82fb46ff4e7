"""Streams groups keep their ids and records: other requests for them are refused as in Apache Kafka.

Method: let a coordinator read an in-memory log with the records that Apache Kafka writes for such groups.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.coordinators.records import encode
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.reference_broker.groups import unserved as types
from kafkawire.reference_broker.groups.classic.group import GroupState
from kafkawire.reference_broker.groups.records import Committed, offset_record
from kafkawire.reference_broker.groups.requests import Commit, GroupLimits
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.coordinators.counting_shard import MemoryLog
from tests.reference_broker.groups.consumer_bench import ConsumerBench
from tests.reference_broker.groups.group_bench import code_of, only

ENTRY = Committed(1, -1, "", 0, ZERO_UUID)

#: The records that Apache Kafka writes for a group with the member `m`.
TOPOLOGY = types.StreamsGroupTopologyValue(
    1, [types.StreamsGroupTopologyValue.Subtopology("0", ["t"], repartition_source_topics=[])]
)
STREAMS = [
    CoordinatorRecord(types.StreamsGroupMemberMetadataKey("g", "m"), types.StreamsGroupMemberMetadataValue()),
    CoordinatorRecord(types.StreamsGroupTopologyKey("g"), TOPOLOGY),
    CoordinatorRecord(types.StreamsGroupMetadataKey("g"), types.StreamsGroupMetadataValue(3)),
    CoordinatorRecord(
        types.StreamsGroupTargetAssignmentMemberKey("g", "m"), types.StreamsGroupTargetAssignmentMemberValue()
    ),
    CoordinatorRecord(
        types.StreamsGroupTargetAssignmentMetadataKey("g"), types.StreamsGroupTargetAssignmentMetadataValue(2)
    ),
    CoordinatorRecord(
        types.StreamsGroupCurrentMemberAssignmentKey("g", "m"), types.StreamsGroupCurrentMemberAssignmentValue(2)
    ),
    offset_record("g", "t", 0, ENTRY),
]


def bench_of(records=STREAMS):
    log = MemoryLog()
    log.append([encode(record) for record in records], 0, lambda _: None)
    return ConsumerBench(log).loaded()


SESSION_MS = GroupLimits.of(read_options({})).group_consumer_session_timeout_ms


def without_members():
    gone = [CoordinatorRecord(record.key, None) for record in STREAMS if hasattr(record.key, "member_id")]
    return [*STREAMS, *gone]


def listed(bench):
    return [(group.group_id, group.kind, group.state) for group in bench.groups.unserved_groups()]


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
    assert listed(bench) == [("g", "streams", "Assigning")]
    assert asked(bench) == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        [ErrorCode.UNKNOWN_MEMBER_ID],
        *[ErrorCode.GROUP_ID_NOT_FOUND] * 3,
        [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC],
        (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a classic group."),
        (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a consumer group."),
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ]
    assert (list(bench.groups.classic_groups()), list(bench.groups.consumer_groups())) == ([], [])
    assert listed(bench.loaded()) == listed(bench)


def test_a_group_is_stable_once_its_epoch_is_assigned():
    key, value = types.StreamsGroupTargetAssignmentMetadataKey("g"), types.StreamsGroupTargetAssignmentMetadataValue(3)
    assert listed(bench_of([*STREAMS, CoordinatorRecord(key, value)])) == [("g", "streams", "Stable")]


def test_members_that_nobody_hears_are_gone_when_their_sessions_end():
    bench = bench_of()
    bench.timers.fire(SESSION_MS - 1)
    assert bench.delete() == [ErrorCode.NON_EMPTY_GROUP]
    bench.timers.fire(SESSION_MS)
    assert [state for _, _, state in listed(bench)] == ["Empty"]
    assert listed(bench.loaded()) != listed(bench), "their records stay for the next coordinator"
    bench.timers.fire(10**12)
    assert ("t", 0) in bench.groups.offsets("g"), "no offset expires"
    assert bench.delete() == [ErrorCode.NONE]
    assert (listed(bench), listed(bench.loaded())) == ([], [])


def commit_codes(bench, *commits):
    codes = []
    for epoch, member_id, knows_epochs in commits:
        commit = Commit("g", epoch, member_id, None, knows_epochs)
        bench.groups.commit(commit, {("t", 0): ENTRY}, lambda outcome: codes.append(code_of(outcome)), 0)
    return codes


COMMITS = [
    (-1, "", True),
    (2, "m", True),
    (0, "", True),
    (2, "m", False),
    (1, "m", True),
    (-1, "m", True),
    (2, "n", True),
]


def test_offsets_are_committed():
    bench = bench_of()
    assert commit_codes(bench, *COMMITS) == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert commit_codes(bench_of(without_members()), *COMMITS[:3]) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]


@pytest.mark.parametrize(
    ("commit", "code"),
    [
        ((-1, "", None), ErrorCode.NONE),
        ((2, "m", None), ErrorCode.NONE),
        ((1, "m", None), ErrorCode.ILLEGAL_GENERATION),
        ((-1, "m", None), ErrorCode.ILLEGAL_GENERATION),
        ((2, "n", None), ErrorCode.UNKNOWN_MEMBER_ID),
        ((0, "", None), ErrorCode.UNKNOWN_MEMBER_ID),
        ((-1, "", "i"), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_offsets_are_committed_with_transactions(commit, code):
    assert bench_of().commit_in_transaction(*commit) == [code]


def test_offsets_are_fetched():
    def fetched(bench, *member):
        answers = []
        bench.groups.fetch("g", answers.append, 0, *member)
        answer = only(answers)
        return answer.code if isinstance(answer, BrokerError) else len(answer.offsets)

    bench = bench_of()
    assert [fetched(bench, *member) for member in ((None, -1), ("m", 2), ("m", 3), ("n", 2), ("", -1), (None, 0))] == [
        1,
        1,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]


def test_an_empty_group_is_deleted_with_all_its_records():
    bench = bench_of(without_members())
    assert [state for _, _, state in listed(bench)] == ["Empty"]
    assert bench.beat() == ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.delete() == [ErrorCode.NONE]
    for known in (bench, bench.loaded()):
        assert (listed(known), known.groups.offsets("g")) == ([], {})
    last = {key: value for batch in bench.log.batches for key, value in batch.records}
    assert set(last.values()) == {None}
    assert bench.beat().error_code == ErrorCode.NONE, "the id is free"


def test_an_empty_group_becomes_a_classic_one():
    bench = bench_of(without_members())
    assert only(bench.join()).generation_id == 1
    assert (listed(bench), bench.group.state) == ([], GroupState.COMPLETING_REBALANCE)
    assert ("t", 0) in bench.groups.offsets("g")


def test_the_record_of_the_group_itself_frees_its_id():
    bench = bench_of([*STREAMS, CoordinatorRecord(types.StreamsGroupMetadataKey("g"), None)])
    assert listed(bench) == []
    assert only(bench.join()).generation_id == 1


def test_records_are_replayed():
    groups = types.UnservedGroups(Timers(), SESSION_MS)
    for record in STREAMS[:-1]:
        assert groups.replay(record) == "g"
    assert groups["g"].kind is types.GroupType.STREAMS
    groups.replay(CoordinatorRecord(types.StreamsGroupMemberMetadataKey("g", "m"), None))
    assert not groups["g"].members
    groups.replay(CoordinatorRecord(types.StreamsGroupMetadataKey("g"), None))
    groups.replay(CoordinatorRecord(types.StreamsGroupTopologyKey("g"), None))
    assert not groups


def test_every_type_of_record_of_these_groups_is_known():
    names = {key.__name__.removesuffix("Key") for key, _ in types.UNSERVED_RECORD_TYPES.values()}
    assert len(names) == 6
    assert all(name.startswith("StreamsGroup") for name in names)
