"""A group with one member, for the tests of the group APIs."""

from __future__ import annotations

from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest
from tests.reference_broker.broker_bench import BrokerBench

__all__ = ["join", "stable"]


def join(bench: BrokerBench, group: str = "g", instance: str | None = None) -> str:
    """Join a group as its only member; return the member id."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"subscription")
    version = 3 if instance is None else 5
    request = JoinGroupRequest(group, 10_000, 10_000, "", instance, "consumer", [protocol])
    return str(bench.ask(request, version).member_id)


def stable(bench: BrokerBench, group: str = "g", instance: str | None = None) -> str:
    """Join a group as its only member and assign; return the member id."""
    member_id = join(bench, group, instance)
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id, b"assignment")
    response = bench.ask(SyncGroupRequest(group, 1, member_id, instance, assignments=[assignment]), 3)
    assert not response.error_code
    return member_id
