"""DescribeUserScramCredentials: list the mechanisms and iterations of users' SCRAM credentials, without the secrets.

0: the only version.

Source: `ScramImage.describe` in Apache Kafka 4.3; `ZkAdminManager.describeUserScramCredentials` in 3.9.
"""

from __future__ import annotations

from collections import Counter

from kafkawire.reference_broker.metadata.entity_configs import EntityConfigStore, user_entity
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import allows_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.security.scram_credentials import MECHANISMS, StoredScramCredentials
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
CredentialInfo = DescribeUserScramCredentialsResponse.CredentialInfo


@serves(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def handle(
    call: Call,
    request: DescribeUserScramCredentialsRequest,
    *,
    authorizer: Authorizer,
    entity_configs: EntityConfigStore,
) -> Work[DescribeUserScramCredentialsResponse]:
    """Handle DescribeUserScramCredentials."""
    if not allows_on_cluster(authorizer, call, AclOperation.DESCRIBE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        # As in Kafka, there is a result for each user, but without the name.
        denied = [Result("", code, None) for _ in request.users or ()]
        return DescribeUserScramCredentialsResponse(0, code, None, denied)
    results: list[Result] = []
    if request.users:
        asked = Counter(user.name for user in request.users)
        for name, count in asked.items():
            results.append(_described(entity_configs, name, count))
            yield
    else:
        names = [entity.user for entity in entity_configs.all() if entity.client_id is None]
        for name in sorted(name for name in names if isinstance(name, str)):
            if infos := _infos(entity_configs, name):
                results.append(Result(name, credential_infos=infos))
            yield
    return DescribeUserScramCredentialsResponse(results=results)


def _described(store: EntityConfigStore, name: str, count: int) -> Result:
    if store.is_registry and not name:
        return Result(name, ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty")
    if count > 1:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return Result(name, ErrorCode.DUPLICATE_RESOURCE, text)
    if infos := _infos(store, name):
        return Result(name, credential_infos=infos)
    text = f"Attempt to describe a user credential that does not exist: {name}"
    return Result(name, ErrorCode.RESOURCE_NOT_FOUND, text)


def _infos(store: EntityConfigStore, name: str) -> list[CredentialInfo]:
    configs, credentials = store.of(user_entity(name)), StoredScramCredentials(store)
    infos = []
    for mechanism, text in MECHANISMS.items():
        if text in configs and (credential := credentials.scram_credential(text, name)) is not None:
            infos.append(CredentialInfo(mechanism, credential.iterations))
    return infos
