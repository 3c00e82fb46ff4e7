"""DescribeAcls: list the ACLs that match a filter. A broker without an authorizer has none.

1: pattern types. 2: flexible. 3: the resource type USER.

Source: `AclApis.handleDescribeAcls` in Apache Kafka.
"""

from __future__ import annotations

from kafkawire.reference_broker.requests.acl_filters import read_filter
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Resource = DescribeAclsResponse.DescribeAclsResource
Description = DescribeAclsResponse.AclDescription


@serves(ApiKey.DESCRIBE_ACLS)
def handle(call: Call, request: DescribeAclsRequest, *, authorizer: Authorizer) -> Work[DescribeAclsResponse]:
    """Handle DescribeAcls.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED, or SECURITY_DISABLED without an authorizer.
        RemoteProtocolError: see `read_filter`.
    """
    wanted = read_filter(call.api.name, request)
    require_on_cluster(authorizer, call, AclOperation.DESCRIBE)
    if authorizer.acls is None:
        raise BrokerError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    resources = []
    for pattern, entries in authorizer.acls.image.entries.items():
        if wanted.pattern_filter.matches(pattern):
            found = [Description(*entry) for entry in entries if wanted.entry_filter.matches(entry)]
            if found:
                resources.append(Resource(*pattern, found))
        yield
    return DescribeAclsResponse(resources=resources)
