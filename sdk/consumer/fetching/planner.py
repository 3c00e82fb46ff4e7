"""The machine that plans a consumer's fetches, turning positions into requests for each broker.

A partition either is in the session of the broker from which it is fetched, or waits for its position, its leader, the
end of a pause, or room in the queue. Each event moves only the partitions that it concerns, so the work grows with the
number of records, not partitions. An error affects only its own partition, which waits while the others continue.

Source: Apache Kafka, `AbstractFetch`, `SubscriptionState`; KIP-227 (sessions), KIP-392 (followers), KIP-320 (epochs).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import count

from kafkawire.sdk.client.options import ConsumerOptions
from kafkawire.sdk.consumer.denied_topics import DeniedTopics
from kafkawire.sdk.consumer.fetching.oversized_batch_search import OversizedBatchSearch
from kafkawire.sdk.consumer.fetching.partition_fetch import PartitionFetch, may_pass
from kafkawire.sdk.consumer.fetching.position_lookups import CommittedSource, PositionLookups
from kafkawire.sdk.consumer.fetching.queue import Fetched, FetchQueue
from kafkawire.sdk.consumer.fetching.responses import FetchResponses
from kafkawire.sdk.consumer.position import Located, Place, Position
from kafkawire.sdk.consumer.stopped_partitions import stopping
from kafkawire.sdk.errors import BrokerError, Closed, KafkaWireError, NoOffset, RecordTooLarge, UnsupportedVersion
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.frames import FrameTooLarge
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.call import Call, Node
from kafkawire.sdk.routing.fetch_session import FetchSession
from kafkawire.sdk.routing.links import Link
from kafkawire.sdk.routing.metadata import Partition
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.retry import Backoff, is_denial, is_refusal, outdates_metadata
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.driver_interface import NextPoll

__all__ = ["FetchPlanner"]

logger = logging.getLogger("kafkawire.consumer")

#: A partition is fetched ahead while fewer fetches than this are waiting for the application: one being read, one
#: ready.
_FETCHES_AHEAD = 2

#: After a response longer than this, the next fetch is sent before the application reads the response, to keep the
#: broker working in the meantime. Reading a shorter response takes less time than sending a fetch.
_LONG_READ_BYTES = 16_384

#: The size of a response without records: its header and, for each partition, its fields, its topic and some aborted
#: transactions. `max_frame_bytes` limits the whole response, so requests leave room for these bytes.
_RESPONSE_BYTES, _PARTITION_BYTES = 1_024, 512


class _NodeFetches:
    """The fetches from one broker."""

    __slots__ = ("in_flight", "refusal", "request", "search", "session", "wanted")

    def __init__(self, options: ConsumerOptions) -> None:
        self.session = FetchSession()
        self.search = OversizedBatchSearch()
        self.request = FetchRequest(  # reused: each is encoded before the next is built, and only the session changes
            max_wait_ms=options.fetch_max_wait_ms,
            min_bytes=options.fetch_min_bytes,
            max_bytes=options.fetch_max_bytes,
            isolation_level=options.isolation_level,
            rack_id=options.client_rack,
        )
        self.wanted: dict[TopicPartition, PartitionFetch] = {}
        self.in_flight: Call | None = None
        self.refusal: UnsupportedVersion | None = None


class FetchPlanner:
    """Plan the fetches of one consumer.

    Args:
        router: sends the requests.
        options: the consumer's options.
        backoff: the pauses between attempts.
        queue: receives the fetched data.
        wall_ms: returns the wall-clock time, for `auto_offset_reset="by_duration:…"`.
        committed: looks up committed offsets; None if there is no group.

    Attributes:
        denied: the topics whose metadata the brokers deny.
        user: receives the positions that were looked up; set before anything is assigned.
        last_fetch_ms: when a broker last answered a fetch; None before the first answer.
        visited: the number of partitions examined, for scalability tests.
    """

    def __init__(
        self,
        router: Router,
        options: ConsumerOptions,
        backoff: Backoff,
        queue: FetchQueue,
        wall_ms: Callable[[], int],
        committed: CommittedSource | None = None,
    ) -> None:
        self._router = router
        self._metadata = router.metadata
        self._options = options
        self._backoff = backoff
        self._queue = queue
        self._nodes: dict[int, _NodeFetches] = {}
        self._partitions: dict[TopicPartition, PartitionFetch] = {}
        self._later: list[tuple[int, int, PartitionFetch]] = []
        self._leaderless: dict[TopicPartition, PartitionFetch] = {}
        self._ahead: set[TopicPartition] = set()
        self._is_full = False
        self._refusal: KafkaWireError | None = None
        self._changes = -1
        self._numbers = count()
        self._failure: KafkaWireError | None = None
        self._lines = LogLimit(logger)
        self._lookups = PositionLookups(self, router, options, wall_ms, committed)
        self._responses = FetchResponses(self, router, options, queue)
        self.denied = DeniedTopics(self._metadata, queue, backoff)
        self.user: Located | None = None
        self._subscribed: frozenset[str] = frozenset()
        self._keeps_known = True
        self.last_fetch_ms: int | None = None
        self.visited = 0

    # Machine.

    def poll(self, now_ms: int) -> None:
        """Look up positions and send fetches that are due."""
        if self._failure is not None:
            return
        if self._queue.released:
            self._take_releases(now_ms)
        self._is_full = False
        if self._metadata.changes != self._changes:
            self._changes = self._metadata.changes
            granted = self.denied.look(self._topics(), now_ms)
            for fetch in list(self._partitions.values()):
                if fetch.partition.topic in granted and is_denial(fetch.attempts.last_error):
                    self.succeeded(fetch)
                self.consider(fetch, now_ms)
        while self._later and self._later[0][0] <= now_ms:
            fetch = heappop(self._later)[2]
            if self._partitions.get(fetch.partition) is fetch:
                self.consider(fetch, now_ms)
        if self._leaderless:
            self._metadata.expire()
        self._lookups.poll(now_ms)
        self._refusal = None
        for node_id, node in list(self._nodes.items()):
            if node.wanted and node.in_flight is None:
                self._fetch_from(node_id, node, now_ms)
            elif not node.wanted and node.in_flight is None and node_id not in self._metadata.brokers:
                del self._nodes[node_id]
        self._queue.refuse(self._refusal)
        starved = self._is_full or bool(self._ahead)
        self._queue.starved = starved
        if starved and self._queue.released:  # released since the first check
            self.poll(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        return self._later[0][0] if self._later else None

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """Wake all readers, because no more data will arrive."""
        self._failure = error
        self._queue.fail(error)

    def subscribe(self, topics: frozenset[str], *, keeps_known: bool) -> None:
        """Report denied access to these topics.

        Args:
            topics: the topics, which may have no partitions.
            keeps_known: whether to keep their metadata fresh; False if a group or a pattern does so.
        """
        self._subscribed, self._keeps_known = topics, keeps_known
        self._want_topics()

    # The `Fetching` interface: changes made by the reading side.

    def assign(self, epochs: Mapping[TopicPartition, tuple[int, Place]], now_ms: int) -> None:
        """Fetch exactly these partitions, none of them paused; partitions whose epoch is known continue."""
        for partition in [each for each in self._partitions if each not in epochs]:
            self._leaderless.pop(partition, None)
            self._ahead.discard(partition)
            fetch = self._partitions.pop(partition)
            self._move(fetch, None)
            self._queue.retract(partition)
        for partition, (epoch, place) in epochs.items():
            known = self._partitions.get(partition)
            if known is None:
                limit = self._options.max_partition_fetch_bytes
                known = self._partitions[partition] = PartitionFetch(partition, self._backoff, limit)
            was_paused, known.paused = known.paused, False
            if known.epoch != epoch:
                self.seek(partition, epoch, place, now_ms)
            elif was_paused:
                self.consider(known, now_ms)
        self._want_topics()

    def seek(self, partition: TopicPartition, epoch: int, place: Place, now_ms: int) -> None:
        """Fetch a partition from another place, unless that seek has already been applied."""
        fetch = self._partitions.get(partition)
        if fetch is not None and fetch.epoch != epoch:
            self._ahead.discard(partition)
            self._queue.retract(partition)
            fetch.begin(epoch, place)
            self.consider(fetch, now_ms)

    def pause(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Stop fetching these partitions, because the application has paused them or the group withholds them."""
        for partition in partitions:
            fetch = self._partitions.get(partition)
            if fetch is not None:
                fetch.paused = True
                self.consider(fetch, now_ms)

    def resume(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Fetch these partitions again."""
        for partition in partitions:
            fetch = self._partitions.get(partition)
            if fetch is not None:
                fetch.paused = False
                self.consider(fetch, now_ms)

    def halt(self, partition: TopicPartition, now_ms: int) -> None:
        """Stop fetching a partition until the next seek, because an error is raised for it."""
        fetch = self._partitions.get(partition)
        if fetch is not None:
            fetch.halted = True
            self.consider(fetch, now_ms)

    # Placing partitions; lookups and responses also call these.

    def consider(self, fetch: PartitionFetch, now_ms: int) -> None:
        """Move a partition to where it belongs now: to a broker, to a lookup, or to neither until something happens."""
        self.visited += 1
        home: int | None = None
        topic = self._metadata.topics.get(fetch.partition.topic)
        known = None if topic is None else topic.partitions.get(fetch.partition.partition)
        if topic is not None and topic.topic_id not in (fetch.topic_id, ZERO_UUID):
            self._notice_other_topic(fetch, topic.topic_id, now_ms)
        if fetch.halted or fetch.is_asked:
            pass
        elif fetch.attempts.not_before_ms > now_ms:
            self._wait(fetch)
        elif fetch.position is None and fetch.place is None:
            self._lookups.want_committed(fetch)
        elif known is None or known.leader is None or known.leader not in self._metadata.brokers:
            self._without_leader(fetch, known, now_ms)
            return
        else:
            home = self._home_of(fetch, known, known.leader, now_ms)
        if self._leaderless and self._leaderless.pop(fetch.partition, None) is not None:
            fetch.warned = ""
        self._move(fetch, home)

    def go_on(self, fetch: PartitionFetch, now_ms: int) -> None:
        """Continue fetching a partition at its position after a broker has answered without an error."""
        home = fetch.home
        has_room = fetch.buffered_bytes < _FETCHES_AHEAD * fetch.max_bytes
        if home is None or fetch.halted or fetch.replica is not None or not has_room:
            self.consider(fetch, now_ms)
        elif fetch.sent != fetch.to_send():
            self._nodes[home].session.change(fetch.partition)

    def failed(self, fetch: PartitionFetch, error: KafkaWireError, now_ms: int) -> None:
        """Pause a partition after a failure that may be temporary, or stop reading it."""
        if is_denial(error):
            self._queue.report(error.again(), fetch.partition)
        elif not may_pass(error):
            self.halt_with(fetch, error, now_ms)
            return
        elif is_refusal(error):
            self._queue.report(error)
        if outdates_metadata(error):
            self._metadata.invalidate()
        self.retry(fetch, error, now_ms)

    def retry(self, fetch: PartitionFetch, error: KafkaWireError, now_ms: int) -> None:
        """Pause a partition after a failure of any kind."""
        if is_denial(error):
            fetch.attempts.denied(error, now_ms)
            subject, write = "denied", self._lines.error
        else:
            fetch.attempts.failed(error, now_ms)
            subject, write = "retry", self._lines.warning
        self.consider(fetch, now_ms)
        write((subject, fetch.partition.topic), now_ms, "%s (%d in a row)", error, fetch.attempts.failures)

    def succeeded(self, fetch: PartitionFetch) -> None:
        """Start over after a success: the next failure counts as the first."""
        if fetch.attempts.failures:
            fetch.attempts.succeeded()
            self._queue.retract(fetch.partition)

    def halt_with(self, fetch: PartitionFetch, error: KafkaWireError, now_ms: int) -> None:
        """Stop fetching a partition until the next seek, and report the error to the application once."""
        if not isinstance(error, Closed):  # once the consumer has ended, there is no need for a line per partition
            error = stopping(error.again())
            self._lines.error(("halt", fetch.partition.topic), now_ms, "reading %s stops: %s", fetch.partition, error)
        self._queue.retract(fetch.partition)
        fetch.halted = True
        self.consider(fetch, now_ms)
        end = fetch.position or Position(-1)
        self._queue.deliver(Fetched(fetch.partition, fetch.epoch, end.offset, end, error=error))

    def locate(self, fetch: PartitionFetch, position: Position, now_ms: int, *, is_checked: bool = False) -> None:
        """Start fetching from a position that was looked up; `is_checked` says whether the leader returned it."""
        fetch.move(position)
        if is_checked:
            fetch.checked_epoch = fetch.leader_epoch
        self.succeeded(fetch)
        assert self.user is not None
        if not self.user.located(fetch.partition, fetch.epoch, position):
            self._queue.deliver(Fetched(fetch.partition, fetch.epoch, position.offset, position))
        self.consider(fetch, now_ms)

    def reset(self, fetch: PartitionFetch, reason: str, now_ms: int) -> None:
        """Look up the position according to `auto_offset_reset`."""
        place = self._lookups.reset_place()
        self._move(fetch, None)
        if place is None:
            self.halt_with(fetch, NoOffset(f"{reason}, and auto_offset_reset is none"), now_ms)
            return
        fetch.replica = None
        if fetch.place is not None or fetch.position is not None:
            policy = self._options.auto_offset_reset
            self._lines.warning(("reset", fetch.partition.topic), now_ms, "%s: reset to %s", reason, policy)
        fetch.move(place)
        self.consider(fetch, now_ms)

    def reach(self, node_id: int, now_ms: int) -> Link | None:
        """Return the link to a broker if it takes calls; otherwise, open it, and have a refused login reported."""
        link = self._router.reach(node_id, now_ms)
        if link is None:
            self._queue.refused(node_id, self._router.refusal(node_id))
        return link

    def current(self, partition: TopicPartition) -> PartitionFetch | None:
        """Return the state of a partition; None if it is no longer assigned."""
        return self._partitions.get(partition)

    def _home_of(self, fetch: PartitionFetch, known: Partition, leader: int, now_ms: int) -> int | None:
        """Return the node to fetch from; request a lookup if the position is unconfirmed."""
        if fetch.position is None or fetch.needs_check(known):
            self._lookups.want(fetch, leader)
            return None
        fetch.leader_epoch = known.leader_epoch
        if fetch.paused:
            return None
        if fetch.buffered_bytes >= _FETCHES_AHEAD * fetch.max_bytes:
            self._ahead.add(fetch.partition)
            return None
        if fetch.replica is not None and fetch.replica[1] > now_ms and fetch.replica[0] in self._metadata.brokers:
            return fetch.replica[0]
        return leader

    def _without_leader(self, fetch: PartitionFetch, known: Partition | None, now_ms: int) -> None:
        self._leaderless[fetch.partition] = fetch
        code = self._metadata.errors.get(fetch.partition.topic)
        refused = None if code is None else BrokerError(code, f"topic {fetch.partition.topic}")
        self._move(fetch, None)
        if refused is not None and not refused.retriable and not is_denial(refused):  # `DeniedTopics` reports those
            del self._leaderless[fetch.partition]
            self.halt_with(fetch, refused, now_ms)
            return
        missing = self._metadata.absence(fetch.partition) or "the cluster has no such partition"
        reason = str(refused) if is_denial(refused) else "it has no leader" if known is not None else missing
        if fetch.warned != reason and (refused is not None or fetch.partition.topic in self._metadata.topics):
            fetch.warned = reason
            subject = "no leader", fetch.partition.topic, reason
            self._lines.warning(subject, now_ms, "partition %s cannot be read now: %s", fetch.partition, reason)

    def _want_topics(self) -> None:
        if self._keeps_known:
            self._metadata.wanted = set(self._topics())

    def _topics(self) -> Iterator[str]:
        yield from self._subscribed
        for partition in self._partitions:
            yield partition.topic

    def _wait(self, fetch: PartitionFetch) -> None:
        """Schedule a check on a partition for the end of its pause."""
        due_ms = fetch.attempts.not_before_ms
        if fetch.waits_until_ms != due_ms:
            fetch.waits_until_ms = due_ms
            heappush(self._later, (due_ms, next(self._numbers), fetch))

    def _notice_other_topic(self, fetch: PartitionFetch, topic_id: bytes, now_ms: int) -> None:
        """Restart in a topic that was deleted and recreated (KIP-516), or store its id if it was not known yet.

        The reading side restarts as well, since offsets of the old topic must not be committed for the new one.
        """
        former, fetch.topic_id = fetch.topic_id, topic_id
        fetch.warned = ""
        if former != ZERO_UUID and not fetch.halted:
            reason = f"{fetch.partition}: topic {fetch.partition.topic} was deleted and created again"
            if self._lookups.reset_place() is None:
                fetch.move(None)  # as for a new partition: to a committed offset, or to an error
                subject = "reset", fetch.partition.topic
                self._lines.warning(subject, now_ms, "%s", reason)
            else:
                self.reset(fetch, reason, now_ms)
            assert self.user is not None
            self.user.renewed(fetch.partition, fetch.epoch, fetch.place)

    def _move(self, fetch: PartitionFetch, home: int | None) -> None:
        """Set the node from which a partition is fetched, or None."""
        if fetch.home is not None and fetch.home != home:
            former = self._nodes[fetch.home]
            former.wanted.pop(fetch.partition, None)
            former.session.change(fetch.partition)
        fetch.home = home
        if home is None:
            return
        node = self._nodes.get(home)
        if node is None:
            node = self._nodes[home] = _NodeFetches(self._options)
        if fetch.partition not in node.wanted or fetch.sent != fetch.to_send():
            node.session.change(fetch.partition)
        node.wanted[fetch.partition] = fetch

    def _take_releases(self, now_ms: int) -> None:
        """Resume fetching partitions whose queued data has been taken."""
        while self._queue.released:
            partition, epoch, size_bytes = self._queue.released.popleft()
            fetch = self._partitions.get(partition)
            if fetch is not None and fetch.epoch == epoch:
                fetch.buffered_bytes -= size_bytes
                if partition in self._ahead:
                    self._ahead.discard(partition)
                    self.consider(fetch, now_ms)

    # Requests.

    def _fetch_from(self, node_id: int, node: _NodeFetches, now_ms: int) -> None:
        """Send the next fetch to a broker that has none in flight."""
        if self._queue.size_bytes >= self._options.fetch_max_bytes:
            self._is_full = True
            return
        link = self.reach(node_id, now_ms)
        if link is None:
            return
        try:
            request, version = self._request(node, link)
        except UnsupportedVersion as error:  # this lasts until another broker listens there or becomes the leader
            node.session.restart(keeps_id=True)
            node.refusal = node.refusal or error
            self._refusal = self._refusal or node.refusal
            return
        node.refusal = None
        timeout_ms = self._options.fetch_max_wait_ms + self._options.request_timeout_ms
        node.in_flight = Call(
            Node(node_id),
            lambda _: (request, version),
            FetchResponse,
            now_ms + timeout_ms,
            lambda call, now_ms: self._ended(node_id, node, call, now_ms),
            retries=False,
            timeout_ms=timeout_ms,
        )
        self._router.submit(node.in_flight, now_ms, link)

    def _request(self, node: _NodeFetches, link: Link) -> tuple[Message, int]:
        wanted = node.search.group(node.wanted)
        is_apart = wanted is not node.wanted
        if is_apart:
            node.session.restart(keeps_id=True)  # the session already contains all of the partitions
        plan = node.session.plan(wanted)
        assert link.connection is not None
        carrying = None if node.session.by_id else (FetchRequest.FetchTopic, "topic")
        request = node.request
        request.session_id, request.session_epoch = plan.session_id, plan.epoch
        request.topics, request.forgotten_topics_data = plan.topics, plan.forgotten
        request.max_wait_ms = 0 if is_apart else self._options.fetch_max_wait_ms  # the other groups are also waiting
        room_bytes = self._options.max_frame_bytes - _RESPONSE_BYTES - _PARTITION_BYTES * len(wanted)
        request.max_bytes = max(1, min(self._options.fetch_max_bytes, room_bytes))
        return request, link.connection.version_for(FetchRequest, carrying)

    def _ended(self, node_id: int, node: _NodeFetches, call: Call[FetchResponse], now_ms: int) -> None:
        node.in_flight = None
        if call.error is not None:
            node.session.restart(keeps_id=True)
            if isinstance(call.error.__cause__, FrameTooLarge):
                self._separate(node_id, node, call.error.__cause__, now_ms)
                return
            self._responses.failed(node_id, list(node.wanted.values()), call.error, now_ms)
            return
        self.last_fetch_ms = now_ms
        response = call.answer
        queued_bytes = self._queue.size_bytes
        is_apart = node.search.is_active
        if node.session.accept(response.error_code, response.session_id):
            self._responses.take(node_id, node.session.names, response, now_ms)
            if self._queue.size_bytes - queued_bytes > _LONG_READ_BYTES:
                call.next_poll = NextPoll.NOW
            if is_apart:
                node.search.taken()
                node.session.restart(keeps_id=True)  # it contains only this group
        elif response.error_code not in _SESSION_ENDED:
            error = BrokerError(response.error_code, f"fetch from node {node_id}")
            self._responses.refused(node_id, list(node.wanted.values()), error, now_ms)

    def _separate(self, node_id: int, node: _NodeFetches, damage: FrameTooLarge, now_ms: int) -> None:
        """Fetch partitions in ever smaller groups, to find and halt the one whose batch is too large."""
        partition = node.search.too_large(node.wanted)
        if partition is None:
            text = "node %d: a response has %d bytes, but max_frame_bytes is %d; fetching its partitions in halves"
            self._lines.warning(("large", node_id), now_ms, text, node_id, damage.length, damage.limit)
            return
        fetch = node.wanted[partition]
        offset = -1 if fetch.position is None else fetch.position.offset
        error = RecordTooLarge(
            f"{partition}, offset {offset}: a response with only the next records has {damage.length} bytes,"
            f" but max_frame_bytes is {damage.limit}; raise max_frame_bytes, or seek past these records"
        )
        error.__cause__ = damage
        self.halt_with(fetch, error, now_ms)


#: Errors that a full request resolves.
_SESSION_ENDED = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
