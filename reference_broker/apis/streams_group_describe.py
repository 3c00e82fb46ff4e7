"""StreamsGroupDescribe: describe streams groups, their topologies, their members, and the members' tasks (KIP-1071).

0: the only version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.streams.group import NO_TASKS, StreamsGroup, StreamsMember, TaskNumbers, Tasks
from kafkawire.reference_broker.groups.streams.topology import InternalTopic
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.described_groups import GroupDescriptions, describe_groups
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Response = StreamsGroupDescribeResponse
Described = Response.DescribedGroup


@serves(ApiKey.STREAMS_GROUP_DESCRIBE, scope=Scope.ALONE)
def handle(
    call: Call, request: StreamsGroupDescribeRequest, *, authorizer: Authorizer, groups: GroupCoordinator
) -> Work[Message | DelayedOperation]:
    """Handle StreamsGroupDescribe."""

    def describe(group_id: str, put: Callable[[Described], None]) -> None:
        if group_id:
            groups.describe_streams(group_id, lambda outcome: put(_described(group_id, outcome)), call.now_ms)
        else:
            put(Described(ErrorCode.INVALID_GROUP_ID, group_id=group_id))

    return (yield from describe_groups(call, request, authorizer, _DESCRIPTIONS, describe))


def _topics(described: Described) -> set[str]:
    """Return the topics of a group's topology."""
    parts = [] if described.topology is None else described.topology.subtopologies or ()
    return {
        name
        for part in parts
        for name in (
            *part.source_topics,
            *part.repartition_sink_topics,
            *(topic.name for topic in (*part.repartition_source_topics, *part.state_changelog_topics)),
        )
    }


_DESCRIPTIONS: Final = GroupDescriptions(
    Described,
    _topics,
    "The described group uses topics that the client is not authorized to describe.",
    lambda found: StreamsGroupDescribeResponse(groups=found),
)


def _described(group_id: str, outcome: StreamsGroup | BrokerError) -> Described:
    if isinstance(outcome, BrokerError):
        return Described(outcome.code, outcome.detail or None, group_id)
    group = outcome
    return Described(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(member, group.target.get(member.member_id, NO_TASKS)) for member in group.members.values()],
    )


def _topology(group: StreamsGroup) -> Response.Topology | None:
    """Return a group's topology; the numbers of partitions are those decided, if the topology can run."""
    found = group.configured
    if found is not None and found.is_ready:
        return Response.Topology(
            found.epoch,
            [
                _subtopology(key, part.sources, part.repartition_sinks, part.changelogs, part.repartition_sources)
                for key, part in found.subtopologies.items()
            ],
        )
    if group.topology is None:
        return None
    return Response.Topology(
        group.topology.epoch,
        [
            _subtopology(
                part.subtopology_id, part.sources, part.repartition_sinks, part.changelogs, part.repartition_sources
            )
            for part in sorted(group.topology.subtopologies)
        ],
    )


def _subtopology(
    subtopology_id: str,
    sources: Iterable[str],
    sinks: Iterable[str],
    changelogs: Iterable[InternalTopic],
    repartition_sources: Iterable[InternalTopic],
) -> Response.Subtopology:
    return Response.Subtopology(
        subtopology_id, sorted(sources), sorted(sinks), _infos(changelogs), _infos(repartition_sources)
    )


def _infos(topics: Iterable[InternalTopic]) -> list[Response.TopicInfo]:
    return [
        Response.TopicInfo(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            [Response.KeyValue(name, value) for name, value in topic.configs],
        )
        for topic in sorted(topics)
    ]


def _member(member: StreamsMember, target: Tasks) -> Response.Member:
    return Response.Member(
        member.member_id,
        member.epoch,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.topology_epoch,
        member.process_id,
        None if member.user_endpoint is None else Response.Endpoint(*member.user_endpoint),
        [Response.KeyValue(name, value) for name, value in member.client_tags.items()],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(target),
    )


def _assignment(tasks: Tasks) -> Response.Assignment:
    return Response.Assignment(_task_ids(tasks.active), _task_ids(tasks.standby), _task_ids(tasks.warmup))


def _task_ids(tasks: TaskNumbers) -> list[Response.TaskIds]:
    return [Response.TaskIds(subtopology_id, sorted(numbers)) for subtopology_id, numbers in sorted(tasks.items())]
