"""Metadata: brokers, topics, partitions and their leaders.

1: rack, controller, internal topics; null asks for all topics, as the empty list does in 0. 2: cluster id. 3: throttle
time. 4: whether to auto-create topics. 5: offline replicas. 7: leader epoch. 8: authorized operations (of the cluster
until 10). 9: flexible. 10: topic ids. 12: ask by topic id. 13: an error code for the whole response.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.internal_topics import INTERNAL_TOPICS
from kafkawire.reference_broker.metadata.local_topics import LocalTopics
from kafkawire.reference_broker.metadata.new_topics import PARTITIONS_MAX, check_characters
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, Parts
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory, Topic
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.work.pieces import Work, each
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID

__all__ = ["handle"]


#: Earlier versions have topic ids, and names may be null, but Kafka's brokers do not take either.
_BY_ID_SINCE = 12


@serves(ApiKey.METADATA)
def handle(
    call: Call, request: MetadataRequest, *, directory: LogDirectory, options: BrokerOptions, topics: LocalTopics
) -> Work[MetadataResponse | DelayedOperation]:
    """Handle Metadata; the response is delayed while topics are created for it."""
    parts: Parts[MetadataResponse] = Parts()
    by_name = call.version < _BY_ID_SINCE
    # What is named twice is answered once; where there are ids, names do not count.
    ids: dict[bytes, None] = {}
    names: dict[str | None, None] = {}
    for wanted in request.topics or ():
        if by_name and (wanted.name is None or wanted.topic_id != ZERO_UUID):
            reason = f"topics have no ids in version {call.version}, and need a name"
            raise BrokerError(ErrorCode.INVALID_REQUEST, reason)
        if wanted.topic_id != ZERO_UUID:
            ids[wanted.topic_id] = None
        names[wanted.name] = None
        yield
    is_first_version = call.version == APIS[ApiKey.METADATA].versions.first
    if request.topics is None or (is_first_version and not request.topics):
        described = yield from _describe_all(options, directory)
    else:
        if ids:
            names.clear()
        refusal = yield from _refusal(options, directory, names, request.allow_auto_topic_creation)
        described = []
        for topic_id in ids:
            described.append((yield from _find_id(options, directory, topic_id)))
            yield
        for name in names:
            described.append((yield from _find(options, directory, topics, name, parts, refusal)))
            yield
    response = MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(options.node_id, *call.peer.listener.advertised)],
        cluster_id=directory.cluster_id,
        controller_id=options.node_id,
        topics=described,
    )
    if request.include_topic_authorized_operations:
        for topic in described:
            if topic.name is not None:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
            yield
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return parts.respond(response)


def _describe_all(
    options: BrokerOptions, directory: LogDirectory
) -> Work[list[MetadataResponse.MetadataResponseTopic]]:
    """Describe all topics but those that are deleted meanwhile."""
    known = directory.topics
    topics = []
    for topic in tuple(known.values()):
        if known.get(topic.name) is topic:
            topics.append((yield from _describe(options, topic)))
        yield
    return topics


def _refusal(
    options: BrokerOptions, directory: LogDirectory, names: Iterable[str | None], may_create: bool
) -> Work[BrokerError | None]:
    """Return why those topics that do not exist are not created, if there is a reason."""
    if not (may_create and options.auto_create_topics):
        return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    missing = sum((yield from each(names, lambda name: name not in directory.topics)))
    if missing * options.num_partitions > PARTITIONS_MAX:
        return BrokerError(ErrorCode.POLICY_VIOLATION)
    return None


def _find_id(
    options: BrokerOptions, directory: LogDirectory, topic_id: bytes
) -> Work[MetadataResponse.MetadataResponseTopic]:
    topic = directory.topics_by_id.get(topic_id)
    if topic is None:
        return MetadataResponse.MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
    return (yield from _describe(options, topic))


def _find(
    options: BrokerOptions,
    directory: LogDirectory,
    topics: LocalTopics,
    name: str | None,
    parts: Parts[MetadataResponse],
    refusal: BrokerError | None,
) -> Work[MetadataResponse.MetadataResponseTopic]:
    if name is None:
        return MetadataResponse.MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None)
    topic = directory.topics.get(name)
    if topic is not None:
        return (yield from _describe(options, topic))
    response = MetadataResponse.MetadataResponseTopic(name=name)

    def created(made: Topic | BrokerError) -> None:
        if isinstance(made, BrokerError):
            response.error_code = made.code
        else:
            _fill(made, response)
            response.partitions = [_partition(options, number, log) for number, log in enumerate(made.logs)]
        parts.arrived()

    parts.expect()
    try:
        if refusal is not None:
            # An invalid name gets its own error, so that clients do not wait for the topic to appear.
            check_characters(name)
            raise refusal.again()
        topics.create_by_default(name, created)
    except BrokerError as error:
        created(error)
    return response


def _describe(options: BrokerOptions, topic: Topic) -> Work[MetadataResponse.MetadataResponseTopic]:
    response = MetadataResponse.MetadataResponseTopic(name=topic.name)
    _fill(topic, response)
    partitions: list[MetadataResponse.MetadataResponsePartition] = []
    response.partitions = partitions
    for number, log in enumerate(topic.logs):
        partitions.append(_partition(options, number, log))
        yield
    return response


def _fill(topic: Topic, response: MetadataResponse.MetadataResponseTopic) -> None:
    response.topic_id = topic.topic_id
    response.is_internal = topic.name in INTERNAL_TOPICS


def _partition(options: BrokerOptions, number: int, log: PartitionLog) -> MetadataResponse.MetadataResponsePartition:
    node = (options.node_id,)
    return MetadataResponse.MetadataResponsePartition(
        # As Kafka shows a replica on a disk that has failed.
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if log.is_offline else ErrorCode.NONE,
        partition_index=number,
        leader_id=NO_LEADER_ID if log.is_offline else node[0],
        leader_epoch=log.leader_epoch,
        replica_nodes=node,
        isr_nodes=node,
        offline_replicas=node if log.is_offline else (),
    )
