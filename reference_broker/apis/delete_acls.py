"""DeleteAcls: delete the ACLs that match filters. A broker without an authorizer refuses every filter.

1: pattern types. 2: flexible. 3: the resource type USER.
"""

from __future__ import annotations

from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]


@serves(ApiKey.DELETE_ACLS)
def handle(call: Call, request: DeleteAclsRequest) -> Work[DeleteAclsResponse]:
    """Handle DeleteAcls.

    Raises:
        BrokerError: SECURITY_DISABLED, always, as the result for each filter.
        RemoteProtocolError: an element of a filter is UNKNOWN, which no client sends; Kafka closes the connection.
    """
    for each in request.filters:
        if (
            each.resource_type_filter == ResourceType.UNKNOWN
            or each.pattern_type_filter == PatternType.UNKNOWN
            or each.operation == AclOperation.UNKNOWN
            or each.permission_type == AclPermissionType.UNKNOWN
        ):
            raise RemoteProtocolError(f"DeleteAcls contains an element of type UNKNOWN: {each!r:.200}")
        yield
    raise BrokerError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
