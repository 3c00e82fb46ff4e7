"""Streams groups (KIP-1071): describe them.

Groups fail independently of each other.

Source: KIP-1071; Apache Kafka, `DescribeStreamsGroupsHandler`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafkawire.sdk.admin.descriptions import ItemResults
from kafkawire.sdk.admin.groups import Outcomes, described
from kafkawire.sdk.admin.item_batches import in_batches
from kafkawire.sdk.admin.places import Coordinators
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.admin.streams_group_descriptions import (
    StreamsGroupDescription,
    StreamsMemberDescription,
    StreamsSubtopology,
    StreamsTask,
    StreamsTasks,
    StreamsTopic,
)
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.routing.call import Node

__all__ = ["describe_streams_groups"]

Response = messages.StreamsGroupDescribeResponse


async def describe_streams_groups(
    operations: Operations, group_ids: Collection[str]
) -> ItemResults[str, StreamsGroupDescription]:
    """Return streams groups; see `Admin.describe_streams_groups`."""

    async def describe(node_id: int, batch: list[str], deadline_ms: int) -> Outcomes[StreamsGroupDescription]:
        response = await operations.request(
            Node(node_id),
            versioned(messages.StreamsGroupDescribeRequest(batch)),
            messages.StreamsGroupDescribeResponse,
            deadline_ms=deadline_ms,
            retries=False,
        )
        return described(response, batch, "streams group", _description)

    return await in_batches(operations, group_ids, Coordinators(operations, enums.CoordinatorType.GROUP), describe)


def _description(group: Response.DescribedGroup) -> StreamsGroupDescription:
    topology = group.topology
    parts = () if topology is None else topology.subtopologies or ()
    return StreamsGroupDescription(
        group.group_id,
        group.group_state,
        None if topology is None else topology.epoch,
        tuple(_subtopology(part) for part in parts),
        tuple(_member(member) for member in group.members),
        group.group_epoch,
        group.assignment_epoch,
    )


def _subtopology(part: Response.Subtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        part.subtopology_id,
        tuple(part.source_topics),
        tuple(part.repartition_sink_topics),
        _topics(part.state_changelog_topics),
        _topics(part.repartition_source_topics),
    )


def _topics(infos: Iterable[Response.TopicInfo]) -> tuple[StreamsTopic, ...]:
    return tuple(
        StreamsTopic(
            info.name,
            info.partitions,
            info.replication_factor,
            {config.key: config.value for config in info.topic_configs},
        )
        for info in infos
    )


def _member(member: Response.Member) -> StreamsMemberDescription:
    endpoint = member.user_endpoint
    return StreamsMemberDescription(
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.process_id,
        member.topology_epoch,
        None if endpoint is None else (endpoint.host, endpoint.port),
        {tag.key: tag.value for tag in member.client_tags},
        member.member_epoch,
        _tasks(member.assignment),
        _tasks(member.target_assignment),
        member.is_classic,
    )


def _tasks(assignment: Response.Assignment) -> StreamsTasks:
    return StreamsTasks(_each(assignment.active_tasks), _each(assignment.standby_tasks), _each(assignment.warmup_tasks))


def _each(tasks: Iterable[Response.TaskIds]) -> tuple[StreamsTask, ...]:
    return tuple(StreamsTask(part.subtopology_id, number) for part in tasks for number in part.partitions)
