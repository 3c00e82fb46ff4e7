"""DescribeCluster: return the cluster's id, controller and brokers.

0: flexible from the start. 1: whether to list brokers or controllers. 2: fenced brokers; a single broker has none.
"""

from __future__ import annotations

from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import allows_on_cluster
from kafkawire.reference_broker.requests.authorized_operations import authorized_operations
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.acls import CLUSTER_NAME
from kafkawire.sdk.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AUTHORIZED_OPERATIONS_OMITTED, AclOperation, EndpointType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]


@serves(ApiKey.DESCRIBE_CLUSTER)
def handle(
    call: Call, request: DescribeClusterRequest, *, authorizer: Authorizer, metadata: MetadataCache
) -> DescribeClusterResponse:
    """Handle DescribeCluster.

    Raises:
        BrokerError: MISMATCHED_ENDPOINT_TYPE, since only a controller lists controllers; or UNSUPPORTED_ENDPOINT_TYPE.
    """
    wanted = request.endpoint_type
    if wanted == EndpointType.CONTROLLER:
        reason = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        raise BrokerError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, reason)
    if wanted != EndpointType.BROKER:
        raise BrokerError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {wanted}")
    operations = AUTHORIZED_OPERATIONS_OMITTED
    if request.include_cluster_authorized_operations:
        operations = 0
        if allows_on_cluster(authorizer, call, AclOperation.DESCRIBE):
            operations = authorized_operations(authorizer, call, ResourceType.CLUSTER, CLUSTER_NAME)
    image = metadata.image
    brokers = [
        DescribeClusterResponse.DescribeClusterBroker(broker.broker_id, *address, broker.rack)
        for broker, address in image.reachable(call.peer.listener.name)
    ]
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=brokers,
        cluster_authorized_operations=operations,
    )
