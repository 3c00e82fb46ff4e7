"""Changes to a configuration: to single entries (KIP-339), or to all entries together.

Any broker accepts changes for a topic, a group or the defaults of all brokers. A single broker's configuration and
logger levels are changed at that broker, which checks the values; in ZooKeeper mode, no other broker accepts them.

Source: Apache Kafka, `KafkaAdminClient.nodeFor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkawire.sdk.admin.arguments import ConfigResource
from kafkawire.sdk.admin.descriptions import ConfigChange
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.client.operations import NO_SUCH_TOPIC, Operations
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.routing.call import ANY_BROKER, Node
from kafkawire.sdk.routing.requests import check, error_text, lacking

__all__ = ["alter_configs", "incremental_alter_configs"]


async def incremental_alter_configs(
    operations: Operations, resource: ConfigResource, changes: Sequence[ConfigChange], *, validate_only: bool
) -> None:
    """Change entries of a configuration; see `Admin.incremental_alter_configs`."""
    kind = messages.IncrementalAlterConfigsRequest
    configs = [kind.AlterableConfig(change.name, change.operation, change.value) for change in changes]
    request = kind([kind.AlterConfigsResource(resource.kind, resource.name, configs)], validate_only)
    await _alter(operations, resource, request, messages.IncrementalAlterConfigsResponse)


async def alter_configs(
    operations: Operations, resource: ConfigResource, configs: Mapping[str, str], *, validate_only: bool
) -> None:
    """Replace a configuration; see `Admin.alter_configs`."""
    kind = messages.AlterConfigsRequest
    entries = [kind.AlterableConfig(name, value) for name, value in configs.items()]
    request = kind([kind.AlterConfigsResource(resource.kind, resource.name, entries)], validate_only)
    await _alter(operations, resource, request, messages.AlterConfigsResponse)


async def _alter(
    operations: Operations,
    resource: ConfigResource,
    request: messages.IncrementalAlterConfigsRequest | messages.AlterConfigsRequest,
    response: type[messages.IncrementalAlterConfigsResponse] | type[messages.AlterConfigsResponse],
) -> None:
    detail = f"configuration of {resource.kind.name.lower()} {resource.name}"

    def read(response: messages.IncrementalAlterConfigsResponse | messages.AlterConfigsResponse) -> None:
        if not response.responses:
            raise lacking(response, f"the {detail}")
        for result in response.responses:
            check(result.error_code, error_text(detail, result.error_message))

    target = ANY_BROKER if resource.node_id is None else Node(resource.node_id)
    await operations.request(target, versioned(request), response, read, final=NO_SUCH_TOPIC)
