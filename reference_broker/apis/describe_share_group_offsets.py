"""DescribeShareGroupOffsets: where share groups start in their partitions, and how far they lag behind the end.

0: the first version. 1: the lag (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from kafkawire.reference_broker.groups.consumer.group import Partitions
from kafkawire.reference_broker.groups.share.share_groups import Outcomes, ShareGroups
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorization import not_authorized
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.merged_response import AwaitedParts
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.shares.share_state import UNKNOWN_COUNT, ShareState
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_OFFSET, AclOperation, ResourceType
from kafkawire.sdk.protocol.uuids import ZERO_UUID

__all__ = ["handle"]

Group = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
Topic = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic
PartitionOffset = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition


@serves(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, scope=Scope.ALONE)
def handle(
    call: Call,
    request: DescribeShareGroupOffsetsRequest,
    *,
    authorizer: Authorizer,
    metadata: MetadataCache,
    replicas: Replicas,
    share_groups: ShareGroups,
) -> Work[DelayedOperation]:
    """Handle DescribeShareGroupOffsets."""
    delayed = DelayedOperation()
    awaited: AwaitedParts[Group] = AwaitedParts(
        len(request.groups), lambda groups: delayed.complete(DescribeShareGroupOffsetsResponse(groups=groups))
    )
    describer = _Describer(call, authorizer, metadata, replicas, share_groups)
    for number, group in enumerate(request.groups):
        describer.describe(group, partial(awaited.put, number))
        yield
    return delayed


class _Describer:
    """Describes the offsets of groups."""

    def __init__(
        self,
        call: Call,
        authorizer: Authorizer,
        metadata: MetadataCache,
        replicas: Replicas,
        share_groups: ShareGroups,
    ) -> None:
        self._call = call
        self._authorizer = authorizer
        self._metadata = metadata
        self._replicas = replicas
        self._share_groups = share_groups

    def describe(
        self,
        group: DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup,
        put: Callable[[Group], None],
    ) -> None:
        """Describe the offsets of one group: those of all its partitions, or of the given ones."""
        group_id = group.group_id
        if not self._authorizer.allows(self._call, AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
            put(Group(group_id, error_code=not_authorized(ResourceType.GROUP).code))
            return

        def found(partitions: Partitions | BrokerError) -> None:
            if isinstance(partitions, BrokerError):
                put(Group(group_id, error_code=partitions.code, error_message=partitions.detail))
            else:
                topics = self._metadata.image.topics_by_id
                known = {
                    topic_id: numbers
                    for topic_id, numbers in partitions.items()
                    if topic_id in topics and self._may_describe(topics[topic_id].name)
                }
                self._summarize(group_id, known, [], put)

        if group.topics is None:
            self._share_groups.partitions(group_id, found, self._call.now_ms)
            return
        topics = self._metadata.image.topics
        known = {}
        missing: list[Topic] = []
        denied: list[Topic] = []
        for topic in group.topics:
            if not self._may_describe(topic.topic_name):
                denied.append(_denied(topic.topic_name, topic.partitions))
            elif topic.topic_name in topics:
                known[topics[topic.topic_name].topic_id] = list(topic.partitions)
            else:
                offsets = [PartitionOffset(number, UNKNOWN_OFFSET) for number in topic.partitions]
                missing.append(Topic(topic.topic_name, ZERO_UUID, offsets))
        self._summarize(group_id, known, [*missing, *denied], put)

    def _may_describe(self, topic: str) -> bool:
        return self._authorizer.allows(self._call, AclOperation.DESCRIBE, ResourceType.TOPIC, topic)

    def _summarize(
        self,
        group_id: str,
        partitions: Mapping[bytes, Iterable[int]],
        missing: list[Topic],
        put: Callable[[Group], None],
    ) -> None:
        def ended(outcomes: Outcomes[ShareState | None]) -> None:
            topics: dict[bytes, Topic] = {}
            known = self._metadata.image.topics_by_id
            for (topic_id, number), outcome in outcomes.items():
                name = known[topic_id].name if topic_id in known else ""
                topic = topics.setdefault(topic_id, Topic(name, topic_id, []))
                topic.partitions = [*topic.partitions, self._offset(name, number, outcome)]
            put(Group(group_id, [*topics.values(), *missing]))

        self._share_groups.summaries(group_id, partitions, ended)

    def _offset(self, topic: str, number: int, state: ShareState | BrokerError | None) -> PartitionOffset:
        """Return the offset of a partition; Kafka treats errors of the persister as an absence of data."""
        if state is None or isinstance(state, BrokerError):
            return PartitionOffset(number, UNKNOWN_OFFSET)
        if state.start_offset == UNKNOWN_OFFSET or state.delivery_complete_count == UNKNOWN_COUNT:
            return PartitionOffset(number, state.start_offset, state.leader_epoch)
        try:
            end_offset = self._replicas.leader(topic, number).log.high_watermark
        except BrokerError as error:
            return PartitionOffset(number, error_code=error.code, error_message=error.detail or None)
        lag = end_offset - state.start_offset - state.delivery_complete_count
        return PartitionOffset(number, state.start_offset, state.leader_epoch, lag)


def _denied(topic: str, numbers: Iterable[int]) -> Topic:
    """Return the answer about a topic that the client may not describe."""
    error = not_authorized(ResourceType.TOPIC)
    offsets = [PartitionOffset(n, UNKNOWN_OFFSET, error_code=error.code, error_message=error.detail) for n in numbers]
    return Topic(topic, ZERO_UUID, offsets)
