"""AllocateProducerIds: a broker requests producer ids from the controller of a ZooKeeper-based cluster.

0: the only version (KIP-730).
"""

from __future__ import annotations

from functools import partial

from kafkawire.reference_broker.cluster.controller.asked_controller import AskedController
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, given_later
from kafkawire.sdk.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey

__all__ = ["handle"]


@serves(ApiKey.ALLOCATE_PRODUCER_IDS, scope=Scope.CLUSTER)
def handle(
    call: Call, request: AllocateProducerIdsRequest, *, controller: AskedController
) -> AllocateProducerIdsResponse | DelayedOperation:
    """Handle AllocateProducerIds; the response waits until the ids are durably assigned to the broker."""
    return given_later(partial(controller.allocate_producer_ids, request))
