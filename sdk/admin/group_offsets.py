"""The offsets that groups have committed: list, change and delete them, at the groups' coordinators.

A change covers all partitions of one group in one request; the coordinator has an error for each partition. As in
Java's admin, the whole request is repeated if the coordinator has moved or if the group is rebalancing.

Source: Apache Kafka, `ListConsumerGroupOffsetsHandler`, `AlterConsumerGroupOffsetsHandler`,
`DeleteConsumerGroupOffsetsHandler`; KIP-396, KIP-496, KIP-709 (several groups).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from kafkawire.sdk.admin.descriptions import ItemResults
from kafkawire.sdk.admin.item_batches import in_batches, one_by_one
from kafkawire.sdk.admin.places import Coordinators
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.errors import BrokerError, KafkaWireError, UnsupportedVersion
from kafkawire.sdk.groups.offset_requests import commit_request, commit_results, fetch_request, fetch_results
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Node
from kafkawire.sdk.routing.metadata import Metadata
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.requests import by_topic, check, error_text, lacking
from kafkawire.sdk.transport.driver_interface import Versions

__all__ = ["alter_group_offsets", "delete_group_offsets", "list_group_offsets"]

#: Requests contain topic names, not ids: a group may have offsets of topics that no longer exist.
_NO_IDS: Final = Metadata()

#: Final for other clients; a change made by an admin waits until the rebalance is over.
_REBALANCING = frozenset({ErrorCode.REBALANCE_IN_PROGRESS})

#: Codes of a partition that concern its group, so that the whole request is repeated.
_OF_GROUP = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)

#: Retriable when writing to a topic that is still being created, but final for a committed offset.
_NO_SUCH_PARTITION = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})

#: What the errors of a commit mean if it comes from outside the group.
_NOT_A_MEMBER: Final[Mapping[int, str]] = MappingProxyType(
    {ErrorCode.UNKNOWN_MEMBER_ID: "the group has members, and only they may commit: stop them first"}
)

Offsets = dict[TopicPartition, OffsetAndMetadata]


async def list_group_offsets(
    operations: Operations, groups: Mapping[str, Collection[TopicPartition] | None], *, require_stable: bool
) -> ItemResults[str, Offsets]:
    """Return the offsets that groups have committed; see `Admin.list_group_offsets_of`.

    Args:
        operations: sends the requests.
        groups: the partitions, keyed by group; None for all that the group has committed.
        require_stable: whether to wait for offsets that an open transaction may change.
    """

    def request_for(group_id: str, versions: Versions) -> tuple[messages.OffsetFetchRequest, int]:
        request, version, _ = fetch_request(group_id, groups[group_id], _NO_IDS, versions, stable=require_stable)
        if require_stable:  # older brokers would return offsets that may change
            versioned(request, "require_stable")(versions)
        return request, version

    def read(group_id: str, response: messages.OffsetFetchResponse, *, is_batched: bool) -> Offsets:
        kind = messages.OffsetFetchRequest
        asked = kind(groups=[kind.OffsetFetchRequestGroup(group_id)]) if is_batched else kind(group_id)
        code, results = fetch_results(response, asked, {})
        check(code, f"committed offsets of group {group_id}")
        left = dict.fromkeys(groups[group_id] or ())
        found: Offsets = {}
        for partition, error_code, offset in results:
            left.pop(partition, None)
            check(error_code, f"committed offset of group {group_id} in {partition}")
            if offset is not None:
                found[partition] = offset
        for partition in left:
            raise lacking(response, f"partition {partition}")
        return found

    async def together_at(node_id: int, batch: list[str], deadline_ms: int) -> dict[str, Offsets | KafkaWireError]:
        def request(versions: Versions) -> tuple[messages.OffsetFetchRequest, int]:
            each, version = request_for(batch[0], versions)
            if not each.groups:
                raise _OneGroup(f"OffsetFetch: version {version} takes one group")
            several = [group for group_id in batch for group in request_for(group_id, versions)[0].groups]
            return messages.OffsetFetchRequest(groups=several, require_stable=require_stable), version

        try:
            response = await operations.request(
                Node(node_id), request, messages.OffsetFetchResponse, deadline_ms=deadline_ms, retries=False
            )
        except _OneGroup:
            return dict(await one_by_one(alone_at)(node_id, batch, deadline_ms))
        found: dict[str, Offsets | KafkaWireError] = {}
        for group_id in batch:
            try:
                found[group_id] = read(group_id, response, is_batched=True)
            except KafkaWireError as error:
                found[group_id] = error
        return found

    async def alone_at(node_id: int, group_id: str, deadline_ms: int) -> Offsets:
        response = await operations.request(
            Node(node_id),
            lambda versions: request_for(group_id, versions),
            messages.OffsetFetchResponse,
            deadline_ms=deadline_ms,
            retries=False,
        )
        return read(group_id, response, is_batched=False)

    places = Coordinators(operations, CoordinatorType.GROUP)
    return await in_batches(operations, groups, places, together_at, final=_NO_SUCH_PARTITION)


async def alter_group_offsets(
    operations: Operations, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> ItemResults[TopicPartition, None]:
    """Change the offsets that a group has committed; see `Admin.alter_group_offsets`."""
    outsider = GroupMetadata(group_id)

    async def commit(node_id: int, item: str, deadline_ms: int) -> ItemResults[TopicPartition, None]:
        def request(versions: Versions) -> tuple[messages.OffsetCommitRequest, int]:
            asked, version, _ = commit_request(offsets, outsider, {}, versions)
            return asked, version

        response = await operations.request(
            Node(node_id), request, messages.OffsetCommitResponse, deadline_ms=deadline_ms, retries=False
        )
        detail = f"commit of group {group_id} in"
        return _outcomes(response, commit_results(response, {}), offsets, detail, _NOT_A_MEMBER)

    if not offsets:
        return ItemResults({}, {})
    results = await in_batches(
        operations,
        [group_id],
        Coordinators(operations, CoordinatorType.GROUP),
        one_by_one(commit),
        final=_NO_SUCH_PARTITION,
        also=_REBALANCING,
    )
    return _of_partitions(results, group_id, offsets)


async def delete_group_offsets(
    operations: Operations, group_id: str, partitions: Collection[TopicPartition]
) -> ItemResults[TopicPartition, None]:
    """Delete offsets that a group has committed; see `Admin.delete_group_offsets`."""
    kind = messages.OffsetDeleteRequest
    wanted = dict.fromkeys(partitions)
    topics = [
        kind.OffsetDeleteRequestTopic(topic, [kind.OffsetDeleteRequestPartition(number) for number in numbers])
        for topic, numbers in by_topic(wanted).items()
    ]

    async def delete(node_id: int, item: str, deadline_ms: int) -> ItemResults[TopicPartition, None]:
        response = await operations.request(
            Node(node_id),
            versioned(kind(group_id, topics)),
            messages.OffsetDeleteResponse,
            deadline_ms=deadline_ms,
            retries=False,
        )
        check(response.error_code, f"committed offsets of group {group_id}")
        results = (
            (TopicPartition(topic.name, each.partition_index), each.error_code)
            for topic in response.topics
            for each in topic.partitions
        )
        return _outcomes(response, results, wanted, f"committed offset of group {group_id} in")

    if not wanted:
        return ItemResults({}, {})
    places = Coordinators(operations, CoordinatorType.GROUP)
    results = await in_batches(operations, [group_id], places, one_by_one(delete), final=_NO_SUCH_PARTITION)
    return _of_partitions(results, group_id, wanted)


class _OneGroup(UnsupportedVersion):
    """The broker takes one group in each request (before Apache Kafka 3.0)."""


def _outcomes(
    response: messages.OffsetCommitResponse | messages.OffsetDeleteResponse,
    results: Iterable[tuple[TopicPartition, int]],
    wanted: Iterable[TopicPartition],
    detail: str,
    reasons: Mapping[int, str] = MappingProxyType({}),
) -> ItemResults[TopicPartition, None]:
    """Return the outcome of each partition.

    Args:
        response: the response, for errors.
        results: the error code of each partition in it.
        wanted: the partitions that were asked for.
        detail: what failed, for errors.
        reasons: what error codes mean here.

    Raises:
        BrokerError: the error concerns the group, so that the request must be repeated.
    """
    codes = dict(results)
    values: dict[TopicPartition, None] = {}
    errors: dict[TopicPartition, KafkaWireError] = {}
    for partition in wanted:
        if partition not in codes:
            errors[partition] = lacking(response, f"partition {partition}")
        elif codes[partition] == ErrorCode.NONE:
            values[partition] = None
        else:
            reason = reasons.get(codes[partition])
            errors[partition] = error = BrokerError(codes[partition], error_text(f"{detail} {partition}", reason))
            if error.code in _OF_GROUP:
                raise error
    return ItemResults(values, errors)


def _of_partitions(
    results: ItemResults[str, ItemResults[TopicPartition, None]], group_id: str, wanted: Iterable[TopicPartition]
) -> ItemResults[TopicPartition, None]:
    """Return the outcome of each partition of one group; an error of the group is the error of each partition."""
    if group_id in results.errors:
        return ItemResults({}, dict.fromkeys(wanted, results.errors[group_id]))
    return results.values[group_id]
