"""The quotas of clients: list and change them.

Source: KIP-546; `KafkaAdminClient` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkawire.sdk.admin.descriptions import ItemResults
from kafkawire.sdk.admin.quota_values import (
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilter,
    entity_of,
    match_type_of,
    names_of,
)
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import ANY_BROKER
from kafkawire.sdk.routing.requests import check, error_text, lacking

__all__ = ["alter_client_quotas", "describe_client_quotas"]


async def describe_client_quotas(
    operations: Operations, wanted: ClientQuotaFilter
) -> dict[ClientQuotaEntity, dict[str, float]]:
    """Return the quotas of entities; see `Admin.describe_client_quotas`."""
    kind = messages.DescribeClientQuotasRequest
    components = [
        kind.ComponentData(each.entity_type, match_type_of(each), each.match if isinstance(each.match, str) else None)
        for each in wanted.components
    ]
    response = await operations.request(
        ANY_BROKER,
        versioned(kind(components, wanted.strict)),
        messages.DescribeClientQuotasResponse,
        lambda response: check(response.error_code, error_text("client quotas", response.error_message)),
    )
    found: dict[ClientQuotaEntity, dict[str, float]] = {}
    for entry in response.entries or ():
        entity = entity_of({each.entity_type: each.entity_name for each in entry.entity})
        if entity is not None:  # later releases may have other types of names
            found[entity] = {each.key: each.value for each in entry.values}
    return found


async def alter_client_quotas(
    operations: Operations, alterations: Sequence[ClientQuotaAlteration], *, validate_only: bool
) -> ItemResults[ClientQuotaEntity, None]:
    """Change the quotas of entities; see `Admin.alter_client_quotas`."""

    def read(response: messages.AlterClientQuotasResponse) -> None:
        found = _results(response)
        for each in alterations:
            if each.entity not in found:
                raise lacking(response, str(each.entity))

    response = await operations.request(
        ANY_BROKER,
        versioned(messages.AlterClientQuotasRequest([_entry(each) for each in alterations], validate_only)),
        messages.AlterClientQuotasResponse,
        read,
    )
    found = _results(response)
    values: dict[ClientQuotaEntity, None] = {}
    errors: dict[ClientQuotaEntity, KafkaWireError] = {}
    for entity, _ in alterations:
        code, message = found[entity]
        if code == ErrorCode.NONE:
            values[entity] = None
        else:
            errors[entity] = BrokerError(code, error_text(f"quotas of {entity}", message))
    return ItemResults(values, errors)


def _entry(alteration: ClientQuotaAlteration) -> messages.AlterClientQuotasRequest.EntryData:
    kind = messages.AlterClientQuotasRequest
    names = names_of(alteration.entity).items()
    return kind.EntryData(
        [kind.EntityData(each, name if isinstance(name, str) else None) for each, name in names],
        [kind.OpData(key, 0.0 if value is None else value, value is None) for key, value in alteration.ops.items()],
    )


def _results(response: messages.AlterClientQuotasResponse) -> dict[ClientQuotaEntity | None, tuple[int, str | None]]:
    return {
        entity_of({each.entity_type: each.entity_name for each in entry.entity}): (
            entry.error_code,
            entry.error_message,
        )
        for entry in response.entries
    }
