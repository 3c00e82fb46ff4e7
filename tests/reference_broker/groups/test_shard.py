"""A shard writes what must outlive it, reads it back, forgets what is deleted.

Method: a coordinator over a log in memory; another one reads the log.
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.classic.group import GroupState
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_subscription import ConsumerProtocolSubscription
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.group_bench import GroupBench, code_of, only

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
    bench.timers.fire(600_000)


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
