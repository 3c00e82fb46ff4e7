"""ShareFetch: acquire records for a member of a share group, and acknowledge those that it has acquired before.

1: the first version outside of early access. 2: a strict limit of the number of records (KIP-1206), renewal of
acquisition locks (KIP-1222).

A member that exceeds a quota gets the records that have been acquired for it, and is throttled afterwards. Kafka holds
them back, though they stay acquired until their locks expire, and counts their delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.api_handlers import Scope, serves, since
from kafkawire.reference_broker.requests.authorization import readable_topics
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.share_acknowledgements import Acknowledger, AskedBatch, Outcomes, Renewal
from kafkawire.reference_broker.requests.share_leaders import NamedLeaders
from kafkawire.reference_broker.requests.share_members import is_member_id
from kafkawire.reference_broker.requests.throttling import Throttling
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.shares.share_fetches import ShareFetch, ShareFetchRequested
from kafkawire.reference_broker.shares.share_sessions import ShareSession, TopicIdPartition
from kafkawire.reference_broker.shares.share_state import SharePartitionKey
from kafkawire.reference_broker.shares.shares import Shares
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.frames import LENGTH_BYTES
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import (
    FINAL_SHARE_SESSION_EPOCH,
    INITIAL_SHARE_SESSION_EPOCH,
    AclOperation,
    ResourceType,
    ShareAcquireMode,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_RENEWAL_SINCE = since(ShareFetchRequest, "is_renew_ack")

_ACQUIRE_MODES = frozenset(ShareAcquireMode)

PartitionData = ShareFetchResponse.PartitionData
Topic = ShareFetchResponse.ShareFetchableTopicResponse


@serves(ApiKey.SHARE_FETCH, scope=Scope.ALONE)
def handle(
    call: Call,
    request: ShareFetchRequest,
    *,
    authorizer: Authorizer,
    metadata: MetadataCache,
    options: BrokerOptions,
    replicas: Replicas,
    shares: Shares,
    throttling: Throttling,
) -> Work[ShareFetchResponse | DelayedOperation]:
    """Handle ShareFetch; the last request of a session fetches nothing, and releases what is not acknowledged."""
    group_id, member_id = request.group_id, request.member_id
    if group_id is None:
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    if not authorizer.allows(call, AclOperation.READ, ResourceType.GROUP, group_id):
        return ShareFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    is_renewing = call.version >= _RENEWAL_SINCE and request.is_renew_ack
    if member_id is None or not is_member_id(member_id) or (is_renewing and _asks(request)):
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    has_acknowledgements = any(batches for _, batches in _asked(request))
    if request.share_session_epoch == INITIAL_SHARE_SESSION_EPOCH and has_acknowledgements:
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    partitions: dict[TopicIdPartition, str | None] = {}
    known = metadata.image.topics_by_id
    for partition, _ in _asked(request):
        topic = known.get(partition.topic_id)
        partitions[partition] = None if topic is None else topic.name
        yield
    try:
        session = _session(call, request, group_id, member_id, partitions, shares)
    except BrokerError as error:
        refusal = ShareFetchResponse(error_code=error.code)
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED and request.max_wait_ms > 0:
            return _slowed(call, request, refusal)  # otherwise, the member would try again immediately
        return refusal
    may_read = readable_topics(authorizer, call)
    fetch = _Fetch(call, request, group_id, member_id, session, metadata, replicas, shares, may_read, throttling)
    if has_acknowledgements:
        yield from fetch.acknowledge(is_renewing)
    if session is None or is_renewing:
        fetch.fetch_nothing()
    else:
        fetch.fetch(session, options.fetch_max_bytes)
    return fetch.delayed


def _asks(request: ShareFetchRequest) -> bool:
    """Return whether a request asks for records; one that renews locks cannot, since waiting takes too long."""
    return any((request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms))


def _asked(request: ShareFetchRequest) -> Iterator[tuple[TopicIdPartition, Sequence[AskedBatch]]]:
    for topic in request.topics:
        for asked in topic.partitions:
            yield TopicIdPartition(topic.topic_id, asked.partition_index), asked.acknowledgement_batches


def _session(
    call: Call,
    request: ShareFetchRequest,
    group_id: str,
    member_id: str,
    partitions: dict[TopicIdPartition, str | None],
    shares: Shares,
) -> ShareSession | None:
    """Return the session of a request, or None for the last request of a session.

    Raises:
        BrokerError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED.
    """
    sessions, peer = shares.sessions, call.peer
    epoch = request.share_session_epoch
    if epoch == FINAL_SHARE_SESSION_EPOCH:
        sessions.get(group_id, member_id)
        return None
    if epoch == INITIAL_SHARE_SESSION_EPOCH:
        is_first = not sessions.has(peer)
        session = sessions.open(group_id, member_id, partitions, peer)
        if is_first:
            peer.farewells[__name__] = partial(shares.closed, peer)
        return session
    forgotten = [
        TopicIdPartition(topic.topic_id, number)
        for topic in request.forgotten_topics_data
        for number in topic.partitions
    ]
    return sessions.use(group_id, member_id, epoch, partitions, forgotten)


def _slowed(call: Call, request: ShareFetchRequest, response: ShareFetchResponse) -> DelayedOperation:
    """Answer when the wait that the client asked for is over."""
    delayed = DelayedOperation()
    timer = call.timers.at(call.now_ms + request.max_wait_ms, lambda now_ms: delayed.complete(response))
    delayed.on_cancel = timer.cancel
    return delayed


class _Fetch:
    """One request: the outcomes of its acknowledgements and of its fetch, which are known at different times.

    Attributes:
        delayed: completed once both are known.
    """

    def __init__(
        self,
        call: Call,
        request: ShareFetchRequest,
        group_id: str,
        member_id: str,
        session: ShareSession | None,
        metadata: MetadataCache,
        replicas: Replicas,
        shares: Shares,
        may_read: Callable[[str], bool],
        throttling: Throttling,
    ) -> None:
        self._call = call
        self._throttling = throttling
        self._request = request
        self._group_id = group_id
        self._member_id = member_id
        self._session = session
        #: The epoch that the session has unless a later request uses it.
        self._epoch = 0 if session is None else session.epoch
        self._metadata = metadata
        self._replicas = replicas
        self._shares = shares
        self._may_read = may_read
        self._is_acknowledging = False
        self._outcomes: Outcomes = {}
        self._errors: dict[TopicIdPartition, PartitionData] = {}
        self._found: dict[TopicIdPartition, PartitionData] | None = None
        self.delayed = DelayedOperation()

    def acknowledge(self, is_renewing: bool) -> Work[None]:
        """Acknowledge what the request acknowledges."""
        self._is_acknowledging = True
        renewal = Renewal(self._call.version >= _RENEWAL_SINCE, is_renewing)
        topics, shares = self._metadata.image.topics_by_id, self._shares.partitions
        acknowledger = Acknowledger(self._group_id, self._member_id, renewal, topics, shares, self._may_read)
        return acknowledger.acknowledge(_asked(self._request), self._acknowledged, self._call.now_ms)

    def _acknowledged(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self._is_acknowledging = False
        self._answer()

    def fetch_nothing(self) -> None:
        """Answer without records."""
        self._found = {}
        self._answer()

    def fetch(self, session: ShareSession, bytes_max: int) -> None:
        """Fetch the partitions of the session."""
        request = self._request
        partitions = self._partitions(session)
        if partitions and request.share_acquire_mode not in _ACQUIRE_MODES:
            self.delayed.complete(ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))  # as Kafka answers
            return
        bytes_max = min(request.max_bytes, bytes_max)
        if (unthrottled_bytes := self._throttling.fetch_bytes_max(self._call)) is not None:
            bytes_max = min(bytes_max, unthrottled_bytes)
        requested = ShareFetchRequested(
            self._group_id,
            self._member_id,
            partitions,
            request.max_wait_ms,
            min(request.min_bytes, bytes_max),
            bytes_max,
            request.max_records,
            request.batch_size,
            is_limited=request.share_acquire_mode == ShareAcquireMode.RECORD_LIMIT,
        )
        fetch: ShareFetch = self._shares.fetches.begin(requested, self._fetched, self._call.now_ms)
        self.delayed.on_cancel = fetch.cancel

    def _partitions(self, session: ShareSession) -> list[tuple[SharePartitionKey, str]]:
        """Return the partitions to fetch, and note the errors of the others."""
        known = self._metadata.image.topics_by_id
        found: list[tuple[SharePartitionKey, str]] = []
        for partition, cached in session:
            topic = known.get(partition.topic_id)
            name = cached if topic is None else topic.name
            if name is not None and not self._may_read(name):
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                self._errors[partition] = PartitionData(partition.partition, code, records=b"")
                continue
            if topic is not None and topic.partition(partition.partition) is not UNKNOWN_PARTITION:
                found.append((SharePartitionKey(self._group_id, *partition), topic.name))
                continue
            is_unknown = topic is None and cached is None
            code = ErrorCode.UNKNOWN_TOPIC_ID if is_unknown else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self._errors[partition] = PartitionData(partition.partition, code, records=b"")
        epoch = self._request.share_session_epoch
        if found and epoch > INITIAL_SHARE_SESSION_EPOCH:
            turn = epoch % len(found)
            found = found[turn:] + found[:turn]
        return found

    def _fetched(self, found: dict[SharePartitionKey, PartitionData]) -> None:
        self._found = {TopicIdPartition(key.topic_id, key.partition): data for key, data in found.items()}
        self._answer()

    def _answer(self) -> None:
        """Answer once everything is known."""
        if self._found is not None and not self._is_acknowledging:
            self.delayed.complete_by(partial(self._counted, {**self._found, **self._errors}))

    def _counted(self, found: dict[TopicIdPartition, PartitionData]) -> ShareFetchResponse:
        response = self._response(found)
        if self._throttling.limits_fetched_bytes:
            parts = program(ShareFetchResponse, self._call.version).encode_parts(response)
            self._throttling.count_share_fetch(self._call, LENGTH_BYTES + sum(map(len, parts)))
        return response

    def _response(self, found: dict[TopicIdPartition, PartitionData]) -> ShareFetchResponse:
        session, epoch = self._session, self._request.share_session_epoch
        lock_duration_ms = self._shares.limits.lock_duration_ms(self._group_id)
        if session is None:
            self._shares.end_session(self._group_id, self._member_id)
        elif session.epoch != self._epoch:
            code = ErrorCode.INVALID_SHARE_SESSION_EPOCH  # another request has used the session in the meantime
            return ShareFetchResponse(error_code=code, acquisition_lock_timeout_ms=lock_duration_ms)
        elif epoch != INITIAL_SHARE_SESSION_EPOCH:
            found = {partition: data for partition, data in found.items() if _must_tell(session, partition, data)}
        topics: dict[bytes, list[PartitionData]] = {}
        for partition, data in found.items():
            topics.setdefault(partition.topic_id, []).append(data)
            if partition in self._outcomes:
                data.acknowledge_error_code, data.acknowledge_error_message = self._outcomes[partition]
        for partition, outcome in self._outcomes.items():
            if partition not in found:
                told = PartitionData(partition.partition, records=b"")
                told.acknowledge_error_code, told.acknowledge_error_message = outcome
                topics.setdefault(partition.topic_id, []).append(told)
        leaders = NamedLeaders(
            self._call, self._replicas, ShareFetchResponse.LeaderIdAndEpoch, ShareFetchResponse.NodeEndpoint
        )
        known = self._metadata.image.topics_by_id
        for partition, data in found.items():
            topic = known.get(partition.topic_id)
            if topic is not None:
                leader = leaders.leader(topic.name, partition.partition, data.error_code)
                if leader is not None:
                    data.current_leader = leader
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=lock_duration_ms,
            responses=[Topic(topic_id, partitions) for topic_id, partitions in topics.items()],
            node_endpoints=leaders.endpoints(),
        )


def _must_tell(session: ShareSession, partition: TopicIdPartition, data: PartitionData) -> bool:
    is_error = data.error_code != ErrorCode.NONE
    return session.must_tell(partition, has_records=bool(data.acquired_records), is_error=is_error)
