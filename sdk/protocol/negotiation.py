"""Choose the version of each API that a client uses with one broker.

A client sends ApiVersions in the highest version that it knows; a broker that does not know that version responds with
those that it knows, and the client asks again. Negotiation is part of `ClientConnection`, which sends the requests.

Source: Kafka protocol guide, "Retrieving supported API versions"; KIP-511, KIP-584 (features).
"""

from typing import Final

from kafkawire.sdk.errors import RemoteProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.sdk.protocol.schema import Api
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.version import __version__

__all__ = ["EPOCH_UNKNOWN", "Negotiation"]

#: The epoch that a broker reports before it knows the finalized features.
EPOCH_UNKNOWN: Final = -1


class Negotiation:
    """The versions that both sides know.

    Attributes:
        request_version: the version of the next ApiVersions request.
        features: the finalized level of each feature of the cluster; empty before negotiation, and with old brokers.
    """

    def __init__(self) -> None:
        self.request_version = APIS[ApiKey.API_VERSIONS].versions.last
        self.features: dict[str, int] = {}
        self._versions: dict[int, VersionRange] | None = None

    def request(self) -> ApiVersionsRequest:
        """Return the ApiVersions request, to be sent in `request_version`."""
        return ApiVersionsRequest(client_software_name="kafkawire", client_software_version=__version__)

    def receive(self, response: ApiVersionsResponse) -> bool:
        """Learn which versions the broker supports.

        Returns:
            True when done; False if the broker does not know the request's version, in which case another `request`
            must be sent.

        Raises:
            RemoteProtocolError: the broker refuses the request for another reason, or refuses even the lowest version.
        """
        ours = APIS[ApiKey.API_VERSIONS].versions
        offered = {entry.api_key: VersionRange(entry.min_version, entry.max_version) for entry in response.api_keys}
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and self.request_version > ours.first:
            theirs = offered.get(ApiKey.API_VERSIONS, VersionRange(ours.first, ours.first))
            self.request_version = max(ours.first, min(theirs.last, self.request_version - 1))
            return False
        if response.error_code != ErrorCode.NONE:
            raise RemoteProtocolError(f"ApiVersions was refused with error code {response.error_code}")
        self._versions = offered
        if response.finalized_features_epoch != EPOCH_UNKNOWN:
            self.features = {feature.name: feature.max_version_level for feature in response.finalized_features}
        return True

    def version_for(self, api: Api) -> int:
        """Return the highest version that both sides know; before negotiation, the highest stable version known.

        Raises:
            UnsupportedVersion: there is no common version.
        """
        ours = api.stable_versions
        if not ours:
            raise UnsupportedVersion(f"{api.name}: release {api.removed[-1][0]} removed its last version")
        if self._versions is None:
            return ours.last
        if api.key not in self._versions:
            raise UnsupportedVersion(f"{api.name}: the broker does not support this API")
        theirs = self._versions[api.key]
        if not ours & theirs:
            raise UnsupportedVersion(f"{api.name}: this client supports versions {ours}, the broker {theirs}")
        return (ours & theirs).last

    def offers(self, api: Api) -> bool:
        """Return whether both sides know a common version; False before negotiation."""
        theirs = (self._versions or {}).get(api.key)
        return theirs is not None and bool(api.versions & theirs)
