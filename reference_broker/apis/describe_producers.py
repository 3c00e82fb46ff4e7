"""DescribeProducers: return the state of producers in partition logs, which helps to find hanging transactions.

0: the only version (KIP-664).
"""

from __future__ import annotations

from functools import partial

from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.metadata.new_topics import check_characters
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import not_authorized
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.storage.producers.producer_snapshots import in_table_order
from kafkawire.reference_broker.work.pieces import Work, each
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_OFFSET, AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

PartitionResponse = DescribeProducersResponse.PartitionResponse
ProducerState = DescribeProducersResponse.ProducerState


@serves(ApiKey.DESCRIBE_PRODUCERS)
def handle(
    call: Call,
    request: DescribeProducersRequest,
    *,
    authorizer: Authorizer,
    metadata: MetadataCache,
    replicas: Replicas,
) -> Work[DescribeProducersResponse]:
    """Handle DescribeProducers."""
    topics = []
    for topic in request.topics:
        refusal = _refusal(authorizer, call, metadata, topic.name)
        partitions = yield from each(topic.partition_indexes, partial(_describe, replicas, topic.name, refusal))
        topics.append(DescribeProducersResponse.TopicResponse(topic.name, partitions))
        yield
    return DescribeProducersResponse(topics=topics)


def _refusal(authorizer: Authorizer, call: Call, metadata: MetadataCache, name: str) -> BrokerError | None:
    """Return why none of a topic's producers are described, or None."""
    try:
        check_characters(name)
    except BrokerError as error:
        return error
    if not authorizer.allows(call, AclOperation.READ, ResourceType.TOPIC, name):
        return not_authorized(ResourceType.TOPIC)
    if name not in metadata.image.topics:
        reason = "This server does not host this topic-partition."
        return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
    return None


def _describe(replicas: Replicas, name: str, refusal: BrokerError | None, number: int) -> PartitionResponse:
    try:
        if refusal is not None:
            raise refusal.again()
        replica = replicas.get(name, number)
        if replica is None:
            raise replicas.missing(name, number)
        if replica.error is not None:
            raise BrokerError(replica.error.code)
    except BrokerError as error:
        return PartitionResponse(number, error.code, error.detail or None)
    return PartitionResponse(
        number,
        active_producers=[
            ProducerState(
                producer.producer_id,
                producer.epoch,
                producer.last_sequence,
                producer.last_timestamp,
                producer.coordinator_epoch,
                UNKNOWN_OFFSET if producer.transaction_start is None else producer.transaction_start,
            )
            for producer in in_table_order(replica.log.producers)
        ],
    )
