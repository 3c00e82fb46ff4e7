"""The cluster itself: its id, its controller and its brokers.

Metadata says all of this. DescribeCluster, which is asked only if necessary, adds what the user may do with the
cluster (KIP-430, KIP-700) and brokers that are registered but fenced (KIP-1073).
"""

from __future__ import annotations

from kafkawire.sdk.admin.authorized_operations import authorized_operations
from kafkawire.sdk.admin.descriptions import ClusterDescription
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.enums import NO_CONTROLLER_ID, EndpointType
from kafkawire.sdk.routing.call import ANY_BROKER
from kafkawire.sdk.routing.metadata import ClusterBroker
from kafkawire.sdk.routing.requests import check, error_text
from kafkawire.sdk.transport.wire import Address

__all__ = ["describe_cluster"]


async def describe_cluster(
    operations: Operations, *, include_authorized_operations: bool, include_fenced_brokers: bool
) -> ClusterDescription:
    """Return the cluster id, the controller and the brokers; see `Admin.describe_cluster`."""
    if not (include_authorized_operations or include_fenced_brokers):
        await operations.describe(())
        metadata = operations.router.metadata
        return ClusterDescription(metadata.cluster_id, metadata.controller_id, dict(metadata.brokers))
    response = await operations.request(
        ANY_BROKER,
        versioned(
            messages.DescribeClusterRequest(include_authorized_operations, EndpointType.BROKER, include_fenced_brokers),
            "include_fenced_brokers" if include_fenced_brokers else None,
        ),
        messages.DescribeClusterResponse,
        lambda response: check(response.error_code, error_text("cluster", response.error_message)),
    )
    brokers = {
        each.broker_id: ClusterBroker(each.broker_id, Address(each.host, each.port), each.rack, each.is_fenced)
        for each in response.brokers
    }
    controller_id = None if response.controller_id == NO_CONTROLLER_ID else response.controller_id
    allowed = authorized_operations(response.cluster_authorized_operations)
    return ClusterDescription(response.cluster_id, controller_id, brokers, allowed)
