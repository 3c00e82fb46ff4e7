"""Metadata: return the brokers, the topics, and their partitions and leaders.

1: rack, controller, internal topics; null asks for all topics, as the empty list does in 0. 2: cluster id. 3: throttle
time. 4: whether to auto-create topics. 5: offline replicas. 7: leader epoch. 8: authorized operations (for the cluster,
until 10). 9: flexible. 10: topic ids. 12: ask by topic id. 13: an error code for the whole response.

As in Kafka, the response reports a topic that is about to be created as unknown, and the client asks again. A client
that may not describe a topic is not told whether it exists.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.automatic_topics import create_automatically
from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION, MetadataImage, PartitionImage, TopicImage
from kafkawire.reference_broker.metadata.internal_topics import INTERNAL_TOPICS
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.metadata.new_topics import check_characters
from kafkawire.reference_broker.metadata.topic_controller import TopicController
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import allows_on_cluster
from kafkawire.reference_broker.requests.authorized_operations import authorized_operations
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.throttling import Throttling
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.acls import CLUSTER_NAME
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID, AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID

__all__ = ["handle"]

Partition = MetadataResponse.MetadataResponsePartition
Topic = MetadataResponse.MetadataResponseTopic

#: The operations of a client that may not even describe the cluster.
_NO_OPERATIONS = 0

#: In version 0, replicas that the client cannot reach are left out.
_UNREACHABLE_REPLICAS_SINCE = 1

#: Since version 6, the client is told if the leader is alive but does not have the client's listener.
_LISTENER_ERRORS_SINCE = 6

#: Earlier versions have topic ids and nullable names, but Kafka's brokers do not accept them.
_BY_ID_SINCE = 12


@serves(ApiKey.METADATA)
def handle(
    call: Call,
    request: MetadataRequest,
    *,
    authorizer: Authorizer,
    metadata: MetadataCache,
    options: BrokerOptions,
    throttling: Throttling,
    topics: TopicController,
) -> Work[MetadataResponse]:
    """Handle Metadata, and start creating missing topics if the client allows it."""
    by_name = call.version < _BY_ID_SINCE
    # Each topic appears once in the response, even if requested twice; names are ignored where ids are given.
    ids: dict[bytes, None] = {}
    names: dict[str | None, None] = {}
    for wanted in request.topics or ():
        if by_name and (wanted.name is None or wanted.topic_id != ZERO_UUID):
            reason = f"topics cannot be requested by id in version {call.version}, so a name is required"
            raise BrokerError(ErrorCode.INVALID_REQUEST, reason)
        if wanted.topic_id != ZERO_UUID:
            ids[wanted.topic_id] = None
        names[wanted.name] = None
        yield
    is_first_version = call.version == APIS[ApiKey.METADATA].versions.first
    view = _View(metadata.image, call.peer.listener.name, call.version)
    access = _Access(authorizer, call, creates=request.allow_auto_topic_creation and options.auto_create_topics)
    #: The topics that the client may not describe, and may not create; they come last, as in Kafka.
    refused: list[Topic] = []
    if request.topics is None or (is_first_version and not request.topics):
        described = yield from _describe_all(metadata, view, access)
    else:
        if ids:
            names.clear()
        described = []
        for topic_id in ids:
            topic = yield from _find_id(metadata.image, view, access, topic_id)
            (refused if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED else described).append(topic)
            yield
        missing = []
        for name in names:
            topic = yield from _find(metadata.image, view, access, name)
            (refused if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED else described).append(topic)
            if name is not None and topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                missing.append(name)
            yield
        if access.creates:
            permit = throttling.automatic_permits(call).take
            yield from create_automatically(topics, options, missing, call.services.lines, call.now_ms, permit)
    image = metadata.image
    response = MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(broker.broker_id, *address, broker.rack)
            for broker, address in image.reachable(call.peer.listener.name)
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=[*described, *refused] if refused else described,
    )
    if request.include_topic_authorized_operations:
        yield from _add_operations(described, authorizer, call)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = (
            authorized_operations(authorizer, call, ResourceType.CLUSTER, CLUSTER_NAME)
            if allows_on_cluster(authorizer, call, AclOperation.DESCRIBE)
            else _NO_OPERATIONS
        )
    return response


def _add_operations(topics: Sequence[Topic], authorizer: Authorizer, call: Call) -> Work[None]:
    """Add the operations that the client may perform on topics."""
    for topic in topics:
        if topic.name is not None:
            topic.topic_authorized_operations = authorized_operations(authorizer, call, ResourceType.TOPIC, topic.name)
        yield


class _Access:
    """What the client may do with topics.

    Args:
        authorizer: decides.
        call: the context of the request.
        creates: whether missing topics are created.

    Attributes:
        creates: see above.
    """

    __slots__ = ("_authorizer", "_call", "creates")

    def __init__(self, authorizer: Authorizer, call: Call, *, creates: bool) -> None:
        self._authorizer = authorizer
        self._call = call
        self.creates = creates

    def may_describe(self, name: str, *, logs_denied: bool = True) -> bool:
        """Return whether the client may describe a topic."""
        return self._authorizer.allows(
            self._call, AclOperation.DESCRIBE, ResourceType.TOPIC, name, logs_denied=logs_denied
        )

    def may_create(self, name: str) -> bool:
        """Return whether the client may create a topic, by the cluster's ACLs or its own."""
        authorizer, call = self._authorizer, self._call
        return allows_on_cluster(authorizer, call, AclOperation.CREATE, logs_denied=False) or authorizer.allows(
            call, AclOperation.CREATE, ResourceType.TOPIC, name
        )


class _View:
    """The brokers as the client sees them; it can use a leader only if it gets the leader's address.

    Args:
        image: holds the brokers.
        listener: the listener to which the client is connected.
        version: the version of the request.

    Attributes:
        hides_unreachable: whether to leave out replicas that the client cannot reach, as in Kafka.
        reachable: the ids of the brokers that the client can reach.
    """

    __slots__ = ("_alive", "_knows_listener_errors", "hides_unreachable", "reachable")

    def __init__(self, image: MetadataImage, listener: str, version: int) -> None:
        self.reachable = {broker.broker_id for broker, _ in image.reachable(listener)}
        self._alive = image.brokers.keys()
        self._knows_listener_errors = version >= _LISTENER_ERRORS_SINCE
        self.hides_unreachable = version < _UNREACHABLE_REPLICAS_SINCE

    def leader_error(self, partition: PartitionImage) -> ErrorCode:
        """Return the error for a partition whose leader the client cannot reach."""
        if self._knows_listener_errors and partition.leader in self._alive:
            return ErrorCode.LISTENER_NOT_FOUND
        return ErrorCode.LEADER_NOT_AVAILABLE

    def hide_unreachable(self, described: Sequence[Partition]) -> Work[None]:
        """Leave out replicas that the client cannot reach."""
        for partition in described:
            for name in ("replica_nodes", "isr_nodes"):
                broker_ids = getattr(partition, name)
                kept = [broker_id for broker_id in broker_ids if broker_id in self.reachable]
                if len(kept) < len(broker_ids):
                    setattr(partition, name, kept)
                    partition.error_code = partition.error_code or ErrorCode.REPLICA_NOT_AVAILABLE
            yield


def _describe_all(metadata: MetadataCache, view: _View, access: _Access) -> Work[list[Topic]]:
    """Describe all topics except those that the client may not describe, or that are deleted in the meantime."""
    topics = []
    image = metadata.image
    for topic in image.topics.values():
        is_here = metadata.image is image or _has(metadata.image, topic)
        if is_here and access.may_describe(topic.name, logs_denied=False):
            topics.append((yield from _describe(topic, view)))
        yield
    return topics


def _has(image: MetadataImage, topic: TopicImage) -> bool:
    known = image.topics.get(topic.name)
    return known is not None and known.topic_id == topic.topic_id


def _find_id(image: MetadataImage, view: _View, access: _Access, topic_id: bytes) -> Work[Topic]:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return Topic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
    if not access.may_describe(topic.name):
        return Topic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id)
    return (yield from _describe(topic, view))


def _find(image: MetadataImage, view: _View, access: _Access, name: str | None) -> Work[Topic]:
    if name is None:
        return Topic(ErrorCode.UNKNOWN_TOPIC_ID, None)
    if not access.may_describe(name):
        return Topic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    topic = image.topics.get(name)
    if topic is not None:
        return (yield from _describe(topic, view))
    if access.creates and not access.may_create(name):
        return Topic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, is_internal=name in INTERNAL_TOPICS)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        # An invalid name gets its own error, so clients do not wait for the topic to appear.
        check_characters(name)
    except BrokerError as error:
        code = error.code
    return Topic(code, name, is_internal=name in INTERNAL_TOPICS)


def _describe(topic: TopicImage, view: _View) -> Work[Topic]:
    partitions: list[Partition] = []
    reachable = view.reachable
    for number, partition in enumerate(topic.partitions):
        leader = partition.leader
        if leader in reachable:
            code = ErrorCode.NONE
        elif partition is UNKNOWN_PARTITION:
            yield
            continue
        else:
            leader, code = NO_LEADER_ID, view.leader_error(partition)
        partitions.append(
            Partition(
                code,
                number,
                leader,
                partition.leader_epoch,
                partition.replicas,
                partition.isr,
                partition.offline_replicas,
            )
        )
        yield
    if view.hides_unreachable:
        yield from view.hide_unreachable(partitions)
    return Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
    )
