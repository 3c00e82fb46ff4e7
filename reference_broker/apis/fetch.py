"""Fetch: read batches; if requested, wait until enough data is available.

4: lowest version of Kafka 4, isolation level. 5: log start offset. 7: fetch sessions. 9: leader epoch, to fence stale
clients. 11: rack. 12: flexible, divergence from the leader's epochs. 13: topic ids instead of names. 15: replica state.
16: the current leader's address. 17: directory id. 18: high watermark of a follower.

Every fetch has a session, which usually outlives the request. There is thus a single code path for reading and waiting,
and the cost depends on the number of partitions with new data. Since version 11, consumers may read from a follower,
and a leader may direct them to one; followers fetch only from the leader.

A consumer that exceeds a quota gets an empty response. The session does not record it, so the next fetch reads the same
partitions again.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.replicas.fetch_sessions import FetchSession, FetchSessions, SessionPartition
from kafkawire.reference_broker.replicas.follower_positions import Follower
from kafkawire.reference_broker.replicas.follower_reads import FollowerRead, divergence, read_for_follower
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.api_handlers import serves, since
from kafkawire.reference_broker.requests.authorization import allows_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, finished
from kafkawire.reference_broker.requests.long_requests import AT_A_TIME, complete_by_work
from kafkawire.reference_broker.requests.throttling import Throttling
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.storage.segments.search_preparation import NotPrepared
from kafkawire.reference_broker.storage.segments.segments import Read
from kafkawire.reference_broker.work.pieces import Pieces, Work
from kafkawire.reference_broker.work.timers import Timer
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.frames import LENGTH_BYTES
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import (
    INITIAL_FETCH_SESSION_EPOCH,
    NO_PARTITION_LEADER_EPOCH,
    UNKNOWN_OFFSET,
    AclOperation,
    IsolationLevel,
    ResourceType,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID

__all__ = ["check_isolation", "handle"]

_BY_ID_SINCE = since(FetchRequest.FetchTopic, "topic_id")

PartitionData = FetchResponse.PartitionData
AbortedTransaction = FetchResponse.AbortedTransaction

#: Partitions that are unknown, or that the client may not read, do not stop a fetch from waiting for others; they come
#: last in the response, in this order.
_UNKNOWN: dict[int, int] = {
    ErrorCode.UNKNOWN_TOPIC_ID: 1,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 2,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 2,
}

#: Converted once, since it is used for every partition.
_NO_ERROR = int(ErrorCode.NONE)

_ISOLATION_LEVELS = frozenset(IsolationLevel)

#: Errors after which the client may not know the leader, so the response names it.
_TELLING_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

#: KIP-951; `current_leader` is older, and was meant for the KRaft quorum.
_CURRENT_LEADER_SINCE = since(FetchResponse, "node_endpoints")

#: The first version in which consumers can read from a follower, and can be redirected to one.
_FROM_FOLLOWERS_SINCE = since(FetchRequest, "rack_id")

#: If a request has more partitions than this, they are read in several turns.
_MANY = 500

_Found = tuple[SessionPartition, PartitionData]


@serves(ApiKey.FETCH)
def handle(
    call: Call,
    request: FetchRequest,
    *,
    authorizer: Authorizer,
    fetch_sessions: FetchSessions,
    metadata: MetadataCache,
    options: BrokerOptions,
    replicas: Replicas,
    throttling: Throttling,
) -> Work[FetchResponse | DelayedOperation]:
    """Handle Fetch; respond immediately if there is an error or enough data, and otherwise delay the response."""
    check_isolation(request.isolation_level)
    try:
        session = yield from fetch_sessions.begin(request, call.now_ms, by_id=call.version >= _BY_ID_SINCE)
    except BrokerError as error:
        return FetchResponse(error_code=error.code)
    bytes_max = options.fetch_max_bytes
    fetch = _Fetch(call, request, authorizer, session, fetch_sessions, metadata, replicas, throttling, bytes_max)
    return (yield from fetch.answer())


class _Fetch:
    """One fetch request: the data found so far, and its wait for more."""

    def __init__(
        self,
        call: Call,
        request: FetchRequest,
        authorizer: Authorizer,
        session: FetchSession,
        sessions: FetchSessions,
        metadata: MetadataCache,
        replicas: Replicas,
        throttling: Throttling,
        bytes_max: int,
    ) -> None:
        self._call = call
        self._authorizer = authorizer
        #: Whether the client may read each topic, redecided by each read.
        self._may_read: dict[str, bool] = {}
        self._sessions = sessions
        self._metadata = metadata
        self._replicas = replicas
        self._bytes_max = max(min(request.max_bytes, bytes_max), 0)
        self._bytes_min = request.min_bytes
        self._request = request
        #: None if no quota limits this fetch.
        self._throttling: Throttling | None = None
        if session.is_follower:
            call.time = None  # the request quota does not limit brokers
        elif throttling.limits_fetches:
            self._throttling = throttling
            if (most_bytes := throttling.fetch_bytes_max(call)) is not None:
                self._bytes_max = min(self._bytes_max, most_bytes)
                self._bytes_min = min(self._bytes_min, self._bytes_max)
        self._session = session
        self._is_committed = request.isolation_level == IsolationLevel.READ_COMMITTED
        #: The response, unless it is being read again.
        self._found: dict[SessionPartition, PartitionData] = {}
        self._size_bytes = 0
        #: Whether a partition has an error or another reason to respond immediately.
        self._has_answers = False
        self._unknown = 0
        #: The brokers that are named as leaders in errors; None if there are none.
        self._endpoints: dict[int, FetchResponse.NodeEndpoint] | None = None
        self._reads = 0
        self._delayed: DelayedOperation | None = None
        self._timer: Timer | None = None

    def answer(self) -> Work[FetchResponse | DelayedOperation]:
        """Return the response if there is enough data; otherwise wait for more."""
        session = self._session
        session.is_busy = True
        try:
            yield from self._read()
            if self._may_wait and session.has_news:
                yield from self._read()
            return self._wait() if self._may_wait else (yield from self._response())
        except BrokerError as error:
            return FetchResponse(error_code=error.code, session_id=session.id)
        except GeneratorExit:
            self._cancel()
            raise
        finally:
            session.is_busy = False

    def _answer_now(self) -> Work[FetchResponse]:
        """Return the response with the data that is available now."""
        session = self._session
        session.is_busy = True
        try:
            yield from self._read()
            return (yield from self._response())
        except BrokerError as error:
            return FetchResponse(error_code=error.code, session_id=session.id)
        except GeneratorExit:
            self._cancel()
            raise
        finally:
            session.is_busy = False

    def _read(self) -> Work[None]:
        """Read the partitions that may have new data.

        Raises:
            BrokerError: the session has ended in the meantime.
        """
        request, session, found = self._request, self._session, self._found
        left = self._bytes_max
        self._size_bytes, self._has_answers, self._unknown = 0, False, 0
        self._reads += 1
        self._may_read.clear()
        session.heed_rights(self._authorizer.state)
        session.has_news = False
        may_follow = self._call.version >= _FROM_FOLLOWERS_SINCE
        pieces = Pieces(AT_A_TIME)
        for partition in session.to_read():
            replica = self._find(partition)
            read: FollowerRead | None = None
            if session.is_follower:
                read = self._read_for_follower(replica, partition, left)
                data = read.data
            elif request.rack_id and (elsewhere := self._preferred(replica, partition.wanted)) is not None:
                data, read = elsewhere, FollowerRead(elsewhere, is_at_end=False, is_answer=True)
            else:
                # Return at least one batch from the first partition with data; otherwise, large batches could never be
                # read.
                data = _read_partition(
                    replica, partition.wanted, left, not self._size_bytes, self._is_committed, may_follow
                )
            size = len(data.records or b"")
            self._size_bytes += size
            left = max(left - size, 0)
            is_error = is_answer = data.error_code != _NO_ERROR
            if read is None:
                end = data.last_stable_offset if self._is_committed else data.high_watermark
                is_answer |= data.diverging_epoch.epoch != NO_PARTITION_LEADER_EPOCH
                is_at_end = not size and not is_answer and partition.wanted.fetch_offset >= end
            else:
                _, is_at_end, is_answer = read
            if is_answer:
                self._note_answer(partition, data)
            watched = None if is_error or not isinstance(replica, Replica) else replica
            session.was_read(partition, watched, is_at_end=is_at_end)
            if session.is_full or is_answer or partition.is_news(data):
                found[partition] = data
            else:
                found.pop(partition, None)
            if pieces.ends():
                session.follow()  # to notice data that arrives in the meantime
                yield
                session.check()

    def _find(self, partition: SessionPartition) -> Replica | ErrorCode:
        """Return the replica of a partition, or the error if the client may not read it or it is not here."""
        name = partition.topic
        if self._session.is_follower and not self._allows(""):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if self._session.by_id:
            topic = self._metadata.image.topics_by_id.get(partition.topic_id)
            if topic is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            name = topic.name
        if not (self._session.is_follower or self._allows(name)):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        number = partition.wanted.partition
        replica = self._replicas.get(name, number)
        if replica is None:
            return self._replicas.missing(name, number).code
        if self._session.by_id and replica.topic_id not in (partition.topic_id, ZERO_UUID):
            return ErrorCode.INCONSISTENT_TOPIC_ID  # the topic has been recreated, and the log is that of the old topic
        return replica

    def _allows(self, topic: str) -> bool:
        """Return whether a consumer may read a topic, or, given an empty name, whether a follower may read anything."""
        is_allowed = self._may_read.get(topic)
        if is_allowed is None:
            authorizer, call = self._authorizer, self._call
            is_allowed = self._may_read[topic] = (
                allows_on_cluster(authorizer, call, AclOperation.CLUSTER_ACTION)
                if self._session.is_follower
                else authorizer.allows(call, AclOperation.READ, ResourceType.TOPIC, topic)
            )
        return is_allowed

    def _note_answer(self, partition: SessionPartition, data: PartitionData) -> None:
        """Note an error, or anything else that ends the wait for records."""
        if data.error_code in _UNKNOWN:
            self._unknown += 1
        else:
            self._has_answers = True
        if data.error_code in _TELLING_LEADER:
            self._tell_leader(partition, data)

    def _tell_leader(self, partition: SessionPartition, data: PartitionData) -> None:
        """Add the current leader to an error, which saves the client from asking for metadata (KIP-951)."""
        version, listener = self._call.version, self._call.peer.listener.name
        if version < _CURRENT_LEADER_SINCE:
            return
        name = partition.topic
        if self._session.by_id and (topic := self._metadata.image.topics_by_id.get(partition.topic_id)) is not None:
            name = topic.name
        leader_id, leader_epoch, broker = self._replicas.current_leader(name, partition.wanted.partition)
        data.current_leader = FetchResponse.LeaderIdAndEpoch(leader_id, leader_epoch)
        if broker is not None and (address := broker.listeners.get(listener)) is not None:
            endpoint = FetchResponse.NodeEndpoint(leader_id, *address, broker.rack)
            self._endpoints = {**(self._endpoints or {}), leader_id: endpoint}

    def _read_for_follower(self, replica: Replica | ErrorCode, partition: SessionPartition, left: int) -> FollowerRead:
        """Read a partition for a follower; only the first read of a request reveals the follower's position."""
        if not isinstance(replica, Replica):
            data = _read_partition(replica, partition.wanted, 0, False, False, False)
            return FollowerRead(data, is_at_end=False, is_answer=True)
        return read_for_follower(
            replica,
            _follower_of(self._request),
            partition.wanted,
            left,
            at_least_one=not self._size_bytes,
            arrived_ms=self._call.now_ms if self._reads == 1 else None,
            session=partition,
        )

    def _preferred(self, replica: Replica | ErrorCode, wanted: FetchRequest.FetchPartition) -> PartitionData | None:
        """Return a response that directs a consumer to a follower in its rack, or None to read from this broker."""
        if not isinstance(replica, Replica):
            return None
        preferred = replica.preferred_reader(self._request.rack_id, wanted.fetch_offset)
        if preferred is None or wanted.current_leader_epoch not in (NO_PARTITION_LEADER_EPOCH, replica.leader_epoch):
            return None  # reading will tell the consumer that its epoch is wrong
        log = replica.log
        return PartitionData(
            wanted.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            preferred_read_replica=preferred,
            records=b"",
        )

    @property
    def _may_wait(self) -> bool:
        """Whether the client would rather wait than get a response immediately."""
        request = self._request
        is_enough = self._has_answers or self._size_bytes >= self._bytes_min
        # Unknown partitions are read again each time, so all other partitions in the session are known.
        return not is_enough and request.max_wait_ms > 0 and len(self._session) > self._unknown

    def _response(self) -> Work[FetchResponse]:
        """Return the response with the data found."""
        session, request = self._session, self._request
        may_last = not session.is_full or request.session_epoch == INITIAL_FETCH_SESSION_EPOCH
        topics: list[FetchResponse.FetchableTopicResponse] = []
        last: tuple[str, bytes] | None = None
        partitions: list[PartitionData] = []
        entries = [*self._found.items()] if len(self._found) == 1 else (yield from self._in_order())
        if self._throttling is not None and self._throttling.count_fetch(self._call, self._response_bytes(entries)):
            return (yield from self._throttled(entries))
        pieces = Pieces(AT_A_TIME)
        for partition, data in entries:
            if last != (topic := (partition.topic, partition.topic_id)):
                last, partitions = topic, []
                topics.append(FetchResponse.FetchableTopicResponse(*topic, partitions))
            partitions.append(data)
            if data.records and session.is_follower:
                partition.sent(len(data.records))
            if may_last:
                session.tell(partition, data)
            if pieces.ends():
                yield
        session.check()
        if session.is_full and not (may_last and self._sessions.keep(session, self._call.now_ms)):
            yield from session.end()
        else:
            session.follow()
        response = FetchResponse(session_id=session.id, responses=topics)
        if self._endpoints is not None:
            response.node_endpoints = tuple(self._endpoints.values())
        return response

    def _response_bytes(self, entries: Iterable[_Found]) -> int:
        """Return the size of the response with the data found, which Kafka counts with its length prefix."""
        topics: dict[tuple[str, bytes], list[PartitionData]] = {}
        for partition, data in entries:
            topics.setdefault((partition.topic, partition.topic_id), []).append(data)
        response = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(*key, topics[key]) for key in topics])
        return LENGTH_BYTES + sum(map(len, program(FetchResponse, self._call.version).encode_parts(response)))

    def _throttled(self, entries: Iterable[_Found]) -> Work[FetchResponse]:
        """Return an empty response; whatever was found remains news to the client."""
        session = self._session
        session.check()
        for partition, _ in entries:
            partition.read_again()
        if session.is_full:
            yield from session.end()
        else:
            session.follow()
        return FetchResponse(session_id=session.id)

    def _in_order(self) -> Work[list[_Found]]:
        """Return the results in session order, with unknown partitions last, as in Kafka."""
        places: tuple[list[_Found], ...] = ([], [], [])
        pieces = Pieces(AT_A_TIME)
        for entry in self._found.items():
            places[_UNKNOWN.get(entry[1].error_code, 0)].append(entry)
            if pieces.ends():
                self._session.follow()  # to notice data that arrives before the response is complete
                yield
        if self._reads > 1:  # after a single read, they are already in order
            for entries in places:
                entries.sort(key=_turn)
        return [*places[0], *places[1], *places[2]]

    # Waiting.

    def _wait(self) -> DelayedOperation:
        """Delay the response until `min_bytes` can be read, or `max_wait_ms` has passed."""
        call = self._call
        self._delayed = DelayedOperation()
        self._delayed.on_cancel = self._cancel
        self._timer = call.timers.at(call.now_ms + self._request.max_wait_ms, self._finish)
        self._session.waiting = self
        self._session.follow()
        return self._delayed

    def more(self, size_bytes: int) -> None:
        """Record that more bytes can be read."""
        self._size_bytes += size_bytes
        if self._size_bytes >= self._bytes_min:
            self._finish(self._call.now_ms)

    def interrupted(self, code: ErrorCode) -> None:
        """Respond with an error, since a newer request has used the session, or the session has ended."""
        self._stop_waiting()
        if self._delayed is not None:
            self._delayed.complete(FetchResponse(error_code=code, session_id=self._session.id))

    def _finish(self, now_ms: int) -> None:
        self._stop_waiting()
        if self._delayed is None:
            return
        if self._session.ready < _MANY:
            self._delayed.complete_by(lambda: finished(self._answer_now()))
        else:
            complete_by_work(self._call, self._delayed, self._answer_now(), AT_A_TIME)

    def _cancel(self) -> None:
        self._stop_waiting()
        if self._session.is_full:
            self._sessions.end(self._session, self._call.now_ms)

    def _stop_waiting(self) -> None:
        self._session.waiting = None
        if self._timer is not None:
            self._timer.cancel()


def _follower_of(request: FetchRequest) -> Follower:
    state = request.replica_state
    return Follower(max(request.replica_id, state.replica_id), state.replica_epoch)


def _turn(entry: _Found) -> int:
    return entry[0].turn


def _read_partition(
    replica: Replica | ErrorCode,
    partition: FetchRequest.FetchPartition,
    left: int,
    at_least_one: bool,
    is_committed: bool,
    may_follow: bool,
) -> PartitionData:
    data = PartitionData(partition.partition, high_watermark=UNKNOWN_OFFSET, aborted_transactions=None, records=b"")
    if not isinstance(replica, Replica):
        data.error_code = replica
        data.aborted_transactions = ()
        return data
    log = replica.log
    try:
        # As in Kafka, any negative epoch means none; this is not so in other requests.
        epoch = max(partition.current_leader_epoch, NO_PARTITION_LEADER_EPOCH)
        if may_follow:
            replica.check_readable(epoch)
        else:
            replica.check(epoch)
        diverging = divergence(log, partition)
        if diverging is None:
            max_bytes = min(left, partition.partition_max_bytes)
            read = log.read(partition.fetch_offset, max_bytes, at_least_one=at_least_one, is_committed=is_committed)
        else:
            data.diverging_epoch = diverging
            read = Read(None, is_first_whole=False)
    except NotPrepared:
        # The log reports when it becomes readable; until then, return the other partitions.
        read = Read(None, is_first_whole=False, aborted=() if is_committed else None)
    except BrokerError as error:
        data.error_code = error.code
        return data
    data.high_watermark, data.last_stable_offset = log.high_watermark, log.last_stable_offset
    if read.aborted is not None:
        data.aborted_transactions = [AbortedTransaction(*entry[:2]) for entry in read.aborted]
    data.log_start_offset = log.log_start_offset
    if read.is_first_whole:
        data.records = read.records  # type: ignore[assignment]  # a slice of a file: encode_parts keeps it apart
    return data


def check_isolation(level: int) -> None:
    """Check an isolation level.

    Raises:
        BrokerError: INVALID_REQUEST if the level does not exist; Kafka fails with UNKNOWN_SERVER_ERROR instead.
    """
    if level not in _ISOLATION_LEVELS:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"the isolation level must be 0 or 1, got {level}")
