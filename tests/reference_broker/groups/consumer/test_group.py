"""A group tracks its members, the owner of each partition and its own state, and decides which members may commit.

Method: add members directly.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkawire.reference_broker.groups.consumer.group import (
    ConsumerGroup,
    ConsumerGroupState,
    ConsumerMember,
    MemberState,
    Resolved,
)
from kafkawire.reference_broker.groups.requests import Commit
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

T = b"t" * 16
MEMBER = ConsumerMember(
    "m", "i", epoch=3, topics=("a", "b"), assigned={T: frozenset({1})}, revoking={T: frozenset({2})}
)


@pytest.fixture
def group():
    group = ConsumerGroup("g", epoch=3, assignment_epoch=3)
    group.put(MEMBER)
    group.put(ConsumerMember("n", epoch=3, topics=("c",)))
    return group


def test_owners(group):
    assert group.owners == {(T, 1): "m", (T, 2): "m"}
    group.put(ConsumerMember("n", epoch=3, assigned={T: frozenset({2})}))
    group.put(replace(MEMBER, assigned={T: frozenset({1})}, revoking={}))
    assert group.owners == {(T, 1): "m", (T, 2): "n"}
    group.remove("m")
    group.remove("m")
    assert (group.owners, group.static_members) == ({(T, 2): "n"}, {})


def test_instance_id_that_was_taken_over_stays(group):
    group.put(ConsumerMember("new", "i"))
    group.remove("m")
    assert group.static_members == {"i": "new"}


def test_states(group):
    assert group.state is ConsumerGroupState.STABLE
    assert [name for name in "abcd" if group.is_subscribed_to(name)] == ["a", "b", "c"]
    group.put(replace(MEMBER, regex="d|e"))
    assert [name for name in "abcdef" if group.is_subscribed_to(name)] == ["a", "b", "c"]
    group.resolved["d|e"] = Resolved(frozenset("de"), 1, 0)
    assert [name for name in "abcdef" if group.is_subscribed_to(name)] == ["a", "b", "c", "d", "e"]
    group.put(MEMBER)
    group.put(replace(MEMBER, state=MemberState.UNREVOKED_PARTITIONS))
    assert group.state is ConsumerGroupState.RECONCILING
    group.epoch = 4
    assert group.state is ConsumerGroupState.ASSIGNING
    group.remove("m")
    group.remove("n")
    assert group.state is ConsumerGroupState.EMPTY


@pytest.mark.parametrize(
    ("member_id", "instance_id", "code"),
    [
        ("x", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", "x", ErrorCode.UNKNOWN_MEMBER_ID),
        ("n", "i", ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_unknown_members(group, member_id, instance_id, code):
    assert group.known("m", "i") is group.known("m", None) is MEMBER
    with pytest.raises(BrokerError) as caught:
        group.known(member_id, instance_id)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        ("m", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commits(group, member_id, epoch, code):
    group.check_commit("m", 3)
    with pytest.raises(BrokerError) as caught:
        group.check_commit(member_id, epoch, [(T, 0)])
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        ("m", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", -1, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_fetches(group, member_id, epoch, code):
    group.check_fetch("m", 3)
    for asked in (group, ConsumerGroup("empty")):
        with pytest.raises(BrokerError) as caught:
            asked.check_fetch(member_id, epoch)
        assert caught.value.code == (code if asked is group else ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("member_id", ["", "m"])
def test_a_group_without_members_takes_commits_of_those_that_name_no_epoch(member_id):
    empty = ConsumerGroup("empty")
    empty.check_commit(member_id, -1)
    for epoch in (0, 1):
        with pytest.raises(BrokerError) as caught:
            empty.check_commit(member_id, epoch)
        assert caught.value.code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("epoch", "numbers", "is_accepted"),
    [
        (3, [0], True),
        (3, [0, 1], False),
        (4, [0, 1], True),
        (2, [0], False),
        (3, [2], False),
        (3, [], True),
        (6, [], False),
        (5, [2], True),
        (6, [0], False),
    ],
)
def test_a_passed_epoch_commits_what_the_member_has_had_since_then(epoch, numbers, is_accepted):
    topic_id = b"t" * 16
    group = ConsumerGroup("g")
    group.put(ConsumerMember("m", epoch=5, since={(topic_id, 0): 3, (topic_id, 1): 4}))
    partitions = [(topic_id, number) for number in numbers]
    if is_accepted:
        group.check_commit("m", epoch, partitions)
    else:
        with pytest.raises(BrokerError) as caught:
            group.check_commit("m", epoch, partitions)
        assert caught.value.code == ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("member_id", "epoch", "instance_id", "code"),
    [
        ("m", 3, None, None),
        ("", -1, None, None),
        ("", -1, "i", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 3, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("x", -1, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", -1, None, ErrorCode.ILLEGAL_GENERATION),
        ("m", 2, None, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_commits_in_a_transaction(group, member_id, epoch, instance_id, code):
    commit = Commit("g", epoch, member_id, instance_id)
    if code is None:
        group.check_commit_in_transaction(commit, [(T, 0)])
    else:
        with pytest.raises(BrokerError) as caught:
            group.check_commit_in_transaction(commit, [(T, 0)])
        assert caught.value.code == code
