"""OffsetDelete: delete a group's committed offsets for topics to which it is not subscribed.

0: the only version.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.long_requests import complete_by_work
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["handle"]

Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
Deleted = OffsetDeleteResponse.OffsetDeleteResponsePartition


@serves(ApiKey.OFFSET_DELETE)
def handle(
    call: Call,
    request: OffsetDeleteRequest,
    *,
    authorizer: Authorizer,
    groups: GroupCoordinator,
    metadata: MetadataCache,
) -> Work[OffsetDeleteResponse | DelayedOperation]:
    """Handle OffsetDelete."""
    if not authorizer.allows(call, AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    topics = metadata.image.topics
    # Each offset is deleted once, even if the request names it several times.
    known: dict[Partition, None] = {}
    refused: set[str] = set()
    for topic in request.topics:
        if not authorizer.allows(call, AclOperation.READ, ResourceType.TOPIC, topic.name):
            refused.add(topic.name)
            yield
            continue
        for partition in topic.partitions:
            name, number = topic.name, partition.partition_index
            if name in topics and topics[name].partition(number) is not UNKNOWN_PARTITION:
                known[name, number] = None
            yield
        yield
    delayed = DelayedOperation()

    def answer(outcome: list[ErrorCode] | BrokerError) -> None:
        if isinstance(outcome, BrokerError):
            delayed.complete(OffsetDeleteResponse(error_code=outcome.code))
        else:
            codes = dict(zip(known, outcome, strict=True))
            complete_by_work(call, delayed, _respond(request, codes, refused))

    groups.delete_offsets(request.group_id, list(known), answer, call.now_ms)
    return delayed


def _respond(
    request: OffsetDeleteRequest, codes: Mapping[Partition, ErrorCode], refused: Container[str]
) -> Work[OffsetDeleteResponse]:
    topics = []
    for topic in request.topics:
        partitions: list[Deleted] = []
        topics.append(Topic(topic.name, partitions))
        is_refused = topic.name in refused
        otherwise = ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_refused else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in topic.partitions:
            number = partition.partition_index
            partitions.append(Deleted(number, codes.get((topic.name, number), otherwise)))
            yield
        yield
    return OffsetDeleteResponse(topics=topics)
