"""A share group's state follows from its members, and checks name what is wrong.

Method: build groups by hand.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from kafkawire.reference_broker.groups.share.group import SHARE_GROUP_EDGES, ShareGroup, ShareGroupState, ShareMember
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


def group_of(*members):
    return ShareGroup("g", members={member.member_id: member for member in members})


def test_the_state_takes_every_step():
    group = ShareGroup("g")
    states = [group.state]
    group.members["m"] = ShareMember("m")
    states.append(group.state)
    del group.members["m"]
    states.append(group.state)
    assert states == [ShareGroupState.EMPTY, ShareGroupState.STABLE, ShareGroupState.EMPTY]
    for before, after in pairwise(states):
        assert SHARE_GROUP_EDGES.follow(before, after) is after


def test_subscribed_topics():
    group = group_of(ShareMember("m", topics=("a", "b")), ShareMember("n", topics=("b", "c")))
    assert group.topics_after("") == {"a", "b", "c"}
    assert group.topics_after("m") == {"b", "c"}
    assert group.topics_after("m", ShareMember("m", topics=("d",))) == {"b", "c", "d"}


def test_checks():
    group = group_of(ShareMember("m"))
    assert group.known("m").member_id == "m"
    with pytest.raises(BrokerError, match=r"Member n is not a member of group g\.") as unknown:
        group.known("n")
    assert unknown.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(BrokerError) as full:
        group.check_empty()
    assert full.value.code is ErrorCode.NON_EMPTY_GROUP
    ShareGroup("g").check_empty()


def test_what_is_known_about_topics():
    group = ShareGroup("g", epoch=3, target={"m": {b"t" * 16: frozenset({1})}})
    assert not group.has_looked_at(7)
    group.looked_at = 7, 4
    assert not group.has_looked_at(7), "the epoch is not in the log yet"
    group.looked_at = 7, 3
    assert (group.has_looked_at(7), group.has_looked_at(8)) == (True, False)
    assert (group.target_of("m"), group.target_of("n")) == ({b"t" * 16: frozenset({1})}, {})
