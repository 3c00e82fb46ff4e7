"""AlterPartition: a partition's leader asks the controller of a ZooKeeper-based cluster to change the ISR.

0: lowest version. 1: recovery of leaders (KIP-704). 2: topic ids (KIP-841). 3: epochs of the brokers in the ISR
(KIP-903).
"""

from __future__ import annotations

from functools import partial

from kafkawire.reference_broker.cluster.controller.asked_controller import AskedController
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, given_later
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation

__all__ = ["handle"]


@serves(ApiKey.ALTER_PARTITION, KNOWN_APIS[ApiKey.ALTER_PARTITION].known_versions, scope=Scope.CLUSTER)
def handle(
    call: Call, request: AlterPartitionRequest, *, authorizer: Authorizer, controller: AskedController
) -> AlterPartitionResponse | DelayedOperation:
    """Handle AlterPartition; the response waits until the ISRs are stored.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_on_cluster(authorizer, call, AclOperation.CLUSTER_ACTION)
    return given_later(partial(controller.alter_partitions, request, call.version))
