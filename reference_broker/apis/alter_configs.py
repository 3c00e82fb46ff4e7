"""AlterConfigs: replace all configurations of resources; those that the request does not name revert to their defaults.

0: lowest version of Kafka 4. 2: flexible.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.metadata.config_controller import ConfigController
from kafkawire.reference_broker.requests.altered_resources import alter_each
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import require_on_configs
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, Parts
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation

__all__ = ["handle"]

Result = AlterConfigsResponse.AlterConfigsResourceResponse


@serves(ApiKey.ALTER_CONFIGS)
def handle(
    call: Call, request: AlterConfigsRequest, *, authorizer: Authorizer, configs: ConfigController
) -> Work[AlterConfigsResponse | DelayedOperation]:
    """Handle AlterConfigs; the response is delayed until the changes are on disk."""
    parts: Parts[AlterConfigsResponse] = Parts()

    def alter(resource: AlterConfigsRequest.AlterConfigsResource, done: Callable[[BrokerError | None], None]) -> None:
        values = [(each.name, each.value) for each in resource.configs]
        kind, name = resource.resource_type, resource.resource_name
        require_on_configs(
            authorizer, call, AclOperation.ALTER_CONFIGS, kind, name, has_text=not authorizer.is_registry
        )
        configs.replace(kind, name, values, done, validate_only=request.validate_only)

    def result_of(kind: int, name: str) -> Result:
        return Result(error_message=None, resource_type=kind, resource_name=name)

    results = yield from alter_each(request.resources, parts, result_of, alter)
    return parts.respond(AlterConfigsResponse(responses=results))
