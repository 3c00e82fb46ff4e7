"""The features of a cluster: the levels that a broker supports, and the levels that the cluster has finalized.

They are part of the ApiVersions response, which every connection requests when it opens; this module requests it again
to get the current levels.

Source: KIP-584.
"""

from __future__ import annotations

from kafkawire.sdk.admin.descriptions import FeatureMetadata
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.negotiation import EPOCH_UNKNOWN, Negotiation
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.routing.call import ANY_BROKER, Node
from kafkawire.sdk.routing.requests import check

__all__ = ["describe_features"]


async def describe_features(operations: Operations, node_id: int | None) -> FeatureMetadata:
    """Return the features of a cluster; see `Admin.describe_features`."""
    response = await operations.request(
        ANY_BROKER if node_id is None else Node(node_id),
        Negotiation().request(),
        messages.ApiVersionsResponse,
        lambda response: check(response.error_code, "features"),
    )
    is_known = response.finalized_features_epoch != EPOCH_UNKNOWN
    return FeatureMetadata(
        {each.name: VersionRange(each.min_version, each.max_version) for each in response.supported_features},
        {each.name: each.max_version_level for each in response.finalized_features} if is_known else {},
        response.finalized_features_epoch if is_known else None,
    )
