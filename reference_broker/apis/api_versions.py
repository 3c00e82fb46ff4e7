"""ApiVersions: list the APIs and versions that this broker serves.

0: the list. 1: throttle time. 3: flexible, the client's name and version, features. 4: features may start at version 0.
The response to an unknown version is in version 0, with UNSUPPORTED_VERSION and the supported versions of this API,
which lets the client retry (KIP-511).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kafkawire.reference_broker.config.features import Feature
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.requests.api_handlers import serves, since
from kafkawire.reference_broker.requests.call import Call
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange

__all__ = ["handle"]

_NAMES_CLIENT_SINCE = since(ApiVersionsRequest, "client_software_name")

#: The allowed form of a client's name and version, which appear in metrics.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


#: With earlier versions, clients reject a feature that starts at level 0 (KAFKA-17011).
_FEATURES_FROM_0_SINCE = 4


@serves(ApiKey.API_VERSIONS)
def handle(
    call: Call,
    request: ApiVersionsRequest | None,
    *,
    advertised: Mapping[int, VersionRange],
    features: Sequence[Feature],
    metadata: MetadataCache,
) -> ApiVersionsResponse:
    """Handle ApiVersions; `request` is None if its version is unknown."""
    if request is None:
        own = ApiVersionsResponse.ApiVersion(ApiKey.API_VERSIONS, *advertised[ApiKey.API_VERSIONS])
        return ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [own])
    response = ApiVersionsResponse(
        api_keys=[ApiVersionsResponse.ApiVersion(key, *versions) for key, versions in advertised.items()],
    )
    if call.version < _NAMES_CLIENT_SINCE:
        return response
    name, version = request.client_software_name, request.client_software_version
    if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    call.peer.software_name, call.peer.software_version = name, version
    response.supported_features = [
        ApiVersionsResponse.SupportedFeatureKey(feature.name, *feature.supported)
        for feature in features
        if feature.supported.first or call.version >= _FEATURES_FROM_0_SINCE
    ]
    finalized = metadata.image.features
    response.finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(name, level, level) for name, level in finalized.levels.items()
    ]
    response.finalized_features_epoch = finalized.epoch
    return response
