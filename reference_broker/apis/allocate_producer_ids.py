"""AllocateProducerIds: a broker requests producer ids from the controller of a ZooKeeper-based cluster.

0: the only version (KIP-730).
"""

from __future__ import annotations

from functools import partial

from kafkawire.reference_broker.cluster.controller.asked_controller import AskedController
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, given_later
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.sdk.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation

__all__ = ["handle"]


@serves(ApiKey.ALLOCATE_PRODUCER_IDS, scope=Scope.CLUSTER)
def handle(
    call: Call, request: AllocateProducerIdsRequest, *, authorizer: Authorizer, controller: AskedController
) -> AllocateProducerIdsResponse | DelayedOperation:
    """Handle AllocateProducerIds; the response waits until the ids are durably assigned to the broker.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_on_cluster(authorizer, call, AclOperation.CLUSTER_ACTION)
    return given_later(partial(controller.allocate_producer_ids, request))
