"""Members of KIP-848 groups join, share and hand over partitions, leave, and are fenced when they fall silent.

Method: use a coordinator with an in-memory log; a second one reads the log.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkawire.reference_broker.coordinators.records import encode
from kafkawire.reference_broker.groups.consumer.group import ConsumerGroupState, MemberState
from kafkawire.reference_broker.groups.consumer.records import current_record, member_record
from kafkawire.reference_broker.groups.topics import TopicFacts
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.consumer_bench import ConsumerBench, T, numbers
from tests.reference_broker.groups.group_bench import REBALANCE_MS, code_of, only

SESSION_MS = 45_000


def test_member_gets_everything():
    bench = ConsumerBench()
    first = bench.beat()
    assert (first.member_epoch, first.heartbeat_interval_ms, numbers(first)) == (2, 5_000, [0, 1, 2, 3])
    assert bench.consumers.state is ConsumerGroupState.STABLE
    assert bench.beat(first.member_id, 2).assignment is None, "nothing has changed"


def test_partitions_are_handed_over():
    bench = ConsumerBench()
    first = bench.beat().member_id
    second = bench.beat()
    assert (second.member_epoch, numbers(second)) == (3, []), "the partitions are not free yet"
    assert bench.consumers.state is ConsumerGroupState.RECONCILING
    told = bench.beat(first, 2, (0, 1, 2, 3))
    assert (told.member_epoch, len(numbers(told))) == (2, 2)
    assert bench.beat(second.member_id, 3).assignment is None
    moved = bench.beat(first, 2, tuple(numbers(told)))
    assert moved.member_epoch == 3
    given = bench.beat(second.member_id, 3, ())
    assert sorted(numbers(told) + numbers(given)) == [0, 1, 2, 3]
    assert bench.consumers.state is ConsumerGroupState.STABLE
    again = only(list(bench.loaded().groups.consumer_groups()))
    assert (again.members, again.target, again.owners) == (
        bench.consumers.members,
        bench.consumers.target,
        bench.consumers.owners,
    )


def test_lost_response_is_repeated():
    bench = ConsumerBench()
    first = bench.beat().member_id
    bench.topics["t"] = TopicFacts(T, 5)
    assert bench.beat(first, 2).member_epoch == 3
    assert bench.beat(first, 2, (0, 1)).member_epoch == 3, (
        "the request has the previous epoch and some of its partitions"
    )
    assert bench.beat(first, 2, (9,)) == ErrorCode.FENCED_MEMBER_EPOCH
    assert bench.beat(first, 2) == ErrorCode.FENCED_MEMBER_EPOCH
    assert bench.beat(first, 4) == ErrorCode.FENCED_MEMBER_EPOCH
    assert bench.beat(first, 1, (0, 1)) == ErrorCode.FENCED_MEMBER_EPOCH, (
        "the request's epoch is older than the previous one"
    )


@pytest.mark.parametrize(("epoch", "size"), [(1, "smaller"), (3, "greater")])
def test_another_epoch_is_told_beside_the_one_that_is_known(epoch, size):
    bench, texts = ConsumerBench(), []
    member_id = bench.beat().member_id
    assert bench.beat(member_id, epoch, texts=texts) == ErrorCode.FENCED_MEMBER_EPOCH
    assert f"{size} member epoch ({epoch}) than the one known by the group coordinator (2)" in only(texts)


def test_new_partitions_and_subscriptions_raise_the_epoch():
    bench = ConsumerBench()
    first = bench.beat().member_id
    bench.topics["t"] = TopicFacts(T, 5)
    assert numbers(bench.beat(first, 2)) == [0, 1, 2, 3, 4]
    bench.topics["u"] = TopicFacts(b"u" * 16, 1)
    assert bench.beat(first, 3).assignment is None
    both = bench.beat(first, 3, topics=["t", "u"])
    assert (both.member_epoch, numbers(both)) == (4, [0, 1, 2, 3, 4, 0])
    assert bench.beat(first, 4, topics=["u"]).member_epoch == 4, "the member's partitions are revoked first"


def test_what_a_heartbeat_leaves_out_stays_as_it_was():
    said = {"rack_id": "r", "rebalance_timeout_ms": 7, "topics": ["t"], "regex": "u", "assignor": "range"}
    changed = {"rack_id": "s", "rebalance_timeout_ms": 8, "topics": ["u"], "regex": "", "assignor": "uniform"}
    bench = ConsumerBench()
    member_id = bench.beat(instance_id="i", **said).member_id
    for name in (None, *changed):
        if name is not None:
            said[name] = changed[name]
        bench.beat(member_id, bench.consumers.members[member_id].epoch, **({} if name is None else {name: said[name]}))
        for group in (bench.consumers, bench.loaded().consumers):
            member = group.members[member_id]
            assert {key: getattr(member, key) for key in said} == said | {"topics": tuple(said["topics"])}, name
            assert member.instance_id == "i"


def test_member_leaves():
    bench = ConsumerBench()
    first, second = bench.beat().member_id, bench.beat().member_id
    left = bench.beat(first, -1)
    assert (left.member_id, left.member_epoch) == (first, -1)
    assert numbers(bench.beat(second, 3)) == [0, 1, 2, 3]
    assert bench.beat(first, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    bench.beat(second, -1)
    assert bench.consumers.state is ConsumerGroupState.EMPTY
    assert bench.delete() == [ErrorCode.NONE]
    assert not list(bench.loaded().groups.consumer_groups())


def test_silent_member_is_fenced():
    bench = ConsumerBench()
    first = bench.beat().member_id
    bench.beat(first, 2, now=1_000)
    bench.timers.fire(SESSION_MS + 999)
    assert bench.consumers.members
    bench.timers.fire(SESSION_MS + 1_000)
    assert not bench.consumers.members
    assert bench.beat(first, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    bench.timers.fire(600_000)
    assert not list(bench.groups.consumer_groups()), "an empty group without offsets is removed at the next check"


def test_member_that_does_not_revoke_is_fenced():
    bench = ConsumerBench()
    first = bench.beat().member_id
    second = bench.beat().member_id
    bench.beat(first, 2, (0, 1, 2, 3))
    for now in range(0, REBALANCE_MS, 10_000):
        bench.beat(first, 2, now=now)
        bench.beat(second, 3, now=now)
        bench.timers.fire(now)
    bench.timers.fire(REBALANCE_MS)
    assert set(bench.consumers.members) == {second}


def test_loaded_members_have_a_session_and_time_to_revoke():
    before = ConsumerBench()
    first = before.beat().member_id
    before.beat()
    before.beat(first, 2, (0, 1, 2, 3))
    after = ConsumerBench(before.log)
    while after.groups.is_loading:
        after.timers.fire(0)
    for now in range(0, REBALANCE_MS, 10_000):
        after.beat(first, 2, now=now)
        after.timers.fire(now)
    after.timers.fire(REBALANCE_MS)
    assert not after.consumers.members


def test_static_member_comes_back():
    bench = ConsumerBench()
    first = bench.beat(instance_id="i").member_id
    assert bench.beat(instance_id="i") == ErrorCode.UNRELEASED_INSTANCE_ID
    assert bench.beat(first, -2, instance_id="i").member_epoch == -2
    back = bench.beat(instance_id="i")
    assert back.member_id != first
    assert (back.member_epoch, numbers(back)) == (2, [0, 1, 2, 3]), "nothing has moved"
    assert bench.beat(first, 2, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    assert set(bench.loaded().groups.consumer_groups().__next__().members) == {back.member_id}


def test_static_member_that_comes_back_before_it_got_its_part_gets_it():
    bench = ConsumerBench()
    first = bench.beat().member_id
    second = bench.beat(instance_id="i").member_id
    bench.beat(second, -2, instance_id="i")
    back = bench.beat(instance_id="i")
    assert numbers(back) == []
    kept = bench.beat(first, 2, (0, 1, 2, 3))
    bench.beat(first, kept.member_epoch, tuple(numbers(kept)))
    got = bench.beat(back.member_id, back.member_epoch, instance_id="i")
    assert sorted(numbers(kept) + numbers(got)) == [0, 1, 2, 3]


def test_static_member_that_goes_while_it_revokes_keeps_its_place_for_its_session():
    bench = ConsumerBench()
    first = bench.beat(instance_id="i", rebalance_timeout_ms=1_000).member_id
    second = bench.beat().member_id
    bench.beat(first, 2, (0, 1, 2, 3), instance_id="i")
    bench.beat(first, -2, instance_id="i")
    bench.timers.fire(1_000)
    assert set(bench.consumers.members) == {first, second}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"owned": None}, ErrorCode.INVALID_REQUEST),
        ({"topics": None}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 1}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -2, "member_id": "m"}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 1, "member_id": "m"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"assignor": "odd"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
    ],
)
def test_refused(changes, code):
    assert ConsumerBench().beat(**changes) == code


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"member_id": " ", "group_id": " ", "may_lack_id": False}, "MemberId can't be empty."),
        ({"member_id": " ", "epoch": -1}, "MemberId can't be empty."),
        ({"member_id": "", "group_id": "", "epoch": -2}, "GroupId can't be empty."),
        ({"member_id": "", "epoch": -2}, "InstanceId can't be null."),
        ({"member_id": "", "epoch": -3, "rack_id": "\t"}, "RackId can't be empty."),
        ({"member_id": "", "epoch": -3}, "MemberEpoch is invalid."),
        ({"member_id": "", "epoch": -2, "instance_id": "i"}, "Group g not found."),
        ({"member_id": "\N{NO-BREAK SPACE}", "epoch": 1}, "Consumer group g not found."),
    ],
)
def test_of_several_faults_the_first_is_reported(changes, text):
    told = []
    ConsumerBench().beat(**{"epoch": 0, **changes}, texts=told)
    assert told == [text]


def test_member_that_reads_nothing_does_not_raise_the_epoch():
    bench = ConsumerBench()
    first = bench.beat(topics=[])
    assert (first.member_epoch, numbers(first)) == (1, [])
    assert bench.beat(topics=[]).member_epoch == 1


def test_full_group():
    bench = ConsumerBench(group_consumer_max_size=1)
    bench.beat()
    assert bench.beat() == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_commits_of_members():
    bench = ConsumerBench()
    first = bench.beat().member_id
    assert bench.commit(5, 2, first) == [ErrorCode.NONE]
    assert bench.commit(5, 3, first) == [ErrorCode.STALE_MEMBER_EPOCH]
    assert bench.commit(5, -1, "") == [ErrorCode.UNKNOWN_MEMBER_ID]
    answers = []
    for member_id, epoch in ((None, -1), (first, 2), (first, 3), ("x", -1), (None, 0)):
        bench.groups.fetch("g", lambda outcome: answers.append(code_of(outcome)), 0, member_id, epoch)
    assert [len(answer.offsets) for answer in answers[:2]] == [1, 1]
    assert answers[2:] == [
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(bench.loaded().groups.classic_groups()) == []


def test_kinds_of_groups_replace_each_other_when_empty():
    bench = ConsumerBench()
    bench.commit()
    assert bench.beat().member_epoch == 2
    assert list(bench.groups.classic_groups()) == []
    assert only(bench.join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    bench.beat(only(list(bench.consumers.members)), -1)
    joined = only(bench.join())
    assert joined.generation_id == 1
    bench.sync(joined.member_id, 1, {})
    assert list(bench.groups.consumer_groups()) == []
    assert bench.beat() == ErrorCode.GROUP_ID_NOT_FOUND
    assert [group.group_id for group in bench.loaded().groups.classic_groups()] == ["g"]


def test_unloading_ends_all_timers():
    bench = ConsumerBench()
    bench.beat()
    bench.groups.unload()
    assert bench.timers.next_deadline_ms is None


@pytest.mark.parametrize("comes_back", [False, True])
def test_members_that_go_leave_no_timers(comes_back):
    bench = ConsumerBench()
    first = bench.beat(instance_id="i").member_id
    second = bench.beat().member_id
    bench.beat(first, 2, (0, 1, 2, 3), instance_id="i")  # the member has to revoke some partitions
    if comes_back:
        bench.beat(first, -2, instance_id="i")
        first = bench.beat(instance_id="i").member_id
    for member_id, instance_id in ((first, "i"), (second, None)):
        bench.beat(member_id, -1, instance_id=instance_id)
    assert not bench.consumers.members
    assert bench.timers.next_deadline_ms == ConsumerBench().timers.next_deadline_ms


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"regex": "(a"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"topics": None}, ErrorCode.INVALID_REQUEST),
        ({"may_lack_id": False}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_version_1_is_checked(changes, code):
    assert ConsumerBench().beat("", **changes) == code


def test_no_topics_are_a_subscription_too():
    bench = ConsumerBench()
    assert numbers(bench.beat("m", topics=None, regex="")) == []
    assert numbers(bench.beat("n", topics=[])) == []


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [
        ({"rebalance_timeout_ms": REBALANCE_MS, "topics": ["t"], "owned": {}}, True),
        ({"rebalance_timeout_ms": REBALANCE_MS, "regex": "t", "topics": None, "owned": {}}, True),
        ({"topics": ["t"], "owned": {}}, False),
        ({"rebalance_timeout_ms": REBALANCE_MS, "owned": {}}, False),
        ({"rebalance_timeout_ms": REBALANCE_MS, "topics": ["t"]}, False),
    ],
)
def test_a_full_heartbeat_is_told_the_assignment(changes, is_told):
    bench = ConsumerBench()
    regex = {"topics": None, "regex": "t"} if "regex" in changes else {}
    first = bench.beat(**regex)
    answer = bench.beat(first.member_id, first.member_epoch, **changes)
    assert (answer.assignment is not None) is is_told


def test_a_member_of_an_unknown_state_is_fenced_and_its_partition_of_the_log_is_served():
    bench = ConsumerBench()
    bench.beat("m")
    later = replace(bench.consumers.members["m"], state=99)
    bench.log.append([encode(current_record("g", later))], 0, lambda _: None)
    again = bench.loaded()
    assert again.beat("m", 2) == ErrorCode.FENCED_MEMBER_EPOCH
    assert again.beat("m", 2, owned={}).member_epoch == 2
    assert again.consumers.members["m"].state is MemberState.STABLE


class Unwalked(dict):
    """Members that allow lookups but no iteration: a group may have thousands, each sending frequent heartbeats."""

    def __iter__(self):
        raise AssertionError("the code iterated over all members")

    keys = values = items = __iter__


@pytest.mark.parametrize("regex", ["", "t.*"])
def test_a_heartbeat_that_changes_nothing_does_not_look_at_all_members(regex):
    bench = ConsumerBench(group_consumer_migration_policy="upgrade")
    (classic,) = bench.classic_group((0, 1, 2, 3))
    topics = [] if regex else ["t"]
    bench.beat("m", topics=topics, regex=regex)
    bench.beat("n", topics=topics, regex=regex)
    bench.resolve()
    for _ in range(6):
        bench.join_classic(classic, tuple(bench.consumers.members[classic].assigned.get(T, ())))
        for member_id in ("m", "n"):
            member = bench.consumers.members[member_id]
            bench.beat(member_id, member.epoch, tuple(member.assigned.get(T, ())))
    assert bench.consumers.state is ConsumerGroupState.STABLE
    bench.consumers.members = Unwalked(bench.consumers.members)
    epoch = bench.consumers.epoch
    assert bench.beat("m", epoch).member_epoch == epoch
    assert bench.heartbeat(classic, epoch) is ErrorCode.NONE
    bench.consumers.members = dict(dict.items(bench.consumers.members))
    assert set(bench.consumers.subscriptions) == {(("t",), ""), (tuple(topics), regex)}
    for member_id in ("m", "n"):
        bench.beat(member_id, -1)
    assert set(bench.consumers.subscriptions) == {(("t",), "")}
    assert bench.consumers.classic_count == 1


def test_an_expression_is_checked_after_who_asks():
    bench = ConsumerBench()
    bench.beat("m", topics=None, regex="t")
    assert bench.beat("m", 5, regex="[") is ErrorCode.FENCED_MEMBER_EPOCH
    assert bench.beat("n", 1, regex="[") is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.beat("m", 1, regex="[") is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert bench.beat("m", -1, regex="[").member_epoch == -1
    assert not bench.consumers.members


def test_an_expression_of_a_log_that_is_refused_here_keeps_nobody_from_anything():
    bench = ConsumerBench()
    bench.beat("m")
    other = replace(bench.consumers.members["m"], member_id="other", regex=r"[a-z]+\z", topics=())
    bench.log.append([encode(member_record("g", other))], 0, lambda _: None)
    bench = bench.loaded()
    assert set(bench.consumers.members) == {"m", "other"}
    assert bench.beat("m", 2, regex=None).member_epoch >= 2
    assert bench.beat("n", now=1).member_epoch == 3
    bench.timers.fire(10**6)
    assert not list(bench.groups.consumer_groups())
