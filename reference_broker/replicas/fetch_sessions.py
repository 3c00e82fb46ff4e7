"""Fetch sessions, in which requests and responses name only changed partitions (KIP-227).

A state machine without I/O. The cache finds a request's session, or begins one. A session records what its client has
requested and received, and which partitions may have something new: those in the last request, those whose logs have
reported a change, and those not yet read to the end. Only these are read, however large the session is.

Source: `FetchSession`, `FetchManager`, `FetchSessionCacheShard` in Apache Kafka.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from itertools import count
from typing import Protocol

from kafkawire.reference_broker.replicas.awaited_offset import COMPLETES_ANY_FETCH_BYTES
from kafkawire.reference_broker.work.computations import Computations
from kafkawire.reference_broker.work.pieces import Pieces, Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.tables.enums import (
    FINAL_FETCH_SESSION_EPOCH,
    INITIAL_FETCH_SESSION_EPOCH,
    NO_FETCH_SESSION_ID,
    UNKNOWN_OFFSET,
    IsolationLevel,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records.java_integers import INT32_MAX

__all__ = ["EVICTION_MS", "FetchSession", "FetchSessions", "SessionPartition", "WaitingFetch", "WatchedLog"]

PartitionData = FetchResponse.PartitionData

#: A session unused for this long can be evicted to make room for any other; a session used more recently cannot be
#: evicted for a consumer's session.
EVICTION_MS = 120_000

#: The number of topics and partitions that can be added or removed in a fraction of a millisecond.
_AT_A_TIME = 100

#: Stands for the time of the session's last fetch while fetches find nothing new in a partition.
_RESTS = -1

#: The id or name of a topic, and the number of a partition.
_Key = tuple[bytes | str, int]


class WatchedLog(Protocol):
    """The interface of a log that sessions use."""

    @property
    def error(self) -> BrokerError | None:
        """The error that prevents reading, or None while the log is readable."""
        ...

    def watch(self, watcher: Callable[[int], None], *, is_committed: bool = False, is_follower: bool = False) -> None:
        """Call `watcher` with the number of bytes whenever consumers or the given kind of reader can read more."""
        ...

    def unwatch(self, watcher: Callable[[int], None]) -> None:
        """Stop calling a watcher; may be called more than once."""
        ...

    def holds_back(self, broker_id: int) -> bool:
        """Return whether a follower gets no records for now, because it is not in sync and the quota is exceeded."""
        ...

    def sent(self, size_bytes: int) -> None:
        """Count the records in a response to a follower."""
        ...


class WaitingFetch(Protocol):
    """A fetch that is waiting for its session's partitions."""

    def more(self, size_bytes: int) -> None:
        """Record that more bytes can be read."""
        ...

    def interrupted(self, code: ErrorCode) -> None:
        """Respond with an error: a newer request has used the session, or it has ended."""
        ...


class SessionPartition:
    """A partition in a session.

    Attributes:
        topic: the topic's name; "" if its id is used.
        topic_id: the topic's id; zeros if its name is used.
        wanted: the client's last request for the partition.
        turn: the position in the session's order; for fairness, a partition moves to the end once its records have been
            sent.
        idle_ms: when the last fetch arrived that did not have to read the partition, because the client already had all
            of it; None if there has been no such fetch.
    """

    __slots__ = (
        "_high_watermark",
        "_idle_ms",
        "_log",
        "_log_start_offset",
        "_session",
        "topic",
        "topic_id",
        "turn",
        "wanted",
    )

    def __init__(self, session: FetchSession, topic: FetchRequest.FetchTopic, wanted: FetchRequest.FetchPartition):
        self.topic = topic.topic
        self.topic_id = topic.topic_id
        self.wanted = wanted
        self.turn = 0
        self._session = session
        self._high_watermark = self._log_start_offset = UNKNOWN_OFFSET
        self._log: WatchedLog | None = None
        self._idle_ms: int | None = None  # or `_RESTS`

    @property
    def idle_ms(self) -> int | None:
        return self._session.fetched_ms if self._idle_ms == _RESTS else self._idle_ms

    def rest(self) -> None:
        """Record that, until `wake`, the client has all of the partition."""
        self._idle_ms = _RESTS

    def wake(self) -> None:
        """Record that the partition must be read again: later fetches no longer imply that the client has all of it."""
        if self._idle_ms == _RESTS:
            self._idle_ms = self._session.fetched_ms

    def read_again(self) -> None:
        """Read the partition at the client's next fetch even if nothing is new, unless it has left the session."""
        if self._session.has(self):
            self._session.changed(self, 0)

    def leave(self) -> None:
        """Record that the client no longer fetches the partition."""
        self.wake()
        self.unfollow()

    def changed(self, size_bytes: int) -> None:
        """Record that more can be read or that reading has ended; called by logs."""
        if self._log is not None and self._log.error is not None:
            # The client may never fetch again, which would keep the files of a deleted topic open.
            self.read_from(None)
        self._session.changed(self, size_bytes)

    def is_held_back(self) -> bool:
        """Return whether the client is a follower that gets no records from the partition for now."""
        return self._log is not None and self._log.holds_back(self._session.follower_id)

    def sent(self, size_bytes: int) -> None:
        """Count the records sent to the client, which is a follower."""
        if self._log is not None:
            self._log.sent(size_bytes)

    def moved(self, size_bytes: int) -> None:
        """Record a new high watermark that does not make more records readable; called by logs."""
        self._session.changed(self, 0)

    def is_news(self, data: PartitionData) -> bool:
        """Return whether the response would tell the client something new."""
        return bool(
            data.records
            or data.error_code != ErrorCode.NONE
            or data.high_watermark != self._high_watermark
            or data.log_start_offset != self._log_start_offset
        )

    def tell(self, data: PartitionData) -> None:
        """Record the data sent to the client."""
        # After an error, any data is new to the client.
        self._high_watermark = data.high_watermark if data.error_code == ErrorCode.NONE else UNKNOWN_OFFSET
        self._log_start_offset = data.log_start_offset

    def read_from(self, log: WatchedLog | None) -> bool:
        """Record the log that was read; return whether it differs from the previous one."""
        if log is self._log:
            return False
        self.unfollow()
        self._log = log
        return True

    def follow(self, *, is_committed: bool) -> None:
        """Subscribe to changes to the log.

        Args:
            is_committed: whether the client reads only committed records; a follower reads to the end of the log.
        """
        log = self._log
        if log is None:
            return
        if self._session.is_follower:
            log.watch(self.moved)
            log.watch(self.changed, is_follower=True)
            return
        if is_committed:
            log.watch(self.moved)
        log.watch(self.changed, is_committed=is_committed)

    def unfollow(self) -> None:
        """Unsubscribe from changes to the log."""
        if self._log is not None:
            self._log.unwatch(self.moved)
            self._log.unwatch(self.changed)


class FetchSession:
    """The partitions that a client fetches, set by `want`. A session without an id ends with the response.

    Args:
        request: a full fetch request.
        by_id: whether topics are identified by id.

    Attributes:
        id: the session id; `NO_FETCH_SESSION_ID` if the session is not cached.
        epoch: the epoch expected in the next request.
        by_id: see above.
        is_follower: whether the client is another broker, whose session may evict those of consumers.
        follower_id: the id of that broker; negative for a consumer.
        is_full: whether the response names every partition.
        created_ms: when the session was cached.
        used_ms: when a request last used the session.
        fetched_ms: the arrival time of the last request whose partitions have been applied.
        waiting: the fetch that is waiting for something new.
        is_busy: whether a fetch is being processed in pieces.
        is_removed: whether the session has been removed from the cache.
        has_news: whether any partition has changed since this was last set to False.
    """

    def __init__(self, request: FetchRequest, by_id: bool) -> None:
        self.id = NO_FETCH_SESSION_ID
        self.epoch = INITIAL_FETCH_SESSION_EPOCH
        self.by_id = by_id
        self.follower_id = max(request.replica_id, request.replica_state.replica_id)
        self.is_follower = self.follower_id >= 0
        self.is_full = True
        self.created_ms = self.used_ms = self.fetched_ms = 0
        self.waiting: WaitingFetch | None = None
        self.is_busy = self.is_removed = self.has_news = False
        self._isolation_level = request.isolation_level
        #: What the client was allowed to do at its last fetch; see `Authorizer.state`.
        self._rights: object = None
        self._partitions: dict[_Key, SessionPartition] = {}
        self._ready: dict[SessionPartition, None] = {}
        #: Partitions read from a different log since the last `follow`.
        self._unfollowed: list[SessionPartition] = []
        self._turns = count()

    def __len__(self) -> int:
        return len(self._partitions)

    def has(self, partition: SessionPartition) -> bool:
        """Return whether a partition is still in the session."""
        name = partition.topic_id if self.by_id else partition.topic
        return self._partitions.get((name, partition.wanted.partition)) is partition

    def update(self, request: FetchRequest) -> Work[None]:
        """Apply a request's additions, changes and removals; yield now and then.

        Raises:
            BrokerError: FETCH_SESSION_ID_NOT_FOUND if the session was removed in the meantime.
        """
        yield from self.want(request)
        yield from self._forget(request)
        if request.isolation_level != self._isolation_level:
            # A partition read to its end at one isolation level may have more to read at the other level.
            self._isolation_level = request.isolation_level
            pieces = Pieces(_AT_A_TIME)
            for partition in [*self._partitions.values()]:
                self._ready[partition] = None
                partition.unfollow()
                self._follow(partition)
                if pieces.ends():
                    yield
                    self.check()

    def want(self, request: FetchRequest) -> Work[None]:
        """Apply a request's additions and changes; yield now and then."""
        pieces = Pieces(_AT_A_TIME)
        for topic in request.topics:
            if pieces.ends():
                yield
            name = topic.topic_id if self.by_id else topic.topic
            for wanted in topic.partitions:
                partition = self._partitions.get((name, wanted.partition))
                if partition is None:
                    partition = SessionPartition(self, topic, wanted)
                    self._partitions[name, wanted.partition] = partition
                    self._to_end(partition)
                partition.wanted = wanted
                if self.is_follower:
                    partition.wake()
                self._ready[partition] = None
                if pieces.ends():
                    yield

    def _forget(self, request: FetchRequest) -> Work[None]:
        pieces = Pieces(_AT_A_TIME)
        for forgotten in request.forgotten_topics_data:
            if pieces.ends():
                yield
            name = forgotten.topic_id if self.by_id else forgotten.topic
            for number in forgotten.partitions:
                gone = self._partitions.pop((name, number), None)
                if gone is not None:
                    gone.leave()
                    self._ready.pop(gone, None)
                if pieces.ends():
                    yield

    def heed_rights(self, rights: object) -> None:
        """Read all partitions if what the client may read has changed since its last fetch.

        Args:
            rights: an object that stays the same until it changes.
        """
        if rights is self._rights:
            return
        self._rights = rights
        for partition in self._partitions.values():
            if self.is_follower:
                partition.wake()
            self._ready[partition] = None

    def to_read(self) -> list[SessionPartition]:
        """Return the partitions that may have something new, in session order."""
        return sorted(self._ready, key=_turn)

    @property
    def ready(self) -> int:
        """The number of partitions that may have something new."""
        return len(self._ready)

    def was_read(self, partition: SessionPartition, log: WatchedLog | None, *, is_at_end: bool) -> None:
        """Record a read of a partition.

        Args:
            partition: the partition.
            log: the log of the partition; None if it has none.
            is_at_end: whether the read reached the end without an error, in which case the log will report more data.
        """
        is_new = partition.read_from(log)
        if is_at_end:
            self._ready.pop(partition, None)
            if self.is_follower:
                partition.rest()
        if is_new and self.is_follower:
            # The next read shows the follower's position. That may commit records in the partition read, and a
            # coordinator whose election had to wait for those records may immediately append to this partition.
            self._follow(partition)
        elif is_new:
            self._unfollowed.append(partition)

    def changed(self, partition: SessionPartition, size_bytes: int) -> None:
        """Record that a partition may have something new."""
        if self.is_follower:
            partition.wake()
        self._ready[partition] = None
        self.has_news = True
        if self.waiting is not None:
            # A size that completes any fetch is not the size of records; it signals, for example, the end of a role.
            is_counted = not size_bytes or size_bytes >= COMPLETES_ANY_FETCH_BYTES or not self.is_follower
            self.waiting.more(size_bytes if is_counted or not partition.is_held_back() else 0)

    def follow(self) -> None:
        """Subscribe to changes to the logs of all partitions."""
        for partition in self._unfollowed:
            self._follow(partition)
        self._unfollowed.clear()

    def tell(self, partition: SessionPartition, data: PartitionData) -> None:
        """Record the response for the next partition in session order."""
        partition.tell(data)
        if data.records or self.is_full:
            self._to_end(partition)

    def end(self) -> Work[None]:
        """Remove all partitions, and unsubscribe from their logs; yield now and then."""
        partitions, self._partitions = self._partitions, {}
        self._ready = {}
        self._unfollowed = []
        pieces = Pieces(_AT_A_TIME)
        while partitions:
            gone = partitions.popitem()[1]
            if self.is_follower:
                gone.leave()
            else:
                gone.unfollow()
            if pieces.ends():
                yield

    def check(self) -> None:
        """Check, after a yield, that the session still exists.

        Raises:
            BrokerError: FETCH_SESSION_ID_NOT_FOUND.
        """
        if self.is_removed:
            raise BrokerError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {self.id} does not exist")

    def interrupt(self, code: ErrorCode) -> None:
        """Answer the waiting fetch with an error."""
        if self.waiting is not None:
            self.waiting.interrupted(code)

    def _follow(self, partition: SessionPartition) -> None:
        partition.follow(is_committed=self._isolation_level == IsolationLevel.READ_COMMITTED)

    def _to_end(self, partition: SessionPartition) -> None:
        partition.turn = next(self._turns)


class FetchSessions:
    """The sessions of all clients.

    Args:
        slots: the maximum number of cached sessions; beyond it, a fetch is answered without a session.
        new_id: returns a unique text.
        computations: runs the cleanup of ended sessions.
    """

    def __init__(self, slots: int, new_id: Callable[[], str], computations: Computations) -> None:
        self._slots = slots
        self._new_id = new_id
        self._computations = computations
        #: In order of last use.
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, now_ms: int, *, by_id: bool) -> Work[FetchSession]:
        """Return the session to which a request belongs, updated by the request; yield now and then.

        Args:
            request: the request.
            now_ms: the current time.
            by_id: whether topics are identified by id.

        Raises:
            BrokerError: FETCH_SESSION_ID_NOT_FOUND; INVALID_FETCH_SESSION_EPOCH for an unexpected epoch;
                FETCH_SESSION_TOPIC_ID_ERROR if the request uses topic ids but the session uses names, or vice versa.
        """
        session = self._sessions.get(request.session_id)
        if request.session_epoch in (INITIAL_FETCH_SESSION_EPOCH, FINAL_FETCH_SESSION_EPOCH):
            if session is not None:
                self._remove(session, now_ms)
            new = FetchSession(request, by_id)
            new.fetched_ms = now_ms
            yield from new.want(request)
            return new
        if session is None:
            raise BrokerError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {request.session_id} does not exist"
            )
        if request.session_epoch != session.epoch or session.is_busy:
            reason = f"expected session epoch {session.epoch}, got {request.session_epoch}"
            raise BrokerError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, reason)
        if by_id != session.by_id:
            raise BrokerError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "a fetch session cannot mix topic names and topic ids"
            )
        session.interrupt(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.is_full = False
        session.is_busy = True
        session.epoch = _after(session.epoch)
        self._touch(session, now_ms)
        try:
            yield from session.update(request)
            session.check()
            session.fetched_ms = now_ms
        except GeneratorExit:
            # The client has disconnected, and the session's state is unknown.
            if not session.is_removed:
                self._remove(session, now_ms)
            raise
        finally:
            session.is_busy = False
        if not session:
            self._remove(session, now_ms)
            new = FetchSession(request, by_id)
            new.fetched_ms = now_ms
            yield from new.want(request)
            return new
        return session

    def keep(self, session: FetchSession, now_ms: int) -> bool:
        """Cache a new session under an id if there is room or room can be made; return whether it was cached."""
        if len(self._sessions) >= self._slots and not self._evict(session, now_ms):
            return False
        session.id = self._unused_id()
        session.epoch = _after(INITIAL_FETCH_SESSION_EPOCH)
        session.created_ms = now_ms
        self._touch(session, now_ms)
        return True

    def _evict(self, session: FetchSession, now_ms: int) -> bool:
        """Evict the least recently used session if it is old, or else the smallest one that `session` may replace."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            self._remove(oldest, now_ms)
            return True
        # This checks every session, 1,000 by default, but only when all slots are in use.
        candidates = (each for each in self._sessions.values() if _gives_way(each, session))
        least = min(candidates, key=_value, default=None)
        if least is None or _value(session) < _value(least):
            return False
        self._remove(least, now_ms)
        return True

    def end(self, session: FetchSession, now_ms: int) -> None:
        """Unsubscribe an uncached session from its logs; a large session does so in pieces."""
        self._computations.begin(session.end(), lambda: True, lambda _, __: None, now_ms)

    def _remove(self, session: FetchSession, now_ms: int) -> None:
        del self._sessions[session.id]
        session.is_removed = True
        self.end(session, now_ms)
        session.interrupt(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        self._sessions.pop(session.id, None)
        self._sessions[session.id] = session
        session.used_ms = now_ms

    def _unused_id(self) -> int:
        """Return an id that no client from an earlier run will mistake for its own."""
        session_id = NO_FETCH_SESSION_ID
        while session_id == NO_FETCH_SESSION_ID or session_id in self._sessions:
            session_id = zlib.crc32(self._new_id().encode()) & INT32_MAX
        return session_id


def _turn(partition: SessionPartition) -> int:
    return partition.turn


def _after(epoch: int) -> int:
    """Return the epoch after `epoch`, skipping 0, which would begin a session."""
    return epoch + 1 if epoch < INT32_MAX else INITIAL_FETCH_SESSION_EPOCH + 1


def _gives_way(session: FetchSession, other: FetchSession) -> bool:
    """Return whether `other` may evict a session: it is old, or it is a consumer's and `other` is a broker's."""
    return session.used_ms - session.created_ms > EVICTION_MS or (other.is_follower and not session.is_follower)


def _value(session: FetchSession) -> tuple[bool, int, int]:
    """Return the value of caching a session: the more partitions it has, the more caching saves."""
    return session.is_follower, len(session), session.id
