"""AlterUserScramCredentials: set and delete SCRAM credentials of users (KIP-554).

0: the only version.

The client has hashed the password, and the broker stores only what verifies it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.reference_broker.metadata.config_store import Revise
from kafkawire.reference_broker.metadata.entity_configs import ConfigEntity, EntityConfigStore, user_entity
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, Parts
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.security.scram_alterations import plan_alterations, plan_alterations_in_registry
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


@serves(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, only_on_controller=True)
def handle(
    call: Call,
    request: AlterUserScramCredentialsRequest,
    *,
    authorizer: Authorizer,
    entity_configs: EntityConfigStore,
) -> Work[AlterUserScramCredentialsResponse | DelayedOperation]:
    """Handle AlterUserScramCredentials; the response is delayed until the credentials are stored."""
    try:
        require_on_cluster(authorizer, call, AclOperation.ALTER)
    except BrokerError as error:
        # Kafka 3.9 gives no text.
        return (yield from _denied(request, error.code, None if entity_configs.is_registry else error.detail))
    plan = plan_alterations_in_registry if entity_configs.is_registry else plan_alterations
    planned = plan(request.deletions, request.upsertions, lambda name: entity_configs.of(user_entity(name)))
    yield
    results: dict[ConfigEntity, Result] = {}
    revisions: dict[ConfigEntity, Revise] = {}
    for name, outcome in planned.items():
        result = results[user_entity(name)] = Result(name, error_message="" if entity_configs.is_registry else None)
        if isinstance(outcome, BrokerError):
            _refuse(result, outcome)
        else:
            revisions[user_entity(name)] = outcome
        yield
    parts: Parts[AlterUserScramCredentialsResponse] = Parts()
    response = AlterUserScramCredentialsResponse(results=list(results.values()))
    if not revisions:
        return response
    parts.expect()

    def changed(errors: Mapping[ConfigEntity, BrokerError]) -> None:
        for entity, error in errors.items():
            _refuse(results[entity], error)
        parts.arrived()

    entity_configs.change(revisions, changed)
    return parts.respond(response)


def _denied(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, text: str | None
) -> Work[AlterUserScramCredentialsResponse]:
    """Return the answer to a client without the right to change credentials: each user once, in order."""
    names: set[str] = set()
    for deletion in request.deletions:
        names.add(deletion.name)
        yield
    for upsertion in request.upsertions:
        names.add(upsertion.name)
        yield
    results = [Result(name, code, text) for name in sorted(names)]
    return AlterUserScramCredentialsResponse(results=results)


def _refuse(result: Result, error: BrokerError) -> None:
    result.error_code, result.error_message = error.code, error.detail or None
