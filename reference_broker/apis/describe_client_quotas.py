"""DescribeClientQuotas: list the quotas of the users, client ids and addresses that match a filter.

0: lowest version. 1: flexible.
"""

from __future__ import annotations

from kafkawire.reference_broker.metadata.entity_configs import EntityConfigStore
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import allows_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.security.quotas.alterations import QUOTA_KEYS
from kafkawire.reference_broker.security.quotas.entities import quota_entity
from kafkawire.reference_broker.security.quotas.filters import read_filter, read_filter_in_registry
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Entry = DescribeClientQuotasResponse.EntryData
EntityData = DescribeClientQuotasResponse.EntityData
ValueData = DescribeClientQuotasResponse.ValueData


@serves(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def handle(
    call: Call, request: DescribeClientQuotasRequest, *, authorizer: Authorizer, entity_configs: EntityConfigStore
) -> Work[DescribeClientQuotasResponse]:
    """Handle DescribeClientQuotas."""
    if not allows_on_cluster(authorizer, call, AclOperation.DESCRIBE_CONFIGS):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeClientQuotasResponse(error_code=denied, error_message=None, entries=None)
    read = read_filter_in_registry if entity_configs.is_registry else read_filter
    try:
        wanted = read(request.components, is_strict=request.strict)
    except BrokerError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.detail or None, entries=None)
    entries = []
    for owner, configs in [*entity_configs.all().items()]:
        entity = quota_entity(owner)
        if wanted.matches(entity):
            values = [ValueData(key, number) for key in configs if (number := _number(key, configs[key])) is not None]
            if values:
                entries.append(Entry([EntityData(*item) for item in entity.items()], values))
        yield
    return DescribeClientQuotasResponse(entries=entries)


def _number(key: str, text: str) -> float | None:
    """Return the value of a quota; None for a credential, or a value that another program has written wrongly."""
    try:
        return float(text) if key in QUOTA_KEYS else None
    except ValueError:
        return None
