"""A member of a classic group leaves for good, or temporarily if it is static, and always within its time limit.

Method: proceed as in `test_classic_group.py`.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import BrokerError, Closed
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.groups.joining import coordinator, go_on, joining, kinds
from tests.sdk.groups.members import Cluster
from tests.sdk.simulation import SILENT


def test_static_members_come_back_to_their_partitions_without_a_rebalance() -> None:
    cluster = Cluster.of_classic()
    first = cluster.member("a", group_instance_id="one", session_timeout_ms=20_000)
    second = cluster.member("b", group_instance_id="two", session_timeout_ms=20_000)
    cluster.settle(first, second)
    generation, had, told = coordinator(cluster).generation, first.reader.assigned, len(second.listener.events)
    stopped = first.stop()
    cluster.until(lambda: stopped.done)
    assert first.simulation.requests(LeaveGroupRequest) == []
    again = cluster.member("a2", group_instance_id="one", session_timeout_ms=20_000)
    cluster.settle(again, second)
    assert (coordinator(cluster).generation, again.reader.assigned) == (generation, had)
    assert len(second.listener.events) == told


def test_a_static_member_is_fenced_by_its_twin() -> None:
    cluster = Cluster.of_classic()
    first = cluster.member("a", group_instance_id="one")
    cluster.settle(first)
    second = cluster.member("b", group_instance_id="one")
    cluster.until(lambda: first.failures != [])
    error = first.failures[0]
    assert isinstance(error, BrokerError)
    assert error.code is ErrorCode.FENCED_INSTANCE_ID
    cluster.settle(second)
    assert kinds(first)[-1] == "Lost"


def test_a_dynamic_member_leaves_with_a_reason() -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a")
    cluster.settle(member)
    stopped = member.stop()
    cluster.until(lambda: stopped.done)
    (leave,) = member.simulation.requests(LeaveGroupRequest)
    assert [(each.member_id, each.reason) for each in leave.members] == [("member-1", "the consumer was closed")]
    assert kinds(member) == ["Assigned", "Revoking"]
    assert {event.generation for event in member.listener.events} == {1}
    sent = len(member.simulation.sent)
    cluster.run(30_000)
    assert len(member.simulation.sent) == sent


def test_a_member_leaves_while_it_joins() -> None:
    cluster = Cluster.of_classic("cooperative-sticky")
    first, second, third = joining(cluster)
    first.reader.read()
    stopped = first.stop()
    assert cluster.until(lambda: stopped.done) < 100
    assert {offset.offset for offset in cluster.kafka.offsets.values()} == {1}
    go_on(cluster, second)
    cluster.settle(second, third)


@pytest.mark.parametrize("is_slow", [False, True])
def test_stop_keeps_its_limit_against_a_coordinator_that_has_stopped(is_slow: bool) -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a")
    cluster.settle(member)
    member.reader.read()
    cluster.fault = lambda node, request: SILENT
    member.listener.is_slow = is_slow
    stopped = member.stop(2_000)
    second = member.stop(9_000)
    assert 1_990 <= cluster.until(lambda: stopped.done) <= 2_010
    assert second.done
    assert kinds(member)[-1] == "Revoking"


def test_the_end_of_the_client_ends_the_membership() -> None:
    cluster = Cluster.of_classic()
    member = cluster.member("a")
    cluster.settle(member)
    member.reader.read()
    outcomes = member.commit()
    member.listener.is_slow = True
    stopped = member.stop()
    member.simulation.close()
    assert stopped.done
    assert isinstance(outcomes[0], Closed)
    assert member.group.due_ms(member.now_ms) is None
    assert kinds(member) == ["Assigned"]
