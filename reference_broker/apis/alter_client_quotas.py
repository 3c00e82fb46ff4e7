"""AlterClientQuotas: set and remove quotas of users, client ids and addresses, or only validate the request.

0: lowest version. 1: flexible.

In a cluster, every broker handles the request, as in Apache Kafka 3.9 with ZooKeeper. An entity that the request names
more than once has one result.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.reference_broker.metadata.config_store import Revise
from kafkawire.reference_broker.metadata.entity_configs import ConfigEntity, EntityConfigStore
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import allows_on_cluster, not_authorized
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, Parts
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.security.quotas.alterations import (
    Alteration,
    check_alteration,
    check_alteration_in_registry,
)
from kafkawire.reference_broker.security.quotas.entities import config_entity
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Result = AlterClientQuotasResponse.EntryData
EntityData = AlterClientQuotasResponse.EntityData

#: An entity as a key: its types and names.
_Key = tuple[tuple[str, str | None], ...]


@serves(ApiKey.ALTER_CLIENT_QUOTAS)
def handle(
    call: Call, request: AlterClientQuotasRequest, *, authorizer: Authorizer, entity_configs: EntityConfigStore
) -> Work[AlterClientQuotasResponse | DelayedOperation]:
    """Handle AlterClientQuotas; the response is delayed until the changes are stored."""
    if not allows_on_cluster(authorizer, call, AclOperation.ALTER_CONFIGS):
        return (yield from _denied(request))
    results: dict[_Key, Result] = {}
    revisions: dict[ConfigEntity, Revise] = {}
    owners: dict[ConfigEntity, Result] = {}
    for entry in request.entries:
        entity = {each.entity_type: each.entity_name for each in entry.entity}
        ops = [(op.key, None if op.remove else op.value) for op in entry.ops]
        key = tuple(sorted(entity.items(), key=lambda item: item[0]))
        is_repeated = key in results
        result = results.setdefault(key, Result(error_message=None, entity=[EntityData(*item) for item in key]))
        try:
            alteration = Alteration(entity, ops)
            if entity_configs.is_registry:
                revise = check_alteration_in_registry(alteration)
            else:
                revise = check_alteration(alteration, is_repeated)
        except BrokerError as error:
            _refuse(result, error)
        else:
            _refuse(result, None)
            owner = config_entity(entity)
            owners[owner] = result
            revisions[owner] = _both(revisions[owner], revise) if owner in revisions else revise
        yield
    parts: Parts[AlterClientQuotasResponse] = Parts()
    response = AlterClientQuotasResponse(entries=list(results.values()))
    if request.validate_only or not revisions:
        return response
    parts.expect()

    def changed(errors: Mapping[ConfigEntity, BrokerError]) -> None:
        for owner, error in errors.items():
            _refuse(owners[owner], error)
        parts.arrived()

    entity_configs.change(revisions, changed)
    return parts.respond(response)


def _denied(request: AlterClientQuotasRequest) -> Work[AlterClientQuotasResponse]:
    """Return the answer to a client without the right to change quotas: each entry as it is in the request."""
    error = not_authorized(ResourceType.CLUSTER)
    entries = []
    for entry in request.entries:
        entity = [EntityData(each.entity_type, each.entity_name) for each in entry.entity]
        entries.append(Result(error.code, error.detail, entity))
        yield
    return AlterClientQuotasResponse(entries=entries)


def _both(first: Revise, second: Revise) -> Revise:
    return lambda before: second(first(before))


def _refuse(result: Result, error: BrokerError | None) -> None:
    result.error_code = ErrorCode.NONE if error is None else error.code
    result.error_message = None if error is None else error.detail or None
