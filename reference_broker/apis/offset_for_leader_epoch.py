"""OffsetForLeaderEpoch: return the end of a leader epoch, which lets clients detect that a log was truncated.

2: lowest version of Kafka 4. 3: the id of the requesting replica. 4: flexible.
"""

from __future__ import annotations

from functools import partial

from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.work.pieces import Work, each
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

EpochEndOffset = OffsetForLeaderEpochResponse.EpochEndOffset


@serves(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def handle(
    call: Call, request: OffsetForLeaderEpochRequest, *, replicas: Replicas
) -> Work[OffsetForLeaderEpochResponse]:
    """Handle OffsetForLeaderEpoch."""
    topics = []
    for topic in request.topics:
        partitions = yield from each(topic.partitions, partial(_find, replicas, topic.topic))
        topics.append(OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic.topic, partitions))
        yield
    return OffsetForLeaderEpochResponse(topics=topics)


def _find(
    replicas: Replicas, topic: str, partition: OffsetForLeaderEpochRequest.OffsetForLeaderPartition
) -> EpochEndOffset:
    try:
        log = replicas.leader(topic, partition.partition, partition.current_leader_epoch).log
        return EpochEndOffset(ErrorCode.NONE, partition.partition, *log.end_of_epoch(partition.leader_epoch))
    except BrokerError as error:
        return EpochEndOffset(error.code, partition.partition)
