"""ApiVersions: list the APIs and versions that this broker serves.

0: the list. 1: throttle time. 3: flexible, the client's name and version, features. 4: features may begin at version 0.
An unknown version gets a response in version 0 with UNSUPPORTED_VERSION and the list, so that the client can ask again
(KIP-511).
"""

from __future__ import annotations

import re

from kafkawire.reference_broker.apis.registry import Call, serves, since
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_NAMES_CLIENT_SINCE = since(ApiVersionsRequest, "client_software_name")

#: Allowed form of a client's name and version, which end up in metrics.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@serves(ApiKey.API_VERSIONS)
def handle(call: Call, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
    """Handle ApiVersions; `request` is None if its version is unknown."""
    response = ApiVersionsResponse(
        api_keys=[ApiVersionsResponse.ApiVersion(key, low, high) for key, (low, high) in call.core.served.items()],
    )
    if request is None:
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
    elif call.version >= _NAMES_CLIENT_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return response
