"""StopReplica: the controller of a ZooKeeper-based cluster ends the roles of replicas, and requests some deletions.

0: lowest version. 1: broker epoch, partitions by topic. 2: flexible. 3: leader epoch, and deletion by partition. 4:
KRaft controllers.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.leader_and_isr import pass_on
from kafkawire.reference_broker.replicas.control_requests import ControlRequests
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.sdk.protocol.messages.stop_replica import StopReplicaRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation

__all__ = ["handle"]


@serves(ApiKey.STOP_REPLICA, KNOWN_APIS[ApiKey.STOP_REPLICA].known_versions, scope=Scope.CLUSTER)
def handle(
    call: Call, request: StopReplicaRequest, *, authorizer: Authorizer, control_requests: ControlRequests
) -> Message | DelayedOperation:
    """Handle StopReplica; the response waits until deletions are durable.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_on_cluster(authorizer, call, AclOperation.CLUSTER_ACTION)
    return pass_on(call, request, control_requests)
