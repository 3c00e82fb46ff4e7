"""FindCoordinator: find the broker that coordinates a group or a transactional id.

0: groups only. 1: throttle time, transactions, error texts. 3: flexible. 4: several keys at once. 6: share groups.

The response waits while the coordinator's topic is being created. Apache Kafka answers COORDINATOR_NOT_AVAILABLE
immediately, after which the client backs off; that way, the first join on an in-memory broker would take 125 ms instead
of 40 ms.

A partition may have no leader, for example because its log is offline; its groups and transactional ids then have no
coordinator. The key of a share coordinator is a share partition, `GROUP:TOPIC_ID:PARTITION`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafkawire.reference_broker.config.features import SHARE_VERSION_FEATURE
from kafkawire.reference_broker.coordinators.placement import partition_of
from kafkawire.reference_broker.metadata.image import TopicImage
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.metadata.topic_controller import TopicController
from kafkawire.reference_broker.requests.api_handlers import serves, since
from kafkawire.reference_broker.requests.authorization import allows_on_cluster, not_authorized
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.merged_response import collect_with_repetitions
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError, LocalProtocolError
from kafkawire.sdk.options import parse_integer
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import (
    CONSUMER_OFFSETS_TOPIC,
    NO_LEADER_ID,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    AclOperation,
    CoordinatorType,
    ResourceType,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import parse_uuid

__all__ = ["handle"]

Coordinator = FindCoordinatorResponse.Coordinator

_SEVERAL_SINCE = since(FindCoordinatorRequest, "coordinator_keys")

#: Share groups came with KIP-932, which added no field.
_SHARE_SINCE = 6

#: The topic of each type of coordinator.
_TOPICS: Mapping[int, str] = {
    CoordinatorType.GROUP: CONSUMER_OFFSETS_TOPIC,
    CoordinatorType.TRANSACTION: TRANSACTION_STATE_TOPIC,
    CoordinatorType.SHARE: SHARE_GROUP_STATE_TOPIC,
}

_NO_PORT = -1

#: The types of the resources that keys name.
_PROTECTED = {
    int(CoordinatorType.GROUP): ResourceType.GROUP,
    int(CoordinatorType.TRANSACTION): ResourceType.TRANSACTIONAL_ID,
}


@serves(ApiKey.FIND_COORDINATOR)
def handle(
    call: Call,
    request: FindCoordinatorRequest,
    *,
    authorizer: Authorizer,
    metadata: MetadataCache,
    topics: TopicController,
) -> Work[Message | DelayedOperation]:
    """Handle FindCoordinator; the response is delayed while the coordinator's topic is being created."""
    is_of_shares = request.key_type == CoordinatorType.SHARE and call.version >= _SHARE_SINCE
    # Only brokers may ask for the coordinators of share groups.
    is_refused = is_of_shares and not allows_on_cluster(authorizer, call, AclOperation.CLUSTER_ACTION)
    protected = _PROTECTED.get(request.key_type)

    has_shares = SHARE_VERSION_FEATURE in metadata.image.features.levels

    def ask(key: str, put: Callable[[Coordinator], None]) -> None:
        def created(made: TopicImage | BrokerError) -> None:
            put(_find(call, metadata, topics, key, made))

        if is_refused:
            error = not_authorized(ResourceType.CLUSTER)
            put(_none(key, error.code, error.detail))
        elif protected is not None and not authorizer.allows(call, AclOperation.DESCRIBE, protected, key):
            error = not_authorized(protected)
            put(_none(key, error.code, error.detail if call.version < _SEVERAL_SINCE else ""))
        elif request.key_type not in _TOPICS or (
            request.key_type == CoordinatorType.SHARE and call.version < _SHARE_SINCE
        ):
            put(_none(key, ErrorCode.INVALID_REQUEST, f"unknown key type {request.key_type}"))
        elif request.key_type == CoordinatorType.SHARE and not _is_share_partition(key):
            put(_none(key, ErrorCode.INVALID_REQUEST, f"{key!r:.300} is not of the form GROUP:TOPIC_ID:PARTITION"))
        elif request.key_type == CoordinatorType.SHARE and not has_shares:
            put(_none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "this cluster has no share groups"))
        else:
            topics.ensure(_TOPICS[request.key_type], created)

    if call.version >= _SEVERAL_SINCE:
        return (
            yield from collect_with_repetitions(
                call, request.coordinator_keys, ask, lambda found: FindCoordinatorResponse(coordinators=found)
            )
        )
    return (yield from collect_with_repetitions(call, [request.key], ask, _single))


def _single(found: Sequence[Coordinator]) -> FindCoordinatorResponse:
    """Return the response for versions with a single key."""
    (one,) = found
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message if one.error_code else ErrorCode.NONE.name,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(
    call: Call,
    metadata: MetadataCache,
    topics: TopicController,
    key: str,
    made: TopicImage | BrokerError,
) -> Coordinator:
    if isinstance(made, BrokerError):
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, made.detail)
    leader = made.partition(number := partition_of(key, topics.size_of(made))).leader
    if leader == NO_LEADER_ID:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{made.name}-{number} has no leader")
    address = metadata.image.address(leader, call.peer.listener.name)
    if address is None:
        reason = f"broker {leader} has no listener {call.peer.listener.name}"
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)
    return Coordinator(key, leader, *address)


def _is_share_partition(key: str) -> bool:
    """Return whether a key is GROUP:TOPIC_ID:PARTITION, as used for share groups; the group may contain colons."""
    *group, topic_id, number = ["", "", *key.rstrip(":").split(":")]
    try:
        parse_uuid(topic_id)
    except LocalProtocolError:
        return False
    return bool(group[-1].strip()) and isinstance(parse_integer(number), int)


def _none(key: str, code: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key, NO_LEADER_ID, port=_NO_PORT, error_code=code, error_message=text)
