"""The features of a cluster: the levels that a broker supports, and the levels that the cluster has finalized.

They are part of the ApiVersions response, which every connection requests when it opens; `describe_features` requests
it again to get the current levels.

Source: KIP-584; KIP-778 (types of upgrades).
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.sdk.admin.descriptions import FeatureMetadata, ItemResults
from kafkawire.sdk.admin.feature_updates import FeatureUpdate
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.negotiation import EPOCH_UNKNOWN, Negotiation
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import FeatureUpgradeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.routing.call import ANY_BROKER, CONTROLLER, Node
from kafkawire.sdk.routing.requests import carries, check, error_text, lacking
from kafkawire.sdk.transport.driver_interface import Versions

__all__ = ["describe_features", "update_features"]


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


async def update_features(
    operations: Operations, updates: Mapping[str, FeatureUpdate], *, validate_only: bool, timeout_ms: int
) -> ItemResults[str, None]:
    """Change finalized levels; see `Admin.update_features`."""
    kind = messages.UpdateFeaturesRequest

    def build(versions: Versions) -> tuple[Message, int]:
        request = kind(
            timeout_ms, [kind.FeatureUpdateKey(name, each.max_version_level) for name, each in updates.items()]
        )
        _, version = versioned(request, "validate_only" if validate_only else None)(versions)
        for update, each in zip(request.feature_updates, updates.values(), strict=True):
            if carries(kind.FeatureUpdateKey, "upgrade_type", version):
                update.upgrade_type = each.upgrade_type
            else:
                update.allow_downgrade = each.upgrade_type is not FeatureUpgradeType.UPGRADE
        if validate_only:
            request.validate_only = True
        return request, version

    def read(response: messages.UpdateFeaturesResponse) -> None:
        check(response.error_code, error_text("update features", response.error_message))
        named = {result.feature for result in response.results}
        for name in updates if named else ():  # since version 2, the only result is that of the whole request
            if name not in named:
                raise lacking(response, f"feature {name}")

    response = await operations.request(CONTROLLER, build, messages.UpdateFeaturesResponse, read)
    errors: dict[str, KafkaWireError] = {
        result.feature: BrokerError(
            result.error_code, error_text(f"update feature {result.feature}", result.error_message)
        )
        for result in response.results
        if result.error_code != ErrorCode.NONE and result.feature in updates
    }
    return ItemResults({name: None for name in updates if name not in errors}, errors)
