"""StreamsGroupHeartbeat: join, stay in, or leave a streams group (KIP-1071).

0: the only version.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.streams.group import Tasks
from kafkawire.reference_broker.groups.streams.internal_topics import InternalTopics
from kafkawire.reference_broker.groups.streams.requests import StreamsBeat, StreamsHeartbeat, check_heartbeat
from kafkawire.reference_broker.groups.streams.topology import Topology, topology_of
from kafkawire.reference_broker.metadata.internal_topics import INTERNAL_TOPICS
from kafkawire.reference_broker.metadata.new_topics import check_characters
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorization import allows_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType, StreamsGroupStatus
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

#: For this many heartbeats, members are told why an internal topic could not be created.
_ERROR_HEARTBEATS = 2

#: The number of such topics that a text names.
_ERRORS_TOLD = 3


@serves(ApiKey.STREAMS_GROUP_HEARTBEAT, scope=Scope.ALONE)
def handle(
    call: Call,
    request: StreamsGroupHeartbeatRequest,
    *,
    authorizer: Authorizer,
    groups: GroupCoordinator,
    streams_topics: InternalTopics,
) -> Work[StreamsGroupHeartbeatResponse | DelayedOperation]:
    """Handle StreamsGroupHeartbeat, and start to create the internal topics that the group lacks."""
    if not authorizer.allows(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    topology = None if request.topology is None else topology_of(request.topology)
    if topology is not None:
        names = topology.names
        _check_names(names)
        for name in names:
            if not authorizer.allows(call, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
                return StreamsGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            yield
    check_heartbeat(request)
    delayed = DelayedOperation()

    def answer(outcome: StreamsBeat | BrokerError) -> None:
        if isinstance(outcome, BrokerError):
            delayed.complete(
                StreamsGroupHeartbeatResponse(error_code=outcome.code, error_message=outcome.detail or None)
            )
        else:
            if denied := _denied_creations(authorizer, call, outcome.missing):
                _tell_denied(outcome.response, denied)
            elif outcome.missing:
                _create_topics(streams_topics, outcome, call.now_ms)
            delayed.complete(outcome.response)

    heartbeat = _heartbeat(call, request, topology)
    groups.submit_streams(request.group_id, lambda streams: streams.beat(heartbeat, call.now_ms), answer, call.now_ms)
    return delayed


def _check_names(names: Iterable[str]) -> None:
    """Check the names of a topology's topics.

    Raises:
        BrokerError: STREAMS_INVALID_TOPOLOGY.
    """
    if internal := [name for name in names if name in INTERNAL_TOPICS]:
        text = f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
        raise BrokerError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    if invalid := [name for name in names if not _is_valid(name)]:
        text = f"Topic names {','.join(invalid)} are not valid topic names."
        raise BrokerError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def _is_valid(name: str) -> bool:
    try:
        check_characters(name)
    except BrokerError:
        return False
    return True


def _heartbeat(call: Call, request: StreamsGroupHeartbeatRequest, topology: Topology | None) -> StreamsHeartbeat:
    endpoint, tags = request.user_endpoint, request.client_tags
    return StreamsHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.endpoint_information_epoch,
        request.rack_id,
        request.rebalance_timeout_ms,
        topology,
        _owned(request),
        request.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        None if tags is None else {tag.key: tag.value for tag in tags},
        request.shutdown_application,
        call.client_id,
        call.client_host,
    )


def _owned(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Return the tasks that a member reports; None unless it reports those in every role."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return Tasks(_numbers(active), _numbers(standby), _numbers(warmup))


def _numbers(tasks: Iterable[StreamsGroupHeartbeatRequest.TaskIds]) -> dict[str, frozenset[int]]:
    return {part.subtopology_id: frozenset(part.partitions) for part in tasks}


def _denied_creations(authorizer: Authorizer, call: Call, names: Iterable[str]) -> list[str]:
    """Return the topics that a client may not create."""
    denied: list[str] = []
    for name in names:
        if authorizer.allows(call, AclOperation.CREATE, ResourceType.TOPIC, name):
            continue
        if allows_on_cluster(authorizer, call, AclOperation.CREATE, logs_denied=False):
            return []
        denied.append(name)
    return denied


def _tell_denied(response: StreamsGroupHeartbeatResponse, names: Iterable[str]) -> None:
    """Add to a response that internal topics are missing because the client may not create them."""
    reason = f"Unauthorized to CREATE on topics {', '.join(names)}."
    for status in response.status or ():
        if status.status_code == StreamsGroupStatus.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {reason}"
            return
    told = StreamsGroupHeartbeatResponse.Status(StreamsGroupStatus.MISSING_INTERNAL_TOPICS, reason)
    response.status = [*(response.status or ()), told]


def _create_topics(streams_topics: InternalTopics, beat: StreamsBeat, now_ms: int) -> None:
    """Start to create the missing internal topics, and tell why earlier attempts failed."""
    errors = streams_topics.errors(beat.missing, now_ms)
    streams_topics.create(beat.missing.values(), beat.heartbeat_interval_ms * _ERROR_HEARTBEATS, now_ms)
    for status in beat.response.status or ():
        if errors and status.status_code == StreamsGroupStatus.MISSING_INTERNAL_TOPICS:
            told = ", ".join(f"{name} ({error})" for name, error in list(errors.items())[:_ERRORS_TOLD])
            more = f" and {len(errors) - _ERRORS_TOLD} more" if len(errors) > _ERRORS_TOLD else ""
            status.status_detail += f"; Creation failed: {told}{more}."
