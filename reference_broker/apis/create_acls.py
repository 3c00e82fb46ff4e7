"""CreateAcls: add ACLs. A broker without an authorizer refuses every ACL.

1: pattern types. 2: flexible. 3: the resource type USER.

Source: `AclApis.handleCreateAcls` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, given_later
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    ResourcePattern,
    known_or_unknown,
)
from kafkawire.sdk.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Result = CreateAclsResponse.AclCreationResult

#: Accepts the response.
_Give = Callable[[CreateAclsResponse], None]


@serves(ApiKey.CREATE_ACLS)
def handle(
    call: Call, request: CreateAclsRequest, *, authorizer: Authorizer
) -> Work[CreateAclsResponse | DelayedOperation]:
    """Handle CreateAcls; the response waits until the ACLs are durable and in effect on this broker.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED, or SECURITY_DISABLED without an authorizer, as the result for each
            ACL.
        RemoteProtocolError: an element of an ACL is UNKNOWN, which no client sends; Kafka closes the connection.
    """
    bindings = []
    for acl in request.creations:
        if (
            acl.resource_type == ResourceType.UNKNOWN
            or acl.resource_pattern_type == PatternType.UNKNOWN
            or acl.operation == AclOperation.UNKNOWN
            or acl.permission_type == AclPermissionType.UNKNOWN
        ):
            raise RemoteProtocolError(f"CreateAcls contains an element of type UNKNOWN: {acl!r:.200}")
        bindings.append(_binding(acl))
        yield
    require_on_cluster(authorizer, call, AclOperation.ALTER)
    if authorizer.acls is None:
        raise BrokerError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    if any(map(_is_of_filter, bindings)):
        # As in Kafka, which cannot build such an ACL.
        return CreateAclsResponse(results=[Result(ErrorCode.UNKNOWN_SERVER_ERROR, None) for _ in bindings])
    results = [Result() for _ in bindings]
    valid = []
    for binding, result in zip(bindings, results, strict=True):
        if (reason := _refusal(binding)) is None:
            valid.append((binding, result))
        else:
            result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, reason
        yield
    store = authorizer.acls

    def ask(give: _Give) -> None:
        def created(errors: Sequence[BrokerError | None]) -> None:
            for (_, result), error in zip(valid, errors, strict=True):
                if error is not None:
                    result.error_code, result.error_message = error.code, error.detail or None
            give(CreateAclsResponse(results=results))

        store.create([binding for binding, _ in valid], created)

    return given_later(ask)


def _binding(acl: CreateAclsRequest.AclCreation) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            known_or_unknown(ResourceType, acl.resource_type),
            acl.resource_name,
            known_or_unknown(PatternType, acl.resource_pattern_type),
        ),
        AccessControlEntry(
            acl.principal,
            acl.host,
            known_or_unknown(AclOperation, acl.operation),
            known_or_unknown(AclPermissionType, acl.permission_type),
        ),
    )


def _is_of_filter(binding: AclBinding) -> bool:
    """Return whether an element of an ACL would select several values."""
    (kind, _, pattern_type), (_, _, operation, permission) = binding
    return (
        kind == ResourceType.ANY
        or pattern_type in (PatternType.ANY, PatternType.MATCH)
        or operation == AclOperation.ANY
        or permission == AclPermissionType.ANY
    )


def _refusal(binding: AclBinding) -> str | None:
    """Return why an ACL is refused before the store is asked; None if it is not."""
    kind, name, _ = binding.pattern
    if kind == ResourceType.CLUSTER and name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    return None if name else "Invalid empty resource name"
