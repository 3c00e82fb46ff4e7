"""Heartbeats of streams groups, and their outcomes.

Source: KIP-1071; `GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsInvalid` in Apache Kafka, whose order
of checks and texts are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kafkawire.reference_broker.groups.refusals import is_blank
from kafkawire.reference_broker.groups.streams.group import Tasks
from kafkawire.reference_broker.groups.streams.topology import InternalTopic, Topology
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kafkawire.sdk.protocol.tables.enums import JOIN_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["SUBTOPOLOGIES_MAX", "TOPIC_NAMES_MAX", "UNCHANGED_MS", "StreamsBeat", "StreamsHeartbeat", "check_heartbeat"]

#: Stands for a missing or unchanged timeout.
UNCHANGED_MS = -1

#: Maximum number of subtopologies, and of topic names in all of their lists; the largest known applications have some
#: hundreds. Each may be looked at once for each other one, without interruption.
SUBTOPOLOGIES_MAX = 1_000
TOPIC_NAMES_MAX = 5_000


class StreamsHeartbeat(NamedTuple):
    """A heartbeat, which is also used to join and to leave.

    Attributes:
        group_id, member_id, epoch, endpoint_epoch, rack_id, rebalance_timeout_ms, process_id: as in
            StreamsGroupHeartbeat.
        topology: the topology of a joining member, else None.
        owned: the owned tasks, or None if unchanged.
        user_endpoint: host and port for interactive queries, or None if unchanged.
        client_tags: tags for the placement of standby tasks, or None if unchanged.
        wants_shutdown: whether the member asks all others to shut down.
        client_id: the client's name for itself.
        client_host: the host that the client connects from.
    """

    group_id: str
    member_id: str
    epoch: int
    endpoint_epoch: int
    rack_id: str | None
    rebalance_timeout_ms: int
    topology: Topology | None
    owned: Tasks | None
    process_id: str | None
    user_endpoint: tuple[str, int] | None
    client_tags: Mapping[str, str] | None
    wants_shutdown: bool
    client_id: str
    client_host: str


class StreamsBeat(NamedTuple):
    """The outcome of a heartbeat.

    Attributes:
        response: the response.
        missing: the internal topics to create, keyed by name.
        heartbeat_interval_ms: the heartbeat interval of the group's members.
    """

    response: StreamsGroupHeartbeatResponse
    missing: Mapping[str, InternalTopic]
    heartbeat_interval_ms: int


def check_heartbeat(request: StreamsGroupHeartbeatRequest) -> None:
    """Check the fields of a heartbeat in Kafka's order.

    Raises:
        BrokerError: INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY.
    """
    is_joining = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
    topology = request.topology
    subtopologies = () if topology is None else topology.subtopologies
    owned = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    _refuse_if(request.instance_id is not None, "Static membership is not yet supported.")
    _refuse_if(request.task_offsets is not None, "TaskOffsets are not supported yet.")
    _refuse_if(request.task_end_offsets is not None, "TaskEndOffsets are not supported yet.")
    _refuse_if(bool(request.warmup_tasks), "WarmupTasks are not supported yet.")
    has_regex = any(part.source_topic_regex for part in subtopologies)
    _refuse_if(has_regex, "Regular expressions for source topics are not supported yet.")
    for name, text in (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id)):
        _refuse_if(is_blank(text), f"{name} can't be empty.")
    if is_joining:
        _refuse_if(
            request.rebalance_timeout_ms == UNCHANGED_MS, "RebalanceTimeoutMs must be provided in first request."
        )
        for name, tasks in zip(("ActiveTasks", "StandbyTasks", "WarmupTasks"), owned, strict=True):
            _refuse_if(tasks is None or bool(tasks), f"{name} must be empty when (re-)joining.")
        _refuse_if(topology is None, "Topology must be non-null when (re-)joining.")
        for part in subtopologies:
            for info in part.state_changelog_topics:
                if info.partitions:
                    text = (
                        f"Changelog topic {info.name} must have an undefined partition count, but it is set to "
                        f"{info.partitions}."
                    )
                    raise BrokerError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
        _check_size(subtopologies)
    _refuse_if(request.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH, "InstanceId can't be null.")
    _refuse_if(
        request.member_epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH,
        f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.",
    )
    is_partial = any(tasks is None for tasks in owned) and any(tasks is not None for tasks in owned)
    _refuse_if(is_partial, "If one task-type is non-null, all must be non-null.")
    _refuse_if(not is_joining and topology is not None, "Topology can only be provided when (re-)joining.")


def _check_size(subtopologies: Collection[StreamsGroupHeartbeatRequest.Subtopology]) -> None:
    """Check that a topology is not too large.

    Raises:
        BrokerError: STREAMS_INVALID_TOPOLOGY.
    """
    names = sum(
        len(part.source_topics)
        + len(part.state_changelog_topics)
        + len(part.repartition_sink_topics)
        + len(part.repartition_source_topics)
        + sum(len(group.source_topics) + len(group.repartition_source_topics) for group in part.copartition_groups)
        for part in subtopologies
    )
    for what, count, limit in (
        ("subtopologies", len(subtopologies), SUBTOPOLOGIES_MAX),
        ("names of topics", names, TOPIC_NAMES_MAX),
    ):
        if count > limit:
            text = f"The topology has {count} {what}; the limit is {limit}."
            raise BrokerError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def _refuse_if(is_fault: bool, text: str) -> None:
    """Raise an error if a request has a fault.

    Raises:
        BrokerError: INVALID_REQUEST.
    """
    if is_fault:
        raise BrokerError(ErrorCode.INVALID_REQUEST, text)
