"""A shard writes what must outlive it, reads it back, forgets what is deleted or has expired, a step at a time.

Method: a coordinator over a log in memory; another one reads the log.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups import shard
from kafkawire.reference_broker.groups.classic.group import GroupState
from kafkawire.reference_broker.groups.records import Committed
from kafkawire.reference_broker.groups.requests import Commit, TransactionalCommit
from kafkawire.reference_broker.log.producers import Marker
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_subscription import ConsumerProtocolSubscription
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.group_bench import TOPIC_ID, GroupBench, code_of, only

CHECK_MS = 600_000
RETENTION_MS = 7 * 24 * 3_600_000
PARTITION = ("t", 0)


def groups_of(bench):
    return {group.group_id: group.state for group in bench.groups.classic_groups()}


def test_offsets_and_groups_come_back():
    bench = GroupBench()
    bench.commit(3, expires=10**9)
    bench.commit(5, group_id="h")
    again = bench.loaded()
    assert groups_of(again) == {"g": GroupState.EMPTY, "h": GroupState.EMPTY}
    assert again.groups.offsets("h") == bench.groups.offsets("h")
    assert again.groups.offsets("g")[PARTITION].expire_timestamp == 10**9
    assert again.groups.offsets("h")[PARTITION].offset == 5


def test_deleted_group_and_its_offsets_stay_away():
    bench = GroupBench()
    bench.commit()
    assert bench.delete() == [ErrorCode.NONE]
    for known in (bench, bench.loaded()):
        assert (groups_of(known), known.groups.offsets("g")) == ({}, {})


def test_id_handed_out_goes_with_the_group():
    bench = GroupBench()
    bench.commit()
    told = only(bench.join(needs_id=True)).member_id
    bench.delete()
    assert only(bench.join(told)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    bench.timers.fire(CHECK_MS)


def test_offsets_of_an_empty_group_expire_with_the_group():
    bench = GroupBench()
    bench.commit(now=0)
    bench.commit(now=RETENTION_MS - CHECK_MS, group_id="later")
    for now in range(CHECK_MS, RETENTION_MS, CHECK_MS):
        bench.timers.fire(now)
    assert set(groups_of(bench)) == {"g", "later"}
    bench.timers.fire(RETENTION_MS)
    for known in (bench, bench.loaded()):
        assert set(groups_of(known)) == {"later"}
        assert not known.groups.offsets("g")


def test_empty_group_without_offsets_goes_at_the_next_check():
    bench = GroupBench()
    bench.leave(only(bench.join()).member_id)
    assert groups_of(bench) == {"g": GroupState.EMPTY}
    bench.timers.fire(CHECK_MS)
    assert (groups_of(bench), groups_of(bench.loaded())) == ({}, {})


def test_group_that_somebody_is_about_to_join_stays():
    bench = GroupBench()
    bench.leave(only(bench.join()).member_id)
    told = only(bench.join(needs_id=True, now=CHECK_MS - 1)).member_id
    bench.timers.fire(CHECK_MS)
    assert only(bench.join(told, now=CHECK_MS)).generation_id == 3


def test_group_with_nothing_but_a_pending_offset_stays():
    bench = GroupBench()
    bench.sync(only(bench.join()).member_id, 1, {})
    bench.leave(next(iter(bench.group.members)))
    told = []
    entry = Committed(7, 3, "meta", 0, TOPIC_ID, -1)
    transaction = TransactionalCommit("x", 9, 0, 2)
    bench.groups.commit_in_transaction(Commit("g", -1, "", None), transaction, {PARTITION: entry}, told.append, 0)
    bench.timers.fire(CHECK_MS)
    assert groups_of(bench) == {"g": GroupState.EMPTY}
    bench.groups.complete_transaction(0, Marker(9, 0, True, 0), 2, told.append, CHECK_MS)
    assert told == [None, None]
    assert bench.groups.offsets("g")[PARTITION].offset == 7
    assert groups_of(bench.loaded()) == {"g": GroupState.EMPTY}


def test_checks_are_sliced(monkeypatch):
    monkeypatch.setattr(shard, "_STEP_OFFSETS", 4)
    bench = GroupBench(offsets_retention_ms=1)
    for number in range(10):
        bench.commit(group_id=f"g{number}")
    before = len(bench.log.batches)
    bench.timers.fire(CHECK_MS)
    while groups_of(bench):
        bench.timers.fire(CHECK_MS)
    sizes = [len(batch.records) for batch in bench.log.batches[before:]]
    assert sizes == [4] * 5, "of two groups each, which are seen with an offset each"
    bench.timers.fire(CHECK_MS)
    bench.commit(now=CHECK_MS)
    bench.timers.fire(2 * CHECK_MS)
    assert not groups_of(bench)


@pytest.mark.parametrize("step", [2, 1_000])
def test_offsets_of_a_deleted_topic_go(monkeypatch, step):
    monkeypatch.setattr(shard, "_STEP_OFFSETS", step)
    bench = GroupBench()
    for number in range(5):
        bench.commit(group_id=f"g{number}")
        bench.commit(group_id=f"g{number}", topic="u")
    before = len(bench.log.batches)
    bench.groups.forget_topic("t", TOPIC_ID, 0)
    bench.timers.fire(0)
    bench.timers.fire(0)
    assert [len(batch.records) for batch in bench.log.batches[before:]] == ([2, 2, 1] if step == 2 else [5])
    for known in (bench, bench.loaded()):
        assert {partition for n in range(5) for partition in known.groups.offsets(f"g{n}")} == {("u", 0)}


def test_offsets_of_a_later_topic_of_the_name_stay():
    bench = GroupBench()
    bench.commit()
    bench.groups.forget_topic("t", b"x" * 16, 0)
    assert set(bench.groups.offsets("g")) == {PARTITION}


def delete_offsets(bench, *partitions, group_id="g"):
    answers = []
    bench.groups.delete_offsets(group_id, partitions, lambda outcome: answers.append(code_of(outcome)), 0)
    return only(answers)


def subscription(*topics):
    encoded = program(ConsumerProtocolSubscription, 0).encode(ConsumerProtocolSubscription(list(topics)))
    return (("range", b"\x00\x00" + encoded),)


def test_offsets_are_deleted_unless_they_are_read():
    bench = GroupBench()
    bench.commit()
    bench.commit(topic="u")
    assert delete_offsets(bench, group_id="none") == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete_offsets(bench, group_id="") == ErrorCode.INVALID_GROUP_ID
    assert delete_offsets(bench, PARTITION, ("t", 9)) == [ErrorCode.NONE] * 2
    assert set(bench.loaded().groups.offsets("g")) == {("u", 0)}


def test_offsets_of_subscribed_topics_are_not_deleted():
    bench = GroupBench()
    bench.commit()
    bench.commit(topic="u")
    bench.join(protocols=subscription("t"))
    codes = delete_offsets(bench, PARTITION, ("u", 0))
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert set(bench.groups.offsets("g")) == {PARTITION}


def test_offsets_of_groups_whose_subscriptions_are_unknown_are_not_deleted():
    bench = GroupBench()
    bench.commit()
    bench.join(protocols=(("range", b"\x00"),))
    assert delete_offsets(bench, PARTITION) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    other = GroupBench()
    other.commit()
    other.join(protocol_type="connect")
    assert delete_offsets(other, PARTITION) == ErrorCode.NON_EMPTY_GROUP
