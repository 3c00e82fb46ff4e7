"""Metadata: brokers, topics, partitions and their leaders.

1: rack, controller, internal topics; null asks for all topics, as the empty list does in 0. 2: cluster id. 3: throttle
time. 4: whether to auto-create topics. 5: offline replicas. 7: leader epoch. 8: authorized operations (of the cluster
until 10). 9: flexible. 10: topic ids. 12: ask by topic id. 13: an error code for the whole response.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves
from kafkawire.reference_broker.core import INTERNAL_TOPICS, Core
from kafkawire.reference_broker.log.log_directory import Topic
from kafkawire.reference_broker.topics import check_characters, create_by_default
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import CONSUMER_OFFSETS_TOPIC
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID

__all__ = ["handle"]


@serves(ApiKey.METADATA)
def handle(call: Call, request: MetadataRequest) -> MetadataResponse:
    """Handle Metadata."""
    core = call.core
    is_first_version = call.version == APIS[ApiKey.METADATA].versions.first
    if request.topics is None or (is_first_version and not request.topics):
        topics = [_describe(call, topic) for topic in core.directory.topics.values()]
    else:
        topics = [_find(call, wanted, request.allow_auto_topic_creation) for wanted in request.topics]
    return MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(core.options.node_id, core.address.host, core.address.port)],
        cluster_id=core.directory.cluster_id,
        controller_id=core.options.node_id,
        topics=topics,
    )


def _find(
    call: Call, wanted: MetadataRequest.MetadataRequestTopic, may_create: bool
) -> MetadataResponse.MetadataResponseTopic:
    core = call.core
    if wanted.name is None or wanted.topic_id != ZERO_UUID:
        topic = core.directory.topics_by_id.get(wanted.topic_id)
        if topic is None:
            return MetadataResponse.MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, wanted.name, wanted.topic_id)
        return _describe(call, topic)
    topic = core.directory.topics.get(wanted.name)
    if topic is None:
        try:
            topic = _create(core, wanted.name, may_create)
        except BrokerError as error:
            return MetadataResponse.MetadataResponseTopic(error.code, wanted.name)
    return _describe(call, topic)


def _create(core: Core, name: str, may_create: bool) -> Topic:
    if not (may_create and core.options.auto_create_topics):
        # An invalid name gets its own error, so that clients do not wait for the topic to appear.
        check_characters(name)
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return core.offsets_topic() if name == CONSUMER_OFFSETS_TOPIC else create_by_default(core, name)


def _describe(call: Call, topic: Topic) -> MetadataResponse.MetadataResponseTopic:
    node = (call.core.options.node_id,)
    return MetadataResponse.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            MetadataResponse.MetadataResponsePartition(
                partition_index=number,
                leader_id=node[0],
                leader_epoch=log.leader_epoch,
                replica_nodes=node,
                isr_nodes=node,
            )
            for number, log in enumerate(topic.logs)
        ],
    )
