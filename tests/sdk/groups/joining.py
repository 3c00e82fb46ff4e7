"""A classic group whose members are joining, and the step that lets them continue."""

from __future__ import annotations

from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest
from kafkawire.sdk.protocol.schema import Message
from tests.sdk.groups.classic_coordinator import ClassicCoordinator
from tests.sdk.groups.members import Cluster, Member
from tests.sdk.simulation import SILENT, Silent

__all__ = ["coordinator", "go_on", "joining", "kinds"]


def coordinator(cluster: Cluster) -> ClassicCoordinator:
    assert isinstance(cluster.kafka, ClassicCoordinator)
    return cluster.kafka


def kinds(member: Member) -> list[str]:
    """Return the names of a member's events."""
    return [type(event).__name__ for event in member.listener.events]


def joining(cluster: Cluster) -> tuple[Member, Member, Member]:
    """Return three members, the first of which, while joining, waits for the second, whose join request is held up."""
    first, second = cluster.member("a"), cluster.member("b")
    # All topics are already known, so no metadata change leads to another rebalance.
    assert first.router.metadata.wanted is not None
    first.router.metadata.wanted.update(cluster.topics)
    cluster.settle(first, second)
    signature = second.group.sign()
    assert signature is not None

    def fault(node: int, request: Message) -> Silent | None:
        held_up = isinstance(request, JoinGroupRequest) and request.member_id == signature.member_id
        return SILENT if held_up else None

    cluster.fault = fault
    third = cluster.member("c")
    cluster.until(lambda: first.state == second.state == "joining")
    return first, second, third


def go_on(cluster: Cluster, second: Member) -> None:
    """Let the second member join."""
    cluster.fault = lambda node, request: None
    second.simulation.break_connections(cluster.node)
