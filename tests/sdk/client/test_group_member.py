"""A member takes the steps of the classic protocol, response by response, and its heartbeats come when they are due.

Method: the state machine is driven by hand, with explicit times; tables of error codes say what each response leads to.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.group_member import GroupMember, GroupSettings, MemberInfo, Step
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatResponse
from kafkawire.sdk.protocol.messages.join_group import JoinGroupResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

SETTINGS = GroupSettings("g", None, "consumer", 10_000, 60_000, 3_000)

AGAIN = [ErrorCode.REBALANCE_IN_PROGRESS]
LOST = [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION]
RAISED = [
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
]


def joining() -> GroupMember:
    """Return a member that is about to send its first join request."""
    member = GroupMember(SETTINGS)
    assert member.step is Step.OUTSIDE
    member.rejoin("first join")
    assert member.step is Step.PREPARE
    member.prepared([("range", b"meta")])
    assert member.step is Step.JOIN
    return member


def joined(member: GroupMember, leads: bool = False, now_ms: int = 0) -> GroupMember:
    """Let the coordinator take a member."""
    others = [JoinGroupResponse.JoinGroupResponseMember("m1", None, b"meta")] if leads else []
    leader = "m1" if leads else "m0"
    member.receive_join(JoinGroupResponse(0, 0, 4, "consumer", "range", leader, False, "m1", others), now_ms)
    return member


def stable(now_ms: int = 0) -> GroupMember:
    """Return a member with an assignment."""
    member = joined(joining())
    member.receive_sync(SyncGroupResponse(assignment=memoryview(b"part")), now_ms)
    member.adopted()
    assert member.step is Step.STABLE
    return member


def test_a_follower_from_outside_to_its_assignment() -> None:
    member = joining()
    request = member.join_request()
    assert (request.group_id, request.member_id, request.session_timeout_ms) == ("g", "", 10_000)
    assert [(each.name, each.metadata) for each in request.protocols] == [("range", b"meta")]
    joined(member)
    assert member.step is Step.SYNC
    assert member.generation == (4, "m1", None)
    assert member.sync_request().assignments == []
    member.receive_sync(SyncGroupResponse(assignment=b"part"), 0)
    assert (member.step, member.assignment) == (Step.ADOPT, b"part")
    member.adopted()
    assert member.step is Step.STABLE


def test_a_leader_performs_the_assignment() -> None:
    member = joined(joining(), leads=True)
    assert member.step is Step.PERFORM_ASSIGNMENT
    assert member.members == {"m1": MemberInfo(b"meta", None)}
    member.assignment_performed({"m1": b"all"})
    assert member.step is Step.SYNC
    (entry,) = member.sync_request().assignments
    assert (entry.member_id, entry.assignment) == ("m1", b"all")


def test_a_leader_that_must_skip_the_assignment() -> None:
    """A static member that comes back to a stable group leads it, but the assignment stays (KIP-814)."""
    member = joining()
    member.receive_join(JoinGroupResponse(0, 0, 4, "consumer", "range", "m1", True, "m1"), 0)
    assert member.step is Step.SYNC


def test_the_coordinator_gives_the_member_its_id_first() -> None:
    member = joining()
    member.receive_join(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m1"), 0)
    assert member.step is Step.JOIN
    assert member.join_request().member_id == "m1"


@pytest.mark.parametrize("code", RAISED)
def test_errors_that_rejoining_cannot_fix(code: ErrorCode) -> None:
    with pytest.raises(BrokerError, match="join in group g"):
        joining().receive_join(JoinGroupResponse(error_code=code), 0)
    with pytest.raises(BrokerError, match="sync in group g"):
        joined(joining()).receive_sync(SyncGroupResponse(error_code=code), 0)
    with pytest.raises(BrokerError, match="heartbeat in group g"):
        stable().receive_heartbeat(HeartbeatResponse(error_code=code))


@pytest.mark.parametrize("code", [*AGAIN, *LOST])
def test_responses_that_make_the_member_rejoin(code: ErrorCode) -> None:
    waiting = joined(joining())
    waiting.receive_sync(SyncGroupResponse(error_code=code), 0)
    member = stable()
    member.receive_heartbeat(HeartbeatResponse(error_code=code))
    for each in (waiting, member):
        assert each.step is Step.PREPARE
        assert each.lost is (code in LOST)
        assert each.generation.generation_id == (-1 if code in LOST else 4)
        assert each.generation.member_id == ("" if code == ErrorCode.UNKNOWN_MEMBER_ID else "m1")
        each.prepared([])
        assert not each.lost


def test_a_forgotten_member_joins_as_a_new_one() -> None:
    member = stable()
    member.rejoin("the subscription changed")
    member.prepared([("range", b"meta")])
    member.receive_join(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), 0)
    assert (member.step, member.lost) == (Step.PREPARE, True)
    assert member.generation.member_id == ""


def test_a_member_that_never_joined_loses_nothing() -> None:
    member = joining()
    member.receive_join(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), 0)
    assert (member.step, member.lost) == (Step.PREPARE, False)


def test_errors_of_a_former_generation_are_ignored() -> None:
    """While the member prepares or joins, late responses to heartbeats and commits change nothing."""
    member = stable()
    member.rejoin("a rebalance")
    member.receive_error(ErrorCode.UNKNOWN_MEMBER_ID, "commit")
    assert (member.step, member.lost) == (Step.PREPARE, False)
    member.prepared([])
    member.receive_error(ErrorCode.ILLEGAL_GENERATION, "heartbeat")
    assert member.step is Step.JOIN


@pytest.mark.parametrize(("now_ms", "wait_ms"), [(1000, 3000), (2500, 1500), (4000, 0), (9000, 0)])
def test_heartbeats_are_due_an_interval_after_the_last_sign_of_life(now_ms: int, wait_ms: int) -> None:
    member = stable(now_ms=1000)
    assert member.heartbeat_wait_ms(now_ms) == wait_ms
    request = member.heartbeat_request(now_ms)
    assert (request.group_id, request.generation_id, request.member_id) == ("g", 4, "m1")
    assert member.heartbeat_wait_ms(now_ms) == 3000


def test_heartbeats_continue_while_the_member_prepares_and_adopts() -> None:
    member = stable()
    member.rejoin("a rebalance")
    assert member.heartbeat_wait_ms(5000) == 0
    member.prepared([])
    assert member.heartbeat_wait_ms(5000) is None
    joined(member, leads=True, now_ms=5000)
    assert member.heartbeat_wait_ms(6000) == 2000


def test_no_heartbeats_outside() -> None:
    assert GroupMember(SETTINGS).heartbeat_wait_ms(0) is None
    assert joining().heartbeat_wait_ms(0) is None
    member = stable()
    member.left()
    assert (member.step, member.heartbeat_wait_ms(99_999)) == (Step.OUTSIDE, None)
    assert member.generation == (-1, "", None)


def test_an_assignment_that_is_outdated_at_once() -> None:
    """A rebalance found by a heartbeat while the assignment was being adopted is not forgotten."""
    member = joined(joining())
    member.receive_sync(SyncGroupResponse(), 0)
    member.receive_heartbeat(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.adopted()
    assert member.step is Step.PREPARE
