"""ListConfigResources: list configurable resources of all types or of selected types.

0: client metrics subscriptions only. 1: all types.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.reference_broker.metadata.config_store import ConfigStore
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.requests.api_handlers import Scope, serves, since
from kafkawire.reference_broker.requests.authorization import allows_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_KINDS = tuple(sorted(set(ConfigResourceType) - {ConfigResourceType.UNKNOWN}, reverse=True))
_FIRST_WITH_KINDS = since(ListConfigResourcesRequest, "resource_types")


@serves(ApiKey.LIST_CONFIG_RESOURCES, scope=Scope.ALONE)
def handle(
    call: Call,
    request: ListConfigResourcesRequest,
    *,
    authorizer: Authorizer,
    dynamic_configs: ConfigStore,
    metadata: MetadataCache,
) -> Work[ListConfigResourcesResponse]:
    """Handle ListConfigResources."""
    if not allows_on_cluster(authorizer, call, AclOperation.DESCRIBE_CONFIGS):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = set(request.resource_types) or set(_KINDS)
    if call.version < _FIRST_WITH_KINDS:
        wanted = {ConfigResourceType.CLIENT_METRICS}
    if not wanted <= set(_KINDS):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    found = []
    for kind in _KINDS:
        for name in _names(kind, dynamic_configs, metadata) if kind in wanted else ():
            found.append(ListConfigResourcesResponse.ConfigResource(name, kind))
            yield
    return ListConfigResourcesResponse(config_resources=found)


def _names(kind: ConfigResourceType, dynamic: ConfigStore, metadata: MetadataCache) -> Iterable[str]:
    """Return the names of resources of one type; of groups and subscriptions, only those with configurations."""
    match kind:
        case ConfigResourceType.TOPIC:
            return tuple(metadata.image.topics)
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            return tuple(map(str, metadata.image.brokers))
        case _:
            return tuple(dynamic.resources(kind))
