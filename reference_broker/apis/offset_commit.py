"""OffsetCommit: commit a group's offsets.

1: commit time, which no later version has; served but not advertised, since Kafka 4 has removed version 1. 2: lowest
version of Kafka 4, retention time (until 4). 3: throttle time. 6: leader epoch. 7: static members. 8: flexible. 9:
member epochs of KIP-848. 10: topic ids instead of names.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.config.topic_configs import NEVER_MS
from kafkawire.reference_broker.groups.checked_offsets import CheckedOffsets
from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.records import NO_EXPIRY
from kafkawire.reference_broker.groups.requests import Commit
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.requests.api_handlers import serves, since
from kafkawire.reference_broker.requests.authorization import not_authorized
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.long_requests import complete_by_work
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange

__all__ = ["handle"]

PartitionResponse = OffsetCommitResponse.OffsetCommitResponsePartition

#: Before KIP-848, a member had no epoch. The KIP added no field.
_EPOCHS_SINCE = 9

_BY_ID_SINCE = since(OffsetCommitRequest.OffsetCommitRequestTopic, "topic_id")

#: Version 0 stored offsets in ZooKeeper, and Kafka 4 has removed version 1.
_SERVED_FROM = 1
_CURRENT = KNOWN_APIS[ApiKey.OFFSET_COMMIT].stable_versions

#: The retention time that means the broker's default.
_BROKERS_RETENTION_MS = -1


@serves(ApiKey.OFFSET_COMMIT, VersionRange(_SERVED_FROM, _CURRENT.last), advertised_from=_CURRENT.first)
def handle(
    call: Call,
    request: OffsetCommitRequest,
    *,
    authorizer: Authorizer,
    groups: GroupCoordinator,
    metadata: MetadataCache,
    options: BrokerOptions,
) -> Work[OffsetCommitResponse | DelayedOperation]:
    """Handle OffsetCommit.

    Raises:
        BrokerError: the client may not read with the group.
    """
    if not authorizer.allows(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        raise not_authorized(ResourceType.GROUP)
    by_id = call.version >= _BY_ID_SINCE
    retention_ms = request.retention_time_ms
    checked = CheckedOffsets(
        options.offset_metadata_max_bytes,
        call.now_ms,
        unknown=ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        with_topic_ids=True,
        expire_timestamp=NO_EXPIRY
        if retention_ms == _BROKERS_RETENTION_MS
        else min(call.now_ms + retention_ms, NEVER_MS),
    )
    image = metadata.image
    for wanted in request.topics:
        topic = image.topics_by_id.get(wanted.topic_id) if by_id else image.topics.get(wanted.name)
        name = wanted.name if topic is None else topic.name
        is_unknown = by_id and topic is None
        if is_unknown or authorizer.allows(call, AclOperation.READ, ResourceType.TOPIC, name):
            yield from checked.check(topic, wanted.partitions)
        else:
            yield from checked.refuse(wanted.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        yield
    if not checked.need_the_group:
        return (yield from _respond(request, checked.codes()))
    delayed = DelayedOperation()

    def answer(outcome: BrokerError | None) -> None:
        code = ErrorCode.NONE if outcome is None else outcome.code
        complete_by_work(call, delayed, _respond(request, checked.codes(code)))

    committer = Commit(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        knows_epochs=call.version >= _EPOCHS_SINCE,
    )
    groups.commit(committer, checked.offsets, answer, call.now_ms)
    return delayed


def _respond(request: OffsetCommitRequest, codes: Iterator[Iterator[ErrorCode]]) -> Work[OffsetCommitResponse]:
    topics = []
    for topic, of_topic in zip(request.topics, codes, strict=True):
        partitions: list[PartitionResponse] = []
        topics.append(OffsetCommitResponse.OffsetCommitResponseTopic(topic.name, topic.topic_id, partitions))
        for partition, code in zip(topic.partitions, of_topic, strict=True):
            partitions.append(PartitionResponse(partition.partition_index, code))
            yield
        yield
    return OffsetCommitResponse(topics=topics)
