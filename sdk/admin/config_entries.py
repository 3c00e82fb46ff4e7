"""Read configurations from responses, and list what has one.

Any broker describes a topic, a group or the defaults of all brokers. A single broker's configuration and logger levels
are described by that broker. Resources that different brokers describe are asked about in parallel.

Source: Apache Kafka, `KafkaAdminClient.describeConfigs`, `listConfigResources`; KIP-226 (synonyms), KIP-569 (types and
documentation), KIP-1142 (list of resources).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import Any, TypeVar

from kafkawire.sdk.admin.arguments import broker_of
from kafkawire.sdk.admin.descriptions import ConfigEntry, ConfigResource, ConfigSynonym, ItemResults
from kafkawire.sdk.admin.item_batches import answered, in_batches
from kafkawire.sdk.admin.places import ANY_NODE, Nodes
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.client.operations import NO_SUCH_TOPIC, Operations
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, ConfigSource, ConfigType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import ANY_BROKER, Node, Target
from kafkawire.sdk.routing.requests import carries, check, error_text
from kafkawire.sdk.transport.driver_interface import Versions

__all__ = [
    "config_entries",
    "describe_configs",
    "list_config_resources",
    "resource_error",
    "resource_nodes",
    "target_of",
]

Kind = TypeVar("Kind", bound=IntEnum)


async def describe_configs(
    operations: Operations,
    resources: Mapping[ConfigResource, Collection[str] | None],
    *,
    include_synonyms: bool,
    include_documentation: bool,
) -> ItemResults[ConfigResource, dict[str, ConfigEntry]]:
    """Return configurations; see `Admin.describe_configs_of`.

    Args:
        operations: sends the requests.
        resources: the names of the entries to return, keyed by resource; None for all entries.
        include_synonyms: whether to return the synonyms of each entry.
        include_documentation: whether to return the documentation of each entry.
    """
    kind = messages.DescribeConfigsRequest

    async def describe(
        node_id: int, batch: list[ConfigResource], deadline_ms: int
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaWireError]:
        asked = []
        for each in batch:
            keys = resources[each]
            names = None if keys is None else list(keys)
            asked.append(kind.DescribeConfigsResource(each.resource_type, each.name, names))
        response = await operations.request(
            target_of(node_id),
            kind(asked, include_synonyms, include_documentation),
            messages.DescribeConfigsResponse,
            deadline_ms=deadline_ms,
            retries=False,
        )
        results = {(result.resource_type, result.resource_name): result for result in response.results}
        found: dict[ConfigResource, dict[str, ConfigEntry] | KafkaWireError] = {}
        for each in batch:
            if result := results.get(each):
                error = resource_error(each, result.error_code, result.error_message)
                found[each] = error or config_entries(result.configs)
        return answered(response, found, batch, "the configuration of")

    return await in_batches(operations, resources, resource_nodes(operations), describe, final=NO_SUCH_TOPIC)


async def list_config_resources(operations: Operations, kinds: Collection[ConfigResourceType]) -> list[ConfigResource]:
    """Return the resources that have a configuration; see `Admin.list_config_resources`."""
    kind = messages.ListConfigResourcesRequest
    only_metrics = set(kinds) == {ConfigResourceType.CLIENT_METRICS}

    def request(versions: Versions) -> tuple[messages.ListConfigResourcesRequest, int]:
        _, version = versioned(kind())(versions)
        if only_metrics and not carries(kind, "resource_types", version):
            return kind(), version  # the first version lists nothing else
        return versioned(kind(list(kinds)), "resource_types")(versions)

    response = await operations.request(
        ANY_BROKER,
        request,
        messages.ListConfigResourcesResponse,
        lambda response: check(response.error_code, "resources that have configurations"),
    )
    known = ConfigResourceType._value2member_map_  # a newer broker may have other kinds of resources
    return sorted(
        ConfigResource(ConfigResourceType(each.resource_type), each.resource_name)
        for each in response.config_resources
        if each.resource_type in known
    )


def config_entries(entries: Iterable[Any]) -> dict[str, ConfigEntry]:
    """Return the entries in a response to DescribeConfigs or CreateTopics, keyed by name."""
    return {
        entry.name: ConfigEntry(
            entry.name,
            entry.value,
            _member(ConfigSource, entry.config_source),
            entry.read_only,
            entry.is_sensitive,
            _member(ConfigType, getattr(entry, "config_type", 0)),
            tuple(
                ConfigSynonym(each.name, each.value, _member(ConfigSource, each.source))
                for each in getattr(entry, "synonyms", ())
            ),
            getattr(entry, "documentation", None) or None,
        )
        for entry in entries
    }


def _member(kind: type[Kind], number: int) -> Kind | int:
    """Return the member of an enumeration with a number, or the number if a newer broker has sent it."""
    return kind(number) if number in kind._value2member_map_ else number


def resource_error(resource: ConfigResource, code: int, message: str | None) -> BrokerError | None:
    """Return the error that a broker reports for a resource; None if it reports none."""
    is_error = code != ErrorCode.NONE
    return BrokerError(code, error_text(f"configuration of {resource}", message)) if is_error else None


def resource_nodes(operations: Operations) -> Nodes[ConfigResource]:
    """Return what finds the broker that describes a resource, which is `ANY_NODE` if any broker does."""

    def node_of(resource: ConfigResource) -> int:
        node_id = broker_of(resource)
        return ANY_NODE if node_id is None else node_id

    return Nodes(node_of, operations)


def target_of(node_id: int) -> Target:
    """Return the target of a request to a broker, or to any broker if there is no such node id."""
    return ANY_BROKER if node_id == ANY_NODE else Node(node_id)
