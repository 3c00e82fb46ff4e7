"""LeaderAndIsr: the controller of a ZooKeeper-based cluster tells a broker which partitions it leads and follows.

0: lowest version. 1: whether a replica is new. 2: broker epoch, partitions by topic. 3: adding and removing replicas
(KIP-455). 4: flexible. 5: topic ids. 6: recovery of leaders. 7: KRaft controllers.
"""

from __future__ import annotations

from kafkawire.reference_broker.cluster.controller.broker_requests import ControlRequest
from kafkawire.reference_broker.replicas.control_requests import ControlRequests
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation

__all__ = ["handle", "pass_on"]


@serves(ApiKey.LEADER_AND_ISR, KNOWN_APIS[ApiKey.LEADER_AND_ISR].known_versions, scope=Scope.CLUSTER)
def handle(
    call: Call, request: LeaderAndIsrRequest, *, authorizer: Authorizer, control_requests: ControlRequests
) -> Message | DelayedOperation:
    """Handle LeaderAndIsr; the response waits until the logs exist and the roles have changed.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_on_cluster(authorizer, call, AclOperation.CLUSTER_ACTION)
    return pass_on(call, request, control_requests)


def pass_on(call: Call, request: Message, control_requests: ControlRequests) -> Message | DelayedOperation:
    """Put a request into the queue of controller requests; return the response, or a delayed one.

    Args:
        call: the request's context.
        request: LeaderAndIsr, StopReplica or UpdateMetadata.
        control_requests: the queue.

    Raises:
        RemoteProtocolError: too many requests are waiting; the controller will resend this one over a new connection.
    """
    arrived: list[Message | Exception] = []
    delayed: DelayedOperation | None = None

    def done(outcome: Message | Exception) -> None:
        arrived.append(outcome)
        if delayed is not None:
            delayed.complete_by(response)

    def response() -> Message:
        if isinstance(arrived[0], Exception):
            raise arrived[0]
        return arrived[0]

    control_requests.take(ControlRequest(request, call.version), done)
    if arrived:
        return response()
    delayed = DelayedOperation()
    return delayed
