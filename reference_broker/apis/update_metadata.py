"""UpdateMetadata: the controller of a ZooKeeper-based cluster tells a broker about brokers and partitions.

0: lowest version. 1: endpoints. 2: racks. 3: listeners. 4: offline replicas. 5: broker epoch, partitions by topic. 6:
flexible. 7: topic ids. 8: KRaft controllers.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.leader_and_isr import pass_on
from kafkawire.reference_broker.replicas.control_requests import ControlRequests
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation

__all__ = ["handle"]


@serves(ApiKey.UPDATE_METADATA, KNOWN_APIS[ApiKey.UPDATE_METADATA].known_versions, scope=Scope.CLUSTER)
def handle(
    call: Call, request: UpdateMetadataRequest, *, authorizer: Authorizer, control_requests: ControlRequests
) -> Message | DelayedOperation:
    """Handle UpdateMetadata; the response waits until the metadata served to clients has changed.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_on_cluster(authorizer, call, AclOperation.CLUSTER_ACTION)
    return pass_on(call, request, control_requests)
