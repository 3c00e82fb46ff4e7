"""OffsetForLeaderEpoch: return the end of a leader epoch, which lets clients detect that a log was truncated.

2: lowest version of Kafka 4. 3: the id of the requesting replica. 4: flexible.
"""

from __future__ import annotations

from functools import partial

from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import allows_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work, each
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

EpochEndOffset = OffsetForLeaderEpochResponse.EpochEndOffset


@serves(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def handle(
    call: Call, request: OffsetForLeaderEpochRequest, *, authorizer: Authorizer, replicas: Replicas
) -> Work[OffsetForLeaderEpochResponse]:
    """Handle OffsetForLeaderEpoch."""
    topics, refused = [], []
    is_broker = allows_on_cluster(authorizer, call, AclOperation.CLUSTER_ACTION, logs_denied=False)
    for topic in request.topics:
        if not (is_broker or authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic)):
            partitions = yield from each(topic.partitions, _refused)
            refused.append(OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic.topic, partitions))
            yield
            continue
        partitions = yield from each(topic.partitions, partial(_find, replicas, topic.topic))
        topics.append(OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic.topic, partitions))
        yield
    return OffsetForLeaderEpochResponse(topics=[*topics, *refused])


def _refused(partition: OffsetForLeaderEpochRequest.OffsetForLeaderPartition) -> EpochEndOffset:
    return EpochEndOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED, partition.partition)


def _find(
    replicas: Replicas, topic: str, partition: OffsetForLeaderEpochRequest.OffsetForLeaderPartition
) -> EpochEndOffset:
    try:
        log = replicas.leader(topic, partition.partition, partition.current_leader_epoch).log
        return EpochEndOffset(ErrorCode.NONE, partition.partition, *log.end_of_epoch(partition.leader_epoch))
    except BrokerError as error:
        return EpochEndOffset(error.code, partition.partition)
