"""A shard writes the state that must outlive it, reads that state back, and forgets deleted state.

Method: use a coordinator with an in-memory log; a second one reads the log.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.classic.group import GroupState
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_subscription import ConsumerProtocolSubscription
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.consumer_bench import ConsumerBench
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


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, None),
        ("m", 2, None),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 0, ErrorCode.UNKNOWN_MEMBER_ID),
        ("n", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", 0, ErrorCode.STALE_MEMBER_EPOCH),
    ],
)
def test_offsets_are_fetched_by_members_and_by_those_who_say_nothing_of_themselves(member_id, epoch, code):
    classic, consumers = GroupBench(), ConsumerBench()
    classic.commit(3)
    assert consumers.beat("m").member_epoch == 2
    assert consumers.commit(3, 2, "m") == [ErrorCode.NONE]
    for bench in (classic, consumers):
        answers = []
        bench.groups.fetch("g", answers.append, 0, member_id, epoch)
        if bench is consumers and code is not None:
            assert code_of(only(answers)) == code
        else:
            assert only(answers).offsets[PARTITION].offset == 3


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
