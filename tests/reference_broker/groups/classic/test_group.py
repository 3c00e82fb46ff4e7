"""A group tracks its members, its leader, and the protocol that all members support.

Method: add and remove members directly; other modules test state transitions.
"""

import pytest

from kafkawire.reference_broker.groups.classic.group import ClassicGroup, GroupState, Member


def member(member_id, *protocols, instance=None, rebalance_ms=1000):
    return Member(
        member_id, instance, "c", "/h", 1000, rebalance_ms, tuple((name, name.encode()) for name in protocols)
    )


@pytest.fixture
def group():
    group = ClassicGroup("g", protocol_type="consumer")
    group.add(member("m1", "a", "b", rebalance_ms=5))
    group.add(member("m2", "b", "a", instance="i", rebalance_ms=9))
    group.add(member("m3", "b", "c", "a", rebalance_ms=7))
    return group


def test_first_member_leads_until_it_goes(group):
    assert group.leader_id == "m1"
    group.remove("m1")
    assert group.leader_id == "m2"
    for member_id in ("m2", "m3"):
        group.remove(member_id)
    assert group.leader_id is None
    assert not group.static_members


def test_renamed_member_keeps_place_and_lead(group):
    group.leader_id = "m2"
    group.pending_sync = {"m2", "m3"}
    group.rename(group.members["m2"], "new")
    assert group.pending_sync == {"m3"}, "no member waits for an id that is gone"
    assert list(group.members) == ["m1", "new", "m3"]
    assert (group.leader_id, group.static_members, group.members["new"].member_id) == ("new", {"i": "new"}, "new")


@pytest.mark.parametrize(
    ("protocol_type", "protocols", "supported"),
    [
        ("consumer", "a", True),
        ("consumer", "bx", True),
        ("consumer", "c", False),
        ("connect", "a", False),
        ("", "a", False),
        ("consumer", "", False),
    ],
)
def test_supports(group, protocol_type, protocols, supported):
    assert group.supports(protocol_type, [(name, b"") for name in protocols]) is supported


def test_empty_group_supports_everything():
    assert ClassicGroup("g", protocol_type="consumer").supports("connect", [("x", b"")])


def test_selected_protocol_is_common_and_preferred(group):
    assert group.select_protocol() == "b"
    group.add(member("m4", "a"))
    assert group.select_protocol() == "a"


def test_rebalance_takes_as_long_as_the_slowest_member(group):
    assert (group.rebalance_timeout_ms, ClassicGroup("x").rebalance_timeout_ms) == (9, 0)


def test_leader_learns_the_members(group):
    group.generation_id, group.protocol_name = 4, "b"
    for member_id, count in (("m1", 3), ("m2", 0)):
        result = group.joined_result(member_id)
        assert (result.generation_id, result.leader, result.member_id, len(result.members)) == (
            4,
            "m1",
            member_id,
            count,
        )
    listed = [(entry.member_id, entry.group_instance_id, entry.metadata) for entry in group.member_list()]
    assert listed == [("m1", None, b"b"), ("m2", "i", b"b"), ("m3", None, b"b")]


def test_the_states_in_which_all_have_joined():
    assert [state for state in GroupState if state.is_joined] == [GroupState.COMPLETING_REBALANCE, GroupState.STABLE]
