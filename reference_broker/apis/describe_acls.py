"""DescribeAcls: list the ACLs that match a filter. A broker without an authorizer has none.

1: pattern types. 2: flexible. 3: the resource type USER.
"""

from __future__ import annotations

from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]


@serves(ApiKey.DESCRIBE_ACLS)
def handle(call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Handle DescribeAcls.

    Raises:
        BrokerError: SECURITY_DISABLED, always.
        RemoteProtocolError: an element of the filter is UNKNOWN, which no client sends; Kafka closes the connection.
    """
    if (
        request.resource_type_filter == ResourceType.UNKNOWN
        or request.pattern_type_filter == PatternType.UNKNOWN
        or request.operation == AclOperation.UNKNOWN
        or request.permission_type == AclPermissionType.UNKNOWN
    ):
        raise RemoteProtocolError(f"DescribeAcls contains an element of type UNKNOWN: {request!r:.200}")
    raise BrokerError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
