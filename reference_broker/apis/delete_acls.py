"""DeleteAcls: delete the ACLs that match filters. A broker without an authorizer refuses every filter.

1: pattern types. 2: flexible. 3: the resource type USER.

Source: `AclApis.handleDeleteAcls`, `AclControlManager.validateFilter` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkawire.reference_broker.metadata.acl_store import DeletedAcl, DeletedAcls
from kafkawire.reference_broker.requests.acl_filters import read_filter
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, given_later
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Result = DeleteAclsResponse.DeleteAclsFilterResult
Matching = DeleteAclsResponse.DeleteAclsMatchingAcl


@serves(ApiKey.DELETE_ACLS)
def handle(
    call: Call, request: DeleteAclsRequest, *, authorizer: Authorizer
) -> Work[DeleteAclsResponse | DelayedOperation]:
    """Handle DeleteAcls; the response waits until the deletions are durable and in effect on this broker.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED, or SECURITY_DISABLED without an authorizer, as the result for each
            filter.
        RemoteProtocolError: see `read_filter`.
    """
    filters = []
    for asked in request.filters:
        filters.append(read_filter(call.api.name, asked))
        yield
    require_on_cluster(authorizer, call, AclOperation.ALTER)
    if authorizer.acls is None:
        raise BrokerError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    store = authorizer.acls

    def ask(give: Callable[[DeleteAclsResponse], None]) -> None:
        def deleted(results: Sequence[DeletedAcls]) -> None:
            give(DeleteAclsResponse(filter_results=list(map(_result, results))))

        store.delete(filters, deleted)

    return given_later(ask)


def _result(deleted: DeletedAcls) -> Result:
    if isinstance(deleted, BrokerError):
        return Result(deleted.code, deleted.detail or None)
    return Result(error_message=None, matching_acls=list(map(_matching, deleted)))


def _matching(deleted: DeletedAcl) -> Matching:
    (kind, name, pattern_type), entry = deleted.binding
    error = deleted.error
    code, text = (ErrorCode.NONE, None) if error is None else (error.code, error.detail or None)
    return Matching(code, text, kind, name, pattern_type, *entry)
