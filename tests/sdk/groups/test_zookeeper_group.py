"""A member of a group in ZooKeeper takes every edge of its state table, and runs one rebalance at a time.

Method: run members on one tree of nodes, and control operations, outcomes and connections from the test. Random stories
are in `test_zookeeper_stories.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from kafkawire.sdk.errors import BrokerError, Closed, RequestTimedOut
from kafkawire.sdk.groups.commit_outcome import Committed, Fenced
from kafkawire.sdk.groups.protocol import Assigned, GroupMetadata, Lost, Revoking
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.groups.zookeeper_group import MEMBERSHIP_EDGES, State
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.registry.registry import Create, CreateMode, Operation, RegistryCode, RegistryError, Transaction
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.transport.promise import Promise
from tests.edges import taken
from tests.sdk.groups.memory_registry import MemoryRegistry
from tests.sdk.groups.zookeeper_members import SESSION_TIMEOUT_MS, Group, Member

IDS = "/consumers/g/ids"


def refusing(refuses: Callable[[Operation], bool], code: RegistryCode) -> Callable[[Operation], RegistryError | None]:
    """Return a function that refuses some operations."""
    return lambda operation: RegistryError(code, "/") if refuses(operation) else None


def stall(group: Group, member: Member, state: State) -> None:
    """Let a member proceed operation by operation until it reaches the given state."""
    for _ in range(200):
        member.poll()
        if member.group.state is state:
            return
        member.registry.step()
    raise AssertionError(f"{member.name} is {member.state}")


def member_in(state: State) -> tuple[Group, Member]:
    """Return a member in the given state, which it leaves only if the test does something."""
    group = Group({"t": 4, "u": 1})
    other = group.member("g_b")
    if state in (State.OUTSIDE, State.REGISTERING):
        member = group.member("g_a")
        if state is State.REGISTERING:
            stall(group, member, state)
        return group, member
    if state is State.WAITING:  # the other member does not let go of its partitions
        group.run(0)
        other.listener.is_slow = True
    member = group.member("g_a")
    if state in (State.READING, State.CLAIMING, State.ADOPTING):
        member.listener.is_slow = state is State.ADOPTING
        if state is not State.READING:
            group.members.remove(other)
            group.tree.end_session(other.registry.session_id)
        stall(group, member, state)
    else:
        group.run(0)
    if state is State.LOST:
        member.listener.is_slow = True
        member.registry.expire()
        member.poll()
    elif state in (State.REVOKING, State.RELEASING):
        member.listener.is_slow = True
        group.member("g_0")  # which takes some of its partitions
        group.run(0)
        if state is State.RELEASING:
            member.listener.handle(group.now_ms)
    assert member.group.state is state
    return group, member


@pytest.mark.parametrize(("before", "after"), list(MEMBERSHIP_EDGES))
def test_every_edge(before: State, after: State) -> None:
    group, member = member_in(before)
    with taken(MEMBERSHIP_EDGES) as steps:
        match before, after:
            case _, State.OUTSIDE:
                member.stop()
                group.run(6_000)
            case _, State.LOST:
                member.registry.expire()
                member.poll()
            case ((State.READING | State.RELEASING | State.CLAIMING), State.WAITING):
                member.registry.refuse = refusing(lambda operation: True, RegistryCode.NO_AUTH)
                group.run(100)
            case State.READING, State.STABLE:
                group.tree.remove("/brokers/ids/1")
                group.run(100)
                group.add_broker(1)
                group.run(100)
                group.add_broker(2)
                group.run(100)
            case ((State.WAITING | State.STABLE), State.REGISTERING):
                member.group.subscribe(Subscription(["u"]), group.now_ms)
                group.run(3_000)
            case State.STABLE, State.READING:
                group.add_broker(2)
                group.run(100)
            case _:
                for each in group.members:
                    each.listener.is_slow = False
                    each.listener.handle(group.now_ms)
                group.run(6_000)
    assert (before, after) in steps


def test_two_members_share_the_partitions_and_leave_them_to_each_other() -> None:
    group = Group()
    first = group.member("g_a")
    group.run(0)
    first.reader.read(7)
    second = group.member("g_b")
    group.run(0)
    assert group.reading() == {"t/0": "g_a", "t/1": "g_a", "t/2": "g_b", "t/3": "g_b"}
    assert second.reader.positions == {TopicPartition("t", number): 7 for number in (2, 3)}, "the first has committed"
    assert [type(event) for event in first.listener.events] == [Assigned, Revoking]
    second.reader.read(1)
    second.stop()
    group.run(0)
    assert second.stopped.is_kept
    assert group.reading() == dict.fromkeys(("t/0", "t/1", "t/2", "t/3"), "g_a")
    assert first.reader.positions[TopicPartition("t", 2)] == 8
    assert group.tree.children(IDS) == ("g_a",)


def test_partitions_that_stay_are_not_interrupted() -> None:
    group = Group()
    first = group.member("g_a")
    group.run(0)
    first.reader.log.clear()
    first.registry.carried_out.clear()
    group.add_broker(2)
    group.run(0)
    assert not first.reader.log
    assert not any(isinstance(each, Create | Transaction) for each in first.registry.carried_out)
    group.set_partitions("t", 5)
    group.run(0)
    assert first.reader.handed_out == {TopicPartition("t", number) for number in range(5)}
    assert [sorted(event.partitions) for event in first.listener.events][1:] == [[TopicPartition("t", 4)]]


@pytest.mark.parametrize("state", [State.READING, State.CLAIMING, State.ADOPTING, State.REVOKING, State.RELEASING])
def test_a_change_during_a_rebalance_is_followed_by_another(state: State) -> None:
    group, member = member_in(state)
    with taken(MEMBERSHIP_EDGES) as steps:
        group.set_partitions("t", 6)
        member.listener.is_slow = False
        for _ in range(200):  # unlike in the stories, without polling or letting time pass
            member.registry.step()
        member.listener.handle(group.now_ms)
        group.run(0)
        assert member.group.state is State.STABLE
    assert (State.STABLE, State.READING) in steps or state is State.READING
    assert len(group.reading()) == 6


def test_only_one_rebalance_runs() -> None:
    """Many changes while a listener is slow cause only one more rebalance."""
    group, member = member_in(State.ADOPTING)
    member.registry.carried_out.clear()
    for number in range(2, 6):
        group.add_broker(number)
        group.set_partitions("t", 2 + number)
        member.registry.run()
        member.poll()
        assert member.group.state is State.ADOPTING
    assert not member.registry.carried_out
    member.listener.is_slow = False
    member.listener.handle(group.now_ms)
    group.run(0)
    assert len(group.reading()) == 7
    assert len(member.listener.events) == 2


def test_a_partition_that_is_not_let_go_is_reported_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    group, member = member_in(State.WAITING)
    group.run(20_000)
    assert [type(error) for error in member.reader.errors] == [RequestTimedOut]
    assert "t-0" in str(member.reader.errors[0])
    assert member.group.state is State.WAITING
    assert group.tree.owners("g").keys() == {f"t/{number}" for number in range(4)}
    assert set(group.tree.owners("g").values()) == {"g_b-0"}, "the member must own nothing while it waits"
    other = group.members[0]
    other.listener.is_slow = False
    other.listener.handle(group.now_ms)
    group.run(0)
    assert len(group.reading()) == 4, "must read all partitions as soon as the other member releases them"


def test_a_member_that_cannot_claim_all_keeps_nothing_of_the_attempt() -> None:
    group = Group()
    other = MemoryRegistry(group.tree)
    group.tree.put("/consumers/g/owners/t")
    create = Create("/consumers/g/owners/t/1", b"g_x-0", CreateMode.EPHEMERAL)
    group.tree.carry_out(create, other.session_id)
    member = group.member("g_a")
    group.run(0)
    assert member.state == "waiting"
    assert group.tree.owners("g") == {"t/1": "g_x-0"}
    assert not member.reader.assigned
    group.tree.end_session(other.session_id)
    group.run(0)
    assert len(group.reading()) == 4


def test_an_expired_session_costs_the_partitions_and_their_commits() -> None:
    group = Group()
    member = group.member("g_a")
    group.run(0)
    member.reader.read(3)
    outcomes: list[object] = []
    offsets = {TopicPartition("t", 0): OffsetAndMetadata(3)}
    member.registry.disconnect()
    member.offsets.commit(offsets, group.now_ms + 5_000, lambda outcome, _: outcomes.append(outcome), group.now_ms)
    member.poll()
    member.registry.expire()
    member.poll()
    assert not member.reader.assigned or member.state != "stable"
    assert isinstance(outcomes[0], Fenced)
    group.run(0)
    assert [type(event) for event in member.listener.events] == [Assigned, Lost, Assigned]
    assert len(group.reading()) == 4


def test_a_session_confirms_the_membership_as_long_as_it_is_connected() -> None:
    group = Group()
    member = group.member("g_a")
    member.poll()
    assert member.group.last_heartbeat_ms is None
    group.run(0)
    group.advance(60_000)
    assert member.group.last_heartbeat_ms == group.now_ms
    member.registry.disconnect()
    member.poll()
    lost_ms = group.now_ms
    group.advance(60_000)
    assert member.group.last_heartbeat_ms == lost_ms
    member.registry.reconnect()
    group.run(0)
    assert member.group.last_heartbeat_ms == group.now_ms


def test_servers_that_shorten_the_timeout_leave_less_time_without_a_connection() -> None:
    group = Group()
    member = group.member("g_a")
    group.run(0)
    member.registry.session_timeout_ms = SESSION_TIMEOUT_MS // 2
    member.registry.disconnect()
    group.advance(SESSION_TIMEOUT_MS // 6 - 100)
    assert len(member.reader.handed_out) == 4
    group.advance(200)
    assert not member.reader.assigned


def test_a_lost_connection_costs_the_partitions_before_the_session_can_end() -> None:
    group = Group()
    member = group.member("g_a")
    group.run(0)
    member.registry.disconnect()
    group.advance(SESSION_TIMEOUT_MS // 3 - 100)
    assert len(member.reader.handed_out) == 4
    member.registry.reconnect()
    group.advance(SESSION_TIMEOUT_MS)
    assert len(member.reader.handed_out) == 4
    member.registry.disconnect()
    group.advance(SESSION_TIMEOUT_MS // 3 + 100)
    assert not member.reader.assigned
    assert member.group.sign() == GroupMetadata("g"), "the member must register again as soon as it can"
    member.registry.reconnect()
    group.run(0)
    assert len(group.reading()) == 4, "its owner nodes must still have been there"
    assert [type(event) for event in member.listener.events] == [Assigned, Lost, Assigned]


def test_a_subscription_can_change() -> None:
    group = Group({"t": 2, "u": 2})
    member = group.member("g_a")
    other = group.member("g_b", "u")
    group.run(0)
    member.group.subscribe(Subscription(["u"]), group.now_ms)
    assert not member.reader.handed_out, "records from former topics must not be handed out"
    group.run(0)
    assert group.reading() == {"u/0": "g_a", "u/1": "g_b"}, "the other member must have been told"
    member.group.subscribe(Subscription(pattern="t|u"), group.now_ms)
    group.run(0)
    assert group.reading() == {"t/0": "g_a", "t/1": "g_a", "u/0": "g_a", "u/1": "g_b"}
    group.members.remove(other)


def test_filters() -> None:
    group = Group({"t": 1, "u": 1})
    member = group.member("g_a", pattern="'u , x'", excludes=True)
    group.run(0)
    assert group.reading() == {"t/0": "g_a"}
    assert b'"subscription":{"u|x":1},"pattern":"black_list"' in group.tree.nodes[f"{IDS}/g_a"].data
    group.set_partitions("v", 1)
    group.set_partitions("x", 1)
    group.run(0)
    assert group.reading() == {"t/0": "g_a", "v/0": "g_a"}
    member.group.subscribe(Subscription(pattern="("), group.now_ms)
    assert [type(error).__name__ for error in member.failures] == ["ConfigurationError"]
    assert not member.reader.assigned
    group.run(0)
    assert group.tree.children(IDS) == (), "a member that has failed must leave"


def test_a_group_id_that_cannot_be_a_name_fails_at_the_start() -> None:
    group = Group()
    member = group.member("g/a")
    assert len(member.failures) == 1
    assert member.group.failure is member.failures[0]
    group.run(0)
    assert group.tree.children(IDS) == ()
    member.stop()
    group.run(0)
    assert member.stopped.is_kept


def test_an_application_that_does_not_read_leaves_until_it_reads() -> None:
    group = Group()
    member = group.member("g_a", max_poll_interval_ms=1_000)
    group.run(0)
    member.reader.last_handed_out_ms = group.now_ms
    group.run(1_500)
    assert member.state == "outside"
    assert group.tree.children(IDS) == ()
    assert group.tree.owners("g") == {}
    assert isinstance(member.listener.events[-1], Lost)
    member.reader.last_handed_out_ms = None
    group.run(0)
    assert len(group.reading()) == 4


def test_a_refusal_is_raised_by_a_read_and_tried_again() -> None:
    group = Group()
    member = group.member("g_a")
    member.registry.refuse = refusing(lambda operation: isinstance(operation, Create), RegistryCode.NO_AUTH)
    group.run(2_000)
    assert len(member.reader.errors) == 1
    carried_out = len(member.registry.carried_out)
    group.run(5_000)
    assert len(member.registry.carried_out) == carried_out, "the next attempt must wait for a read"
    member.registry.refuse = lambda operation: None
    member.reader.errors.clear()
    group.run(2_000)
    assert len(group.reading()) == 4


def test_refused_credentials_are_reported() -> None:
    group = Group()
    member = group.member("g_a")
    for listener in member.registry._listeners:
        listener.refused(RegistryError(RegistryCode.AUTH_FAILED, "", "memory"))
    member.poll()
    assert [type(error) for error in member.reader.errors] == [RegistryError]


def test_leaving_ends_by_its_deadline() -> None:
    group = Group()
    member = group.member("g_a")
    group.run(0)
    member.registry.disconnect()
    member.stop(1_000)
    other: Promise[None] = Promise()
    member.group.stop(group.now_ms + 5_000, other, group.now_ms)
    group.advance(900)
    assert not member.stopped.done
    group.advance(200)
    assert member.stopped.is_kept
    assert other.is_kept
    assert not member.reader.assigned


def test_a_member_that_never_joined_leaves_at_once() -> None:
    group = Group()
    member = group.member("g_a")
    member.stop()
    member.poll()
    assert member.stopped.is_kept
    assert not member.registry.carried_out


def test_a_closed_registry_ends_the_membership() -> None:
    group = Group()
    member = group.member("g_a")
    group.run(0)
    group.add_broker(2)
    member.registry.step()
    member.poll()
    member.registry.close(0)
    member.poll()
    assert [str(error) for error in member.failures] == ["CLOSED"]
    assert not member.reader.assigned


def test_the_end_of_the_client() -> None:
    group = Group()
    member = group.member("g_a")
    group.run(0)
    member.stop()
    member.group.fail(Closed("the client"), group.now_ms)
    assert member.stopped.is_kept
    assert member.state == "outside"
    assert member.group.due_ms(group.now_ms) is None
    assert not member.registry._listeners


def test_signatures_and_generations(caplog: pytest.LogCaptureFixture) -> None:
    group = Group()
    member = group.member("g_a")
    assert member.group.sign() is None
    group.run(0)
    signature = member.group.sign()
    assert signature is not None
    assert signature == GroupMetadata("g")
    assert member.group.is_current(1)
    assert not member.group.is_current(0)
    assert member.group.last_heartbeat_ms == group.now_ms
    with caplog.at_level(logging.WARNING, "kafkawire.group"):
        member.group.rejected(signature, BrokerError(ErrorCode.UNKNOWN_MEMBER_ID), group.now_ms)
    assert "members in Kafka" in caplog.text


def test_a_deleted_registration_is_made_again() -> None:
    group = Group()
    member = group.member("g_a")
    group.run(0)
    group.tree.remove(f"{IDS}/g_a")
    group.run(0)
    assert group.tree.children(IDS) == ("g_a",)
    assert len(group.reading()) == 4
    assert member.state == "stable"


def test_a_commit_is_written_before_the_owner_is_deleted() -> None:
    group = Group()
    first = group.member("g_a")
    group.run(0)
    first.reader.read(7)
    outcomes: list[object] = []
    positions = first.reader.to_commit()
    first.offsets.commit(positions, 9_000, lambda outcome, _: outcomes.append(outcome), group.now_ms)
    first.stop()
    group.run(0)
    assert isinstance(outcomes[0], Committed)
    names = [type(each).__name__ for each in first.registry.carried_out]
    assert names[-1] == "Delete"
    assert names[::-1].index("SetData") > names[::-1].index("Transaction"), "the transaction deletes the owners"
