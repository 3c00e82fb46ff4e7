"""A group with one member, for testing the group APIs."""

from __future__ import annotations

from kafkawire.reference_broker.groups.classic.group import ClassicGroup
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest
from tests.reference_broker.broker_bench import BrokerBench

__all__ = ["commit", "group_in", "join", "stable"]


def group_in(bench: BrokerBench, group_id: str = "g") -> ClassicGroup:
    """Return a group."""
    (found,) = (group for group in bench.core.groups.classic_groups() if group.group_id == group_id)
    return found


def commit(
    bench: BrokerBench, offset: int, group_id: str = "g", topic: str = "t", partition: int = 0, metadata: str = "meta"
) -> None:
    """Commit an offset as a non-member of a group."""
    bench.offsets_topic()
    Topic = OffsetCommitRequest.OffsetCommitRequestTopic
    part = OffsetCommitRequest.OffsetCommitRequestPartition(partition, offset, 0, metadata)
    (answer,) = bench.ask(OffsetCommitRequest(group_id, topics=[Topic(topic, partitions=[part])]), 9).topics
    assert not answer.partitions[0].error_code


def join(bench: BrokerBench, group: str = "g", instance: str | None = None) -> str:
    """Join a group as its only member; return the member id."""
    bench.offsets_topic()
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"subscription")
    version = 3 if instance is None else 5
    request = JoinGroupRequest(group, 10_000, 10_000, "", instance, "consumer", [protocol])
    return str(bench.ask(request, version).member_id)


def stable(bench: BrokerBench, group: str = "g", instance: str | None = None) -> str:
    """Join a group as its only member and send the assignment; return the member id."""
    member_id = join(bench, group, instance)
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id, b"assignment")
    response = bench.ask(SyncGroupRequest(group, 1, member_id, instance, assignments=[assignment]), 3)
    assert not response.error_code
    return member_id
