"""AlterConfigs: replace all configurations of resources; unnamed ones return to their defaults.

0: lowest version of Kafka 4. 2: flexible.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from kafkawire.reference_broker.metadata.config_controller import ConfigController
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, Parts
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Result = AlterConfigsResponse.AlterConfigsResourceResponse


@serves(ApiKey.ALTER_CONFIGS)
def handle(
    call: Call, request: AlterConfigsRequest, *, configs: ConfigController
) -> Work[AlterConfigsResponse | DelayedOperation]:
    """Handle AlterConfigs; the response is delayed until the changes are on disk."""
    parts: Parts[AlterConfigsResponse] = Parts()
    named: Counter[tuple[int, str]] = Counter()
    for resource in request.resources:
        named[resource.resource_type, resource.resource_name] += 1
        yield
    results = []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        result = Result(error_message=None, resource_type=kind, resource_name=name)
        results.append(result)
        parts.expect()
        done = partial(_finish, result, parts)
        try:
            if named[kind, name] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            values = [(each.name, each.value) for each in resource.configs]
            configs.replace(kind, name, values, done, validate_only=request.validate_only)
        except BrokerError as error:
            done(error)
        yield
    return parts.respond(AlterConfigsResponse(responses=results))


def _finish(result: Result, parts: Parts[AlterConfigsResponse], error: BrokerError | None) -> None:
    if error is not None:
        result.error_code, result.error_message = error.code, error.detail
    parts.arrived()
