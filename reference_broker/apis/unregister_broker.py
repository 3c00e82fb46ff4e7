"""UnregisterBroker: remove the registration of a broker; a standalone broker is the only one that is registered.

0: flexible from the start.

As in Apache Kafka, a broker that is unregistered while it runs is no longer listed, and registers again when it is
restarted. Unlike Kafka, it goes on serving clients that are connected to it.
"""

from __future__ import annotations

from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import NO_CONTROLLER_ID, AclOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]


@serves(ApiKey.UNREGISTER_BROKER, scope=Scope.ALONE)
def handle(
    call: Call, request: UnregisterBrokerRequest, *, authorizer: Authorizer, metadata: MetadataCache
) -> UnregisterBrokerResponse:
    """Handle UnregisterBroker.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED, or BROKER_ID_NOT_REGISTERED.
    """
    require_on_cluster(authorizer, call, AclOperation.ALTER)
    brokers = metadata.newest.brokers
    if request.broker_id not in brokers:
        reason = f"Broker ID {request.broker_id} is not currently registered"
        raise BrokerError(ErrorCode.BROKER_ID_NOT_REGISTERED, reason)
    rest = {broker_id: broker for broker_id, broker in brokers.items() if broker_id != request.broker_id}
    metadata.publish(brokers=rest, controller_id=NO_CONTROLLER_ID)
    return UnregisterBrokerResponse()
