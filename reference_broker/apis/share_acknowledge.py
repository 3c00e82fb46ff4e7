"""ShareAcknowledge: acknowledge acquired records, without fetching more.

1: the first version outside of early access. 2: renewal of acquisition locks (KIP-1222).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.api_handlers import Scope, serves, since
from kafkawire.reference_broker.requests.authorization import readable_topics
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.share_acknowledgements import Acknowledger, AskedBatch, Outcomes, Renewal
from kafkawire.reference_broker.requests.share_leaders import NamedLeaders
from kafkawire.reference_broker.requests.share_members import is_member_id
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.shares.share_sessions import TopicIdPartition
from kafkawire.reference_broker.shares.shares import Shares
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import FINAL_SHARE_SESSION_EPOCH, AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_RENEWAL_SINCE = since(ShareAcknowledgeRequest, "is_renew_ack")

Topic = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
PartitionData = ShareAcknowledgeResponse.PartitionData


@serves(ApiKey.SHARE_ACKNOWLEDGE, scope=Scope.ALONE)
def handle(
    call: Call,
    request: ShareAcknowledgeRequest,
    *,
    authorizer: Authorizer,
    metadata: MetadataCache,
    replicas: Replicas,
    shares: Shares,
) -> Work[ShareAcknowledgeResponse | DelayedOperation]:
    """Handle ShareAcknowledge; the last request of a session also releases what is not acknowledged."""
    group_id, member_id = request.group_id, request.member_id
    if group_id is None:
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
    if not authorizer.allows(call, AclOperation.READ, ResourceType.GROUP, group_id):
        return ShareAcknowledgeResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if member_id is None or not is_member_id(member_id):
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
    try:
        shares.sessions.acknowledging(group_id, member_id, request.share_session_epoch)
    except BrokerError as error:
        return ShareAcknowledgeResponse(error_code=error.code)
    delayed = DelayedOperation()

    def answer(outcomes: Outcomes) -> None:
        if request.share_session_epoch == FINAL_SHARE_SESSION_EPOCH:
            shares.end_session(group_id, member_id)
        delayed.complete_by(partial(_response, call, group_id, outcomes, metadata, replicas, shares))

    renewal = Renewal(call.version >= _RENEWAL_SINCE, request.is_renew_ack)
    topics, may_read = metadata.image.topics_by_id, readable_topics(authorizer, call)
    acknowledger = Acknowledger(group_id, member_id, renewal, topics, shares.partitions, may_read)
    yield from acknowledger.acknowledge(_asked(request), answer, call.now_ms)
    return delayed


def _asked(request: ShareAcknowledgeRequest) -> Iterator[tuple[TopicIdPartition, Sequence[AskedBatch]]]:
    for topic in request.topics:
        for asked in topic.partitions:
            yield TopicIdPartition(topic.topic_id, asked.partition_index), asked.acknowledgement_batches


def _response(
    call: Call,
    group_id: str,
    outcomes: Outcomes,
    metadata: MetadataCache,
    replicas: Replicas,
    shares: Shares,
) -> ShareAcknowledgeResponse:
    known = metadata.image.topics_by_id
    leaders = NamedLeaders(
        call, replicas, ShareAcknowledgeResponse.LeaderIdAndEpoch, ShareAcknowledgeResponse.NodeEndpoint
    )
    topics: dict[bytes, list[PartitionData]] = {}
    for (topic_id, number), (code, text) in outcomes.items():
        data = PartitionData(number, code, text)
        if topic_id in known and (leader := leaders.leader(known[topic_id].name, number, code)) is not None:
            data.current_leader = leader
        topics.setdefault(topic_id, []).append(data)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=shares.limits.lock_duration_ms(group_id),
        responses=[Topic(topic_id, partitions) for topic_id, partitions in topics.items()],
        node_endpoints=leaders.endpoints(),
    )
