"""Changes to configurations: to single entries (KIP-339), or to all entries together.

Any broker accepts changes for a topic, a group or the defaults of all brokers. A single broker's configuration and
logger levels are changed at that broker, which checks the values; in ZooKeeper mode, no other broker accepts them.

Source: Apache Kafka, `KafkaAdminClient.nodeFor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkawire.sdk.admin.config_entries import resource_error, resource_nodes, target_of
from kafkawire.sdk.admin.descriptions import ConfigChange, ConfigResource, ItemResults
from kafkawire.sdk.admin.item_batches import answered, in_batches
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.client.operations import NO_SUCH_TOPIC, Operations
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol import messages

__all__ = ["alter_configs", "incremental_alter_configs"]

_Request = messages.IncrementalAlterConfigsRequest | messages.AlterConfigsRequest
_Response = messages.IncrementalAlterConfigsResponse | messages.AlterConfigsResponse


async def incremental_alter_configs(
    operations: Operations, changes: Mapping[ConfigResource, Sequence[ConfigChange]], *, validate_only: bool
) -> ItemResults[ConfigResource, None]:
    """Change entries of configurations; see `Admin.incremental_alter_configs_of`."""
    kind = messages.IncrementalAlterConfigsRequest

    async def alter(
        node_id: int, batch: list[ConfigResource], deadline_ms: int
    ) -> dict[ConfigResource, KafkaWireError | None]:
        asked = [
            kind.AlterConfigsResource(
                each.resource_type,
                each.name,
                [kind.AlterableConfig(change.name, change.operation, change.value) for change in changes[each]],
            )
            for each in batch
        ]
        response = messages.IncrementalAlterConfigsResponse
        return await _alter(operations, node_id, kind(asked, validate_only), response, batch, deadline_ms)

    return await in_batches(operations, changes, resource_nodes(operations), alter, final=NO_SUCH_TOPIC)


async def alter_configs(
    operations: Operations, configs: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool
) -> ItemResults[ConfigResource, None]:
    """Replace configurations; see `Admin.alter_configs`."""
    kind = messages.AlterConfigsRequest

    async def alter(
        node_id: int, batch: list[ConfigResource], deadline_ms: int
    ) -> dict[ConfigResource, KafkaWireError | None]:
        asked = [
            kind.AlterConfigsResource(
                each.resource_type,
                each.name,
                [kind.AlterableConfig(name, value) for name, value in configs[each].items()],
            )
            for each in batch
        ]
        response = messages.AlterConfigsResponse
        return await _alter(operations, node_id, kind(asked, validate_only), response, batch, deadline_ms)

    return await in_batches(operations, configs, resource_nodes(operations), alter, final=NO_SUCH_TOPIC)


async def _alter(
    operations: Operations,
    node_id: int,
    request: _Request,
    response_kind: type[messages.IncrementalAlterConfigsResponse] | type[messages.AlterConfigsResponse],
    batch: list[ConfigResource],
    deadline_ms: int,
) -> dict[ConfigResource, KafkaWireError | None]:
    response: _Response = await operations.request(
        target_of(node_id), versioned(request), response_kind, deadline_ms=deadline_ms, retries=False
    )
    results = {(result.resource_type, result.resource_name): result for result in response.responses}
    found: dict[ConfigResource, KafkaWireError | None] = {}
    for each in batch:
        if result := results.get(each):
            found[each] = resource_error(each, result.error_code, result.error_message)
    return answered(response, found, batch, "the configuration of")
