"""AddRaftVoter: a standalone broker has no KRaft quorum, so its voters cannot be changed.

0: flexible from the start. 1: whether the response waits until the change is committed.

As in Apache Kafka, a request for another cluster is refused first; the error is that of a quorum with fixed voters.
"""

from __future__ import annotations

from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]


@serves(ApiKey.ADD_RAFT_VOTER, scope=Scope.ALONE)
def handle(
    call: Call, request: AddRaftVoterRequest, *, authorizer: Authorizer, metadata: MetadataCache
) -> AddRaftVoterResponse:
    """Handle AddRaftVoter.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, or UNSUPPORTED_VERSION.
    """
    require_on_cluster(authorizer, call, AclOperation.ALTER, names_operation=False)
    cluster_id = metadata.image.cluster_id
    if request.cluster_id not in (None, cluster_id):
        reason = f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{cluster_id}"'
        raise BrokerError(ErrorCode.INCONSISTENT_CLUSTER_ID, reason)
    reason = "Cluster doesn't support adding voters because this broker is not part of a KRaft quorum"
    raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, reason)
