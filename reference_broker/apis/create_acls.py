"""CreateAcls: add ACLs. A broker without an authorizer refuses every ACL.

1: pattern types. 2: flexible. 3: the resource type USER.
"""

from __future__ import annotations

from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]


@serves(ApiKey.CREATE_ACLS)
def handle(call: Call, request: CreateAclsRequest) -> Work[CreateAclsResponse]:
    """Handle CreateAcls.

    Raises:
        BrokerError: SECURITY_DISABLED, always, as the result for each ACL.
        RemoteProtocolError: an element of an ACL is UNKNOWN, which no client sends; Kafka closes the connection.
    """
    for acl in request.creations:
        if (
            acl.resource_type == ResourceType.UNKNOWN
            or acl.resource_pattern_type == PatternType.UNKNOWN
            or acl.operation == AclOperation.UNKNOWN
            or acl.permission_type == AclPermissionType.UNKNOWN
        ):
            raise RemoteProtocolError(f"CreateAcls contains an element of type UNKNOWN: {acl!r:.200}")
        yield
    raise BrokerError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
