"""FindCoordinator: which broker coordinates a group, or the transactions of a transactional id.

0: groups only. 1: throttle time, transactions, error texts. 3: flexible. 4: several keys at once. 6: share groups.

A partition whose log is offline has no leader, and those who belong to it have no coordinator.

Share groups have no coordinator here yet; clients get a retriable error.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves, since
from kafkawire.reference_broker.coordinators.placement import partition_of
from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.reference_broker.log.log_directory import Topic
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID, CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_SEVERAL_SINCE = since(FindCoordinatorRequest, "coordinator_keys")

#: Share groups came with KIP-932, which added no field.
_SHARE_SINCE = 6

_NO_PORT = -1


@serves(ApiKey.FIND_COORDINATOR)
def handle(call: Call, request: FindCoordinatorRequest) -> DelayedOperation | FindCoordinatorResponse:
    """Handle FindCoordinator; the response is delayed while the coordinator's topic is created."""
    if request.key_type == CoordinatorType.GROUP:
        create = call.core.create_offsets_topic
    elif request.key_type == CoordinatorType.TRANSACTION:
        create = call.core.create_transactions_topic
    else:
        return _respond(call, request, None)
    delayed = DelayedOperation()
    create(lambda made: delayed.complete(_respond(call, request, made)))
    return delayed


def _respond(call: Call, request: FindCoordinatorRequest, made: Topic | BrokerError | None) -> FindCoordinatorResponse:
    if call.version >= _SEVERAL_SINCE:
        found = [_find(call, request, key, made) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _find(call, request, request.key, made)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message if one.error_code else ErrorCode.NONE.name,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(
    call: Call, request: FindCoordinatorRequest, key: str, made: Topic | BrokerError | None
) -> FindCoordinatorResponse.Coordinator:
    kinds = [kind for kind in CoordinatorType if kind is not CoordinatorType.SHARE or call.version >= _SHARE_SINCE]
    if request.key_type not in kinds:
        return _none(key, ErrorCode.INVALID_REQUEST, f"key type {request.key_type} is unknown")
    if made is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "there is no share coordinator")
    if isinstance(made, BrokerError):
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, made.detail)
    if made.logs[number := partition_of(key, len(made.logs))].is_offline:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the log of {made.name}-{number} is offline")
    return FindCoordinatorResponse.Coordinator(key, call.core.options.node_id, *call.peer.listener.advertised)


def _none(key: str, code: ErrorCode, text: str) -> FindCoordinatorResponse.Coordinator:
    return FindCoordinatorResponse.Coordinator(key, NO_LEADER_ID, port=_NO_PORT, error_code=code, error_message=text)
