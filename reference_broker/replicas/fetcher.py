"""The partitions that this broker fetches from one leader: one request in flight, in one fetch session.

A state machine without I/O: `plan` returns the next request, `answered` takes its outcome, and `due_ms` says when to
plan again if nothing happens first. An event causes work only for the partitions it concerns, so idle partitions cost
nothing. Only partitions in the state FETCHING are in the session, with one exception: a partition whose append takes a
moment stays in the session, and the next request waits for the append.

Source: `AbstractFetcherThread`, `RemoteLeaderEndPoint`, `ReplicaFetcherThread` in Apache Kafka 3.9; KIP-227.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from itertools import islice
from typing import Final, NamedTuple

from kafkawire.reference_broker.replicas.followed import Followed, FollowedState, FollowerReplica
from kafkawire.reference_broker.replicas.replication_quota import ReplicationQuota
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import INITIAL_FETCH_SESSION_EPOCH, IsolationLevel
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.fetch_session import FetchSession
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = [
    "APPEND_PATIENCE_MS",
    "ASKED_MAX",
    "CURRENT_VERSIONS",
    "RESPONSES_HELD_MAX",
    "Fetcher",
    "FetcherOptions",
    "FetcherVersions",
    "Planned",
]

logger = logging.getLogger("kafkawire.broker")

#: How long the next request waits for unfinished appends: most rolls and syncs take less time, and a partition that
#: leaves the session and returns costs the leader more than the wait does.
APPEND_PATIENCE_MS: Final = 20

#: The maximum number of responses with records that logs still need: a log waiting for its disk keeps an entire
#: response in memory, of up to `replica.fetch.response.max.bytes`.
RESPONSES_HELD_MAX: Final = 4

#: The maximum number of partitions in a ListOffsets request: the leader reads one log for each, while other requests
#: wait.
ASKED_MAX: Final = 1_000

#: Errors that a full request resolves.
_SESSION_ENDED: Final = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


class FetcherOptions(NamedTuple):
    """The options of fetchers.

    Attributes:
        broker_id: the id of this broker.
        wait_max_ms: how long the leader may wait for records, `replica.fetch.wait.max.ms`.
        min_bytes: how many bytes the leader waits for, `replica.fetch.min.bytes`.
        max_bytes: the limit for each partition, `replica.fetch.max.bytes`, except that a larger first batch is still
            fetched.
        response_max_bytes: the limit for all partitions together, `replica.fetch.response.max.bytes`, with the same
            exception.
        backoff_ms: the pause after a failure, `replica.fetch.backoff.ms`.
        response_timeout_ms: how long to wait for a response, `replica.socket.timeout.ms`.
    """

    broker_id: int
    wait_max_ms: int
    min_bytes: int
    max_bytes: int
    response_max_bytes: int
    backoff_ms: int
    response_timeout_ms: int


class FetcherVersions(NamedTuple):
    """The request versions, which follow from `inter.broker.protocol.version`: see `PeerVersions`.

    Attributes:
        fetch: for fetches by topic id: 13 or later.
        fetch_by_name: for fetches if any topic has no id: 12, the last version with names, and the first with
            divergence.
        list_offsets: for ListOffsets: 4 or later, with leader epochs.
    """

    fetch: int = 17
    fetch_by_name: int = 12
    list_offsets: int = 9


#: The versions that an Apache Kafka 3.9 follower uses with brokers running the same release.
CURRENT_VERSIONS: Final = FetcherVersions()

#: The first version of Fetch that names the follower together with its broker epoch (KIP-903).
_WITH_BROKER_EPOCH: Final = next(each.versions.first for each in FetchRequest.FIELDS if each.name == "replica_state")


class Planned(NamedTuple):
    """A request to the leader.

    Attributes:
        request: the content of the request.
        version: the version of the request.
        timeout_ms: how long to wait for the response.
    """

    request: FetchRequest | ListOffsetsRequest
    version: int
    timeout_ms: int


class Fetcher:
    """The fetches from one leader.

    Args:
        leader_id: the broker to fetch from.
        options: see `FetcherOptions`.
        broker_epoch: returns the epoch of this broker's registration.
        wake: called when it may be time to plan again; the callback itself must not plan.
        quota: the followers' quota, which all fetchers share.
        versions: the versions of the requests.

    Attributes:
        leader_id: see above.
        partitions: the followed partitions, in any state.
    """

    def __init__(
        self,
        leader_id: int,
        options: FetcherOptions,
        broker_epoch: Callable[[], int],
        wake: Callable[[], None],
        quota: ReplicationQuota,
        versions: FetcherVersions = CURRENT_VERSIONS,
    ) -> None:
        self.leader_id = leader_id
        self.partitions: dict[TopicPartition, Followed] = {}
        self._options = options
        self._broker_epoch = broker_epoch
        self._wake = wake
        self._quota = quota
        self._versions = versions
        self._session = FetchSession()
        self._lines = LogLimit(logger)
        self._is_asked = False
        #: Whether the request in flight begins a session.
        self._is_full = False
        #: The partitions of the ListOffsets request in flight.
        self._listing: tuple[Followed, ...] = ()
        #: After a whole request has failed, no request is sent before this time.
        self._not_before_ms: int | None = None
        #: The partitions that the session should contain.
        self._wanted: dict[TopicPartition, Followed] = {}
        #: The fetched partitions with throttled replication, as of the last known change to the quota; some may be
        #: withheld.
        self._throttled: dict[TopicPartition, Followed] = {}
        self._quota_changes = quota.changes
        self._withheld: set[TopicPartition] = set()
        self._asking: dict[Followed, None] = {}
        #: Partitions in the session whose appends have not ended, and when they are removed from the session.
        self._appending: dict[Followed, None] = {}
        self._patient_until_ms: int | None = None
        #: Partitions paused since the last plan, and all pauses ordered by their ends.
        self._pausing: list[Followed] = []
        self._paused: list[tuple[int, int, Followed]] = []
        #: The latest known time; see `_note_time`.
        self._latest_ms = 0
        #: Log ends that the leader has reported and will not repeat, but that partitions have not adopted because the
        #: logs differed or the answer was for a former epoch. They are adopted once the leader reports nothing else.
        self._untaken: dict[TopicPartition, tuple[int, int]] = {}
        #: How many partitions still need each response, keyed by the response's number.
        self._held: dict[int, int] = {}
        self._number = 0

    # Partitions.

    def add(self, partition: TopicPartition, replica: FollowerReplica, leader_epoch: int) -> None:
        """Follow a partition from now on, ending any earlier epoch of it.

        Args:
            partition: its topic and number.
            replica: its replica on this broker, which is a follower.
            leader_epoch: the epoch in which the leader leads it.
        """
        self.remove(partition)
        followed = Followed(partition, replica, leader_epoch, self._options.max_bytes, self)
        self.partitions[partition] = followed
        followed.begin()

    def remove(self, partition: TopicPartition) -> None:
        """Stop following a partition; no more fetched records are appended."""
        followed = self.partitions.pop(partition, None)
        if followed is not None:
            self._leave(followed)
            followed.end()

    def moved(self, partition: TopicPartition) -> None:
        """Record that more of a partition's log can be acknowledged, or that its start offset has increased."""
        followed = self.partitions.get(partition)
        if followed is not None:
            followed.moved()

    # Called by `Followed` (see `Keeper`).

    def changed(self, followed: Followed) -> None:
        partition = followed.partition
        if self.partitions.get(partition) is not followed:
            return
        if followed.state is FollowedState.FETCHING:
            self._asking.pop(followed, None)
            self._appending.pop(followed, None)
            if self._quota.is_throttled(partition):
                self._throttled[partition] = followed
            if self._wanted.get(partition) is not followed or not followed.is_sent:
                # Put it at the end, so that in a full request, other partitions come first in the next response.
                self._wanted.pop(partition, None)
                self._wanted[partition] = followed
                self._session.change(partition)
        elif followed.state is FollowedState.APPENDING and partition in self._wanted:
            self._appending[followed] = None
        else:
            self._leave(followed)
            if followed.state is FollowedState.ASKING:
                self._asking[followed] = None
            elif followed.state is FollowedState.PAUSED:
                self._pausing.append(followed)
        self._wake()

    def released(self, followed: Followed) -> None:
        number, followed.response = followed.response, 0
        if number:
            self._held[number] -= 1
            if not self._held[number]:
                del self._held[number]
                self._wake()

    def took(self, followed: Followed) -> None:
        self._untaken.pop(followed.partition, None)

    def _leave(self, followed: Followed) -> None:
        """Remove a partition from the session, and from everything else that tracks it."""
        if self._wanted.pop(followed.partition, None) is not None:
            self._session.change(followed.partition)
        self._throttled.pop(followed.partition, None)
        self._withheld.discard(followed.partition)
        self._asking.pop(followed, None)
        self._appending.pop(followed, None)

    # Requests.

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to plan again if nothing happens first; None if only an event can trigger a request."""
        if self._is_asked:
            return None
        if self._pausing:
            return now_ms
        due = [self._paused[0][0]] if self._paused else []
        if self._asking:
            due.append(now_ms)
        elif self._wanted and len(self._held) < RESPONSES_HELD_MAX:
            due.append(self._patient_until_ms or now_ms if self._appending else now_ms)
        elif self._withheld and not self._wanted:
            due.append(self._quota.free_ms(now_ms))
        if not due:
            return None
        return max(min(due), self._not_before_ms or now_ms)

    def plan(self, now_ms: int) -> Planned | None:
        """Return the next request; None if one is in flight or none is due.

        Args:
            now_ms: the current time.
        """
        self._note_time(now_ms)
        self._note_pauses(now_ms)
        if self._is_asked or (self._not_before_ms is not None and now_ms < self._not_before_ms):
            return None
        self._not_before_ms = None
        self._end_pauses(now_ms)
        if self._asking:
            return self._plan_listing()
        self._heed_quota(now_ms)
        if not self._wanted or len(self._held) >= RESPONSES_HELD_MAX:
            return None
        if self._appending and self._patient_until_ms is not None and now_ms < self._patient_until_ms:
            return None
        for followed in list(self._appending):
            self._leave(followed)
        self._patient_until_ms = None
        return self._plan_fetch() if self._wanted else None

    def _note_time(self, now_ms: int) -> None:
        """Move all deadlines if the clock has been set back; otherwise, nothing would be fetched until it catches up.

        If the clock is set forward, deadlines pass early, which does no harm.
        """
        back_ms, self._latest_ms = self._latest_ms - now_ms, now_ms
        if back_ms <= 0:
            return
        if self._not_before_ms is not None:
            self._not_before_ms -= back_ms
        if self._patient_until_ms is not None:
            self._patient_until_ms -= back_ms
        # All move by the same amount, so the heap's order stays valid.
        self._paused = [(end_ms - back_ms, number, followed) for end_ms, number, followed in self._paused]

    def _note_pauses(self, now_ms: int) -> None:
        pausing, self._pausing = self._pausing, []
        #: Pauses, grouped by cause: after an election, a leader may refuse thousands of partitions.
        alike: dict[object, list[Followed]] = {}
        for followed in pausing:
            if self._is_paused(followed):
                self._number += 1
                heappush(self._paused, (now_ms + self._options.backoff_ms, self._number, followed))
                alike.setdefault(followed.code or followed.partition.topic, []).append(followed)
        for cause, partitions in alike.items():
            first, more = partitions[0], len(partitions) - 1
            subject = f"{first.partition}{f' and {more} more' if more else ''}"
            text = "%s cannot follow broker %d for now: %s"
            self._lines.warning(("follow", cause), now_ms, text, subject, self.leader_id, first.reason)

    def _end_pauses(self, now_ms: int) -> None:
        while self._paused and self._paused[0][0] <= now_ms:
            followed = heappop(self._paused)[2]
            if self._is_paused(followed):
                followed.resume()

    def _is_paused(self, followed: Followed) -> bool:
        return self.partitions.get(followed.partition) is followed and followed.state is FollowedState.PAUSED

    def _heed_quota(self, now_ms: int) -> None:
        """While the quota is exceeded, withhold throttled partitions that lag behind; put them back afterwards."""
        if self._quota_changes != self._quota.changes:
            self._quota_changes = self._quota.changes
            fetched = [each for each in self.partitions.values() if each.state is FollowedState.FETCHING]
            self._throttled = {each.partition: each for each in fetched if self._quota.is_throttled(each.partition)}
            for partition in [each for each in self._withheld if each not in self._throttled]:
                self._withhold(self.partitions[partition], is_withheld=False)
        if self._throttled:
            is_exceeded = self._quota.is_exceeded(now_ms)
            for followed in self._throttled.values():
                self._withhold(followed, is_withheld=is_exceeded and followed.lag != 0)

    def _withhold(self, followed: Followed, *, is_withheld: bool) -> None:
        """Remove a partition from the session or put it back, if necessary."""
        partition = followed.partition
        if is_withheld and followed.state is FollowedState.FETCHING and partition in self._wanted:
            del self._wanted[partition]
            self._withheld.add(partition)
            self._session.change(partition)
        elif not is_withheld and partition in self._withheld:
            self._withheld.discard(partition)
            self._wanted[partition] = followed
            self._session.change(partition)

    def _plan_listing(self) -> Planned:
        self._is_asked = True
        self._listing = tuple(islice(self._asking, ASKED_MAX))
        topics: dict[str, list[ListOffsetsRequest.ListOffsetsPartition]] = {}
        for followed in self._listing:
            topic, number = followed.partition
            asked = ListOffsetsRequest.ListOffsetsPartition(number, followed.leader_epoch, followed.asks)
            topics.setdefault(topic, []).append(asked)
        request = ListOffsetsRequest(
            self._options.broker_id,
            IsolationLevel.READ_UNCOMMITTED,
            [ListOffsetsRequest.ListOffsetsTopic(topic, asked) for topic, asked in topics.items()],
        )
        return Planned(request, self._versions.list_offsets, self._options.response_timeout_ms)

    def _plan_fetch(self) -> Planned:
        self._is_asked = True
        options, plan = self._options, self._session.plan(self._wanted)
        self._is_full = plan.epoch == INITIAL_FETCH_SESSION_EPOCH
        if self._is_full:
            self._untaken.clear()
        for topic in plan.forgotten:
            for number in topic.partitions:
                self._untaken.pop(TopicPartition(topic.topic, number), None)
        request = FetchRequest(
            max_wait_ms=options.wait_max_ms,
            min_bytes=options.min_bytes,
            max_bytes=options.response_max_bytes,
            session_id=plan.session_id,
            session_epoch=plan.epoch,
            topics=plan.topics,
            forgotten_topics_data=plan.forgotten,
        )
        version = self._versions.fetch if self._session.by_id else self._versions.fetch_by_name
        if version >= _WITH_BROKER_EPOCH:
            request.replica_state = FetchRequest.ReplicaState(options.broker_id, self._broker_epoch())
        else:
            request.replica_id = options.broker_id
        return Planned(request, version, options.response_timeout_ms)

    def answered(self, outcome: Message | Exception, now_ms: int) -> None:
        """Process the outcome of the request in flight.

        Args:
            outcome: the response, or the error if there is none.
            now_ms: the current time.
        """
        self._note_time(now_ms)
        self._is_asked = False
        listing, self._listing = self._listing, ()
        if isinstance(outcome, ListOffsetsResponse) and listing:
            self._take_listed(outcome, listing)
        elif isinstance(outcome, FetchResponse) and not listing:
            self._take_fetched(outcome, now_ms)
        else:
            if not listing:
                self._session.restart(keeps_id=True)
            self._back_off(outcome if isinstance(outcome, Exception) else type(outcome).__name__, now_ms)

    def _back_off(self, reason: object, now_ms: int) -> None:
        """Stop sending for a while, rather than pausing each of many partitions separately."""
        self._not_before_ms = now_ms + self._options.backoff_ms
        text = "fetching %d partitions from broker %d will be retried: %s"
        self._lines.warning("request", now_ms, text, len(self.partitions), self.leader_id, reason)

    def _take_listed(self, response: ListOffsetsResponse, listing: tuple[Followed, ...]) -> None:
        found = {
            TopicPartition(topic.name, data.partition_index): data
            for topic in response.topics
            for data in topic.partitions
        }
        for followed in listing:
            if self.partitions.get(followed.partition) is followed:
                self._protect(followed, partial(followed.listed, found.get(followed.partition)))

    def _take_fetched(self, response: FetchResponse, now_ms: int) -> None:
        code = response.error_code
        if not self._session.accept(code, response.session_id):
            if self._is_full or code not in _SESSION_ENDED:
                self._back_off(BrokerError(code, "the leader rejected the fetch session"), now_ms)
            return
        self._number += 1
        untaken, names = [*self._untaken.items()], self._session.names if self._session.by_id else None
        for topic in response.responses:
            name = topic.topic if names is None else names.get(topic.topic_id)
            for data in topic.partitions:
                self._take_partition(TopicPartition(name or "", data.partition_index), data, now_ms)
        for partition, ends in untaken:
            followed = self.partitions.get(partition)
            if self._untaken.get(partition) is ends and followed is not None and followed.sent is not None:
                self._protect(followed, partial(followed.take_ends, *ends))
        if self._appending:
            self._patient_until_ms = now_ms + APPEND_PATIENCE_MS

    def _take_partition(self, partition: TopicPartition, data: FetchResponse.PartitionData, now_ms: int) -> None:
        followed = self.partitions.get(partition)
        if followed is None:
            return
        if data.error_code == ErrorCode.NONE:
            self._untaken[partition] = data.high_watermark, data.log_start_offset
        else:
            self._untaken.pop(partition, None)
        was_appending = followed.is_appending
        self._protect(followed, partial(followed.answered, data, now_ms))
        if data.records and self._quota.is_throttled(partition):
            self._quota.record(len(data.records), now_ms)
        if followed.is_appending and not was_appending:
            followed.response = self._number
            self._held[self._number] = self._held.get(self._number, 0) + 1

    def _protect(self, followed: Followed, step: Callable[[], None]) -> None:
        """Take a step for one partition; a defect in it does not keep the other partitions from following."""
        try:
            step()
        except Exception:
            logger.exception("%s can no longer follow broker %d", followed.partition, self.leader_id)
            followed.fail()
