"""The machine that plans a share consumer's requests: fetches, and acknowledgements, for each broker.

Nothing is fetched ahead: records are acquired once a read has found nothing, so that their locks run out as late as
possible. Acknowledgements travel with the next fetch from their broker; if none follows soon, they are sent on their
own. A broker handles the requests of a session in order of their epochs, so only one is on its way at a time.

Source: KIP-932, KIP-1206 (acquire modes), KIP-1222 (renewals); Apache Kafka, `ShareConsumeRequestManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from kafkawire.sdk.client.options import ShareConsumerOptions
from kafkawire.sdk.consumer.denied_topics import DeniedTopics
from kafkawire.sdk.consumer.sharing.acquisitions import AcknowledgeOutcome, Ledger
from kafkawire.sdk.consumer.sharing.commits import Commit
from kafkawire.sdk.consumer.sharing.held_records import HeldRecords
from kafkawire.sdk.consumer.sharing.node_shares import ByPartition, NodeShares
from kafkawire.sdk.consumer.sharing.queue import ShareQueue
from kafkawire.sdk.consumer.sharing.requests import ShareRequests
from kafkawire.sdk.consumer.sharing.responses import ShareResponses
from kafkawire.sdk.consumer.sharing.settlements import Settlements
from kafkawire.sdk.errors import BrokerError, KafkaWireError, RecordTooLarge, UnsupportedVersion
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.metrics.catalogue import SHARE_FETCH
from kafkawire.sdk.protocol.frames import FrameTooLarge
from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Call, Node
from kafkawire.sdk.routing.links import Link
from kafkawire.sdk.routing.partitions import TopicIdPartition, TopicPartition
from kafkawire.sdk.routing.requests import carries
from kafkawire.sdk.routing.retry import Backoff, is_connection_error
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.routing.share_session import ShareSessionState
from kafkawire.sdk.transport.promise import Promise

__all__ = ["SharePlanner"]

logger = logging.getLogger("kafkawire.consumer")

_LIMITING_RELEASE: Final = (
    'the broker cannot limit records (share_acquire_mode="record_limit"), as Kafka 4.2 or later can'
)
_RENEWING_RELEASE: Final = "the broker cannot renew acquisition locks, which needs Apache Kafka 4.2 or later"


class SharePlanner:
    """Plan the requests of one share consumer.

    Args:
        router: sends the requests.
        options: the consumer's options.
        backoff: the pauses after failures.
        member_id: the member's id, which also identifies its sessions.
        queue: receives the acquired records.
        ledger: supplies the acknowledgements.

    Attributes:
        settlements: ends acknowledgements.
    """

    def __init__(
        self,
        router: Router,
        options: ShareConsumerOptions,
        backoff: Backoff,
        member_id: str,
        queue: ShareQueue,
        ledger: Ledger,
    ) -> None:
        self._router = router
        self._metadata = router.metadata
        self._options = options
        self._backoff = backoff
        self._queue = queue
        self._ledger = ledger
        self._requests = ShareRequests(options, member_id)
        self._held = HeldRecords()
        self.settlements = Settlements(self._held, router.metrics)
        self._responses = ShareResponses(router, queue, ledger, self._held, self.settlements)
        self._sent = router.metrics.sensor(SHARE_FETCH, "acknowledgements-send")
        self._lines = LogLimit(logger)
        self._denied = DeniedTopics(router.metadata, queue, backoff)
        self._assigned: Mapping[TopicPartition, bytes] = {}
        self._nodes: dict[int, NodeShares] = {}
        self._commits: list[Commit] = []
        self._changes = -1
        self._has_leaderless = False
        self._last_node_id = -1
        self._is_rotating = options.share_acquire_mode == "record_limit"
        self._locks_end_ms: int | None = None
        self._refusal: KafkaWireError | None = None
        self._closing: Promise[None] | None = None
        self._close_by_ms = 0
        self._failure: KafkaWireError | None = None

    # Called on the driver's side.

    def assign(self, partitions: Mapping[TopicPartition, bytes], now_ms: int) -> None:
        """Fetch from exactly these partitions; records that are already acquired stay acquired.

        Args:
            partitions: the partitions, with the ids of their topics.
            now_ms: the time.
        """
        self._assigned = partitions
        self._changes = -1
        gone = [each for each in self._responses.refused if partitions.get(each.topic_partition) != each.topic_id]
        self._responses.forget(gone)

    def commit(self, timeout_ms: int, promise: Promise[list[AcknowledgeOutcome]], now_ms: int) -> None:
        """Send all acknowledgements now; the promise is kept once brokers have handled those given so far."""
        self._take_given(now_ms)
        commit = Commit(promise, timeout_ms, now_ms + timeout_ms)
        for node in self._nodes.values():
            for each in node.unsettled():
                if each.renewal is None:
                    each.commits = (*each.commits, commit)
                    commit.left += 1
            node.is_urgent = True
        self._commits.append(commit)
        self._poll_commits(now_ms)

    def close(self, deadline_ms: int, promise: Promise[None], now_ms: int) -> None:
        """Stop fetching, send all acknowledgements, and close the sessions, which releases the other records.

        Args:
            deadline_ms: the time by which the promise is kept, even if brokers do not answer.
            promise: kept once the sessions are closed.
            now_ms: the time.
        """
        if self._failure is not None:
            promise.keep(None)
        else:
            self._closing, self._close_by_ms = promise, deadline_ms

    # Machine.

    def poll(self, now_ms: int) -> None:
        """Send the fetches and the acknowledgements that are due."""
        if self._failure is not None:
            return
        self._ledger.is_awaited = False
        self._take_given(now_ms)
        if self._metadata.changes != self._changes:
            self._changes = self._metadata.changes
            self._denied.look(self._metadata.wanted or (), now_ms)
            self._place()
        if self._has_leaderless:
            self._metadata.expire()
        self._refusal = None
        is_hungry = self._is_hungry(now_ms)
        for node in self._in_turn():
            if node.in_flight is None:
                self._serve(node, is_hungry, now_ms)
        self._queue.refuse(self._refusal)
        self._poll_commits(now_ms)
        if self._closing is not None:
            self._poll_closing(self._closing, now_ms)
        has_timer = any(node.in_flight is None and node.due_ms is not None for node in self._nodes.values())
        self._ledger.is_awaited = not has_timer
        if self._ledger.given:  # given since the first check
            self.poll(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        if self._failure is not None:
            return None
        times = [commit.deadline_ms for commit in self._commits]
        is_fetching = self._queue.is_asked and self._queue.is_empty and self._closing is None
        for node in self._nodes.values():
            if node.in_flight is None:
                if node.due_ms is not None:
                    times.append(max(node.due_ms, node.attempts.not_before_ms))
                elif is_fetching and node.wanted and node.attempts.not_before_ms > now_ms:
                    times.append(node.attempts.not_before_ms)
        if self._locks_end_ms is not None:
            times.append(self._locks_end_ms)
        if self._closing is not None:
            times.append(self._close_by_ms)
        return min(times, default=None)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End everything, because the client has ended."""
        self._take_given(now_ms)
        self._failure = error
        self._ledger.is_over = True
        for node in self._nodes.values():
            by_partition: ByPartition = {}
            for each in node.unsettled():
                by_partition.setdefault(each.acquired.partition, []).append(each)
            node.drop()
            for partition, acknowledgements in by_partition.items():
                self.settlements.settle(partition, acknowledgements, error, now_ms)
        self._held.lose(lambda acquired: True)
        for commit in self._commits:
            commit.fail(error)
        self._commits.clear()
        if self._closing is not None:
            self._closing.keep(None)
        self._queue.fail(error)

    # Decisions.

    def _take_given(self, now_ms: int) -> None:
        """Take the application's acknowledgements, and those of the reading side."""
        given = self._ledger.given
        while given:
            each = given.popleft()
            former = self._node(each.acquired.node_id).add(each, now_ms)
            if former is not None:
                self.settlements.replaced(former, each)

    def _place(self) -> None:
        """Find the leader of each assigned partition; records acquired from another broker are lost."""
        for node in self._nodes.values():
            node.wanted.clear()
        self._has_leaderless = False
        for partition, topic_id in self._assigned.items():
            leader = self._metadata.leader(partition)
            if leader is None or self._metadata.topic_id(partition.topic) != topic_id:
                self._has_leaderless = True
                continue
            self._node(leader).want(TopicIdPartition(topic_id, *partition))
        self._held.lose(lambda acquired: self._has_moved(acquired.node_id, acquired.partition))

    def _has_moved(self, node_id: int, partition: TopicIdPartition) -> bool:
        """Return whether a partition is known to have another leader, or to belong to a topic that was deleted."""
        topic = self._metadata.topics.get(partition.topic)
        if topic is not None and topic.topic_id != partition.topic_id:
            return True
        return self._metadata.leader(partition.topic_partition) not in (None, node_id)

    def _is_hungry(self, now_ms: int) -> bool:
        """Return whether to acquire more records."""
        self._locks_end_ms = None
        if self._closing is not None or not self._queue.is_asked or not self._queue.is_empty:
            return False
        limit = self._options.max_unacknowledged_records
        if self._held.count >= limit:
            locks_end_ms = self._held.expire(now_ms)
            if self._held.count >= limit:
                self._locks_end_ms = locks_end_ms
                text = "max_unacknowledged_records=%d: reading stops until records are acknowledged"
                self._lines.warning("limit", now_ms, text, limit)
                return False
        return True

    def _in_turn(self) -> list[NodeShares]:
        """Return the brokers by node id; with a limit on records, begin after the one that was fetched from last."""
        begin = self._last_node_id if self._is_rotating else -1
        return sorted(self._nodes.values(), key=lambda node: (node.node_id <= begin, node.node_id))

    def _serve(self, node: NodeShares, is_hungry: bool, now_ms: int) -> None:
        """Send the next request to a broker if there is one; none is on its way."""
        if self._closing is not None:
            self._close_session(node, now_ms)
            return
        if node.attempts.not_before_ms > now_ms:
            return
        fetches = is_hungry and bool(node.wanted) and self._may_fetch()
        is_due = node.due_ms is not None and node.due_ms <= now_ms
        if not fetches and not is_due:
            return
        link = self._reach(node, now_ms)
        if link is None and not is_due:
            return
        ready = self._take_ready(node, link, now_ms)
        if link is None:
            return
        renews = any(each.renewal is not None for several in ready.values() for each in several)
        # A fetch that renews a lock acquires nothing, and one that names a partition reads from it from then on.
        if fetches and not renews and ready.keys() <= node.wanted.keys():
            self._fetch(node, link, ready, now_ms)
        elif ready:
            self._acknowledge(node, link, ready, renews, now_ms)

    def _may_fetch(self) -> bool:
        """Return whether a further broker may be fetched from: with a limit on records, one at a time."""
        return not self._is_rotating or not any(node.is_fetching for node in self._nodes.values())

    def _reach(self, node: NodeShares, now_ms: int) -> Link | None:
        """Return the link to a broker; if the session's connection has ended, its records are lost."""
        link = self._router.reach(node.node_id, now_ms)
        if link is None:
            is_gone = node.node_id not in self._metadata.brokers
            if is_gone or self._router.trouble(node.node_id) is not None:
                self._lose(node)
            self._queue.refused(node.node_id, self._router.refusal(node.node_id))
            return None
        if link.connection is not node.connection:
            self._lose(node)
            node.connection = link.connection
        return link

    def _take_ready(self, node: NodeShares, link: Link | None, now_ms: int) -> ByPartition:
        """Return the acknowledgements that can be sent over a link; without one, they stay, unless they must fail."""
        ready, failed = node.take(now_ms, lambda partition: self._has_moved(node.node_id, partition))
        for each in failed:
            self.settlements.settle(each.partition, each.acknowledgements, each.error, now_ms)
        if link is None:
            self._add_again(node, ready, now_ms)
            node.is_urgent = False  # the next attempt comes after the usual time, or once the link takes calls
            return {}
        return ready

    # Requests.

    def _fetch(self, node: NodeShares, link: Link, ready: ByPartition, now_ms: int) -> None:
        assert link.connection is not None, "the link takes calls"
        try:
            version = link.connection.version_for(ShareFetchRequest)
            if self._is_rotating and not carries(ShareFetchRequest, "share_acquire_mode", version):
                raise UnsupportedVersion(_LIMITING_RELEASE)
        except UnsupportedVersion as error:
            self._refusal = self._refusal or error
            self._add_again(node, ready, now_ms)
            return
        plan = node.session.plan(node.wanted)
        request = self._requests.fetch(plan, ready, len(node.session.members))
        timeout_ms = self._options.fetch_max_wait_ms + self._options.request_timeout_ms
        call = Call(
            Node(node.node_id),
            lambda _: (request, version),
            ShareFetchResponse,
            now_ms + timeout_ms,
            lambda call, now_ms: self._fetched(node, call, now_ms),
            retries=False,
            timeout_ms=timeout_ms,
        )
        node.is_fetching = True
        self._last_node_id = node.node_id
        self._submit(node, call, link, ready, now_ms)

    def _acknowledge(
        self, node: NodeShares, link: Link, ready: ByPartition, renews: bool, now_ms: int, *, closes: bool = False
    ) -> None:
        assert link.connection is not None, "the link takes calls"
        version = link.connection.version_for(ShareAcknowledgeRequest)
        if renews and not carries(ShareAcknowledgeRequest, "is_renew_ack", version):
            ready = self._without_renewals(ready, now_ms)
            renews = False
            if not ready and not closes:
                return
        epoch = node.session.close() if closes else node.session.epoch
        request = self._requests.acknowledge(epoch, ready, renews=renews)
        call = Call(
            Node(node.node_id),
            lambda _: (request, version),
            ShareAcknowledgeResponse,
            now_ms + self._options.request_timeout_ms,
            lambda call, now_ms: self._acknowledged(node, call, now_ms),
            retries=False,
        )
        self._submit(node, call, link, ready, now_ms)

    def _submit(self, node: NodeShares, call: Call, link: Link, ready: ByPartition, now_ms: int) -> None:
        node.in_flight, node.sent = call, ready
        if ready:
            self._sent.record(sum(each.count for several in ready.values() for each in several), now_ms)
        self._router.submit(call, now_ms, link)

    def _without_renewals(self, ready: ByPartition, now_ms: int) -> ByPartition:
        """Fail the renewals, because the broker is too old for them, and return the other acknowledgements."""
        others: ByPartition = {}
        for partition, acknowledgements in ready.items():
            renewals = [each for each in acknowledgements if each.renewal is not None]
            self.settlements.settle(partition, renewals, UnsupportedVersion(_RENEWING_RELEASE), now_ms)
            if kept := [each for each in acknowledgements if each.renewal is None]:
                others[partition] = kept
        return others

    # Responses.

    def _fetched(self, node: NodeShares, call: Call[ShareFetchResponse], now_ms: int) -> None:
        sent = node.landed()
        if call.error is not None:
            self._interrupted(node, sent, call.error, now_ms)
            return
        response = call.answer
        code = response.error_code
        if not self._accept(node, code, f"share fetch from node {node.node_id}", response.error_message, sent, now_ms):
            return
        error = self._responses.take(node, response, sent, now_ms, self._locked_ms(call.deadline_ms, now_ms))
        self._settle_rest(node, sent, now_ms)
        if error is None:
            node.attempts.succeeded()
        else:
            node.attempts.failed(error, now_ms)

    def _acknowledged(self, node: NodeShares, call: Call[ShareAcknowledgeResponse], now_ms: int) -> None:
        sent = node.landed()
        if call.error is not None:
            self._interrupted(node, sent, call.error, now_ms)
            return
        response = call.answer
        what = f"share acknowledgement to node {node.node_id}"
        if not self._accept(node, response.error_code, what, response.error_message, sent, now_ms, again=True):
            return
        error = self._responses.take_acknowledged(
            node, response, sent, now_ms, self._locked_ms(call.deadline_ms, now_ms)
        )
        self._settle_rest(node, sent, now_ms)
        if error is None:
            node.attempts.succeeded()
        else:
            node.attempts.failed(error, now_ms)

    def _locked_ms(self, deadline_ms: int, now_ms: int) -> int:
        """Return the earliest possible start of a response's locks: a broker waits only as long as it was asked to.

        If this process was suspended while the response waited in a socket, the locks may have run out already.
        """
        return min(now_ms, deadline_ms - self._options.request_timeout_ms)

    def _accept(
        self,
        node: NodeShares,
        code: int,
        what: str,
        message: str | None,
        sent: ByPartition,
        now_ms: int,
        *,
        again: bool = False,
    ) -> bool:
        """Handle the top-level error of a response; return whether there is none.

        Args:
            node: the broker.
            code: the error code.
            what: the request, for the error.
            message: the broker's message about the error.
            sent: the acknowledgements in the request.
            now_ms: the time.
            again: whether to send them again after a temporary error.
        """
        session = node.session
        is_closed = session.state is ShareSessionState.CLOSED
        if not is_closed and not session.accept(code):
            self._lose_records(node)
        if code == ErrorCode.NONE:
            self._queue.retract(node.node_id)
            return True
        error = BrokerError(code, f"{what}: {message}" if message else what)
        self._lines.info(("refused", node.node_id), now_ms, "%s", error)
        node.attempts.failed(error, now_ms)
        if again and error.retriable and session.is_open:
            self._add_again(node, sent, now_ms)
            return False
        for partition, acknowledgements in sent.items():
            self.settlements.settle(partition, acknowledgements, error, now_ms)
        if not error.retriable and not is_closed:
            self._queue.report(error, node.node_id)
        return False

    def _interrupted(self, node: NodeShares, sent: ByPartition, error: KafkaWireError, now_ms: int) -> None:
        """Handle a request that got no response: the session ends with its connection."""
        self._lose(node)
        for partition, acknowledgements in sent.items():
            self.settlements.settle(partition, acknowledgements, error, now_ms)
        node.attempts.failed(error, now_ms)
        damage = error.__cause__
        if isinstance(damage, FrameTooLarge):
            text = f"a response of node {node.node_id} has {damage.length} bytes, but max_frame_bytes is {damage.limit}"
            too_large = RecordTooLarge(f"{text}; raise max_frame_bytes to read the next records")
            too_large.__cause__ = damage
            self._queue.report(too_large, node.node_id)
        elif not error.retriable and not is_connection_error(error):
            self._queue.report(error, node.node_id)

    def _settle_rest(self, node: NodeShares, sent: ByPartition, now_ms: int) -> None:
        """End the acknowledgements that a response has not ended: those to send again, and those that it left out."""
        self._add_again(node, self._responses.again, now_ms)
        self._responses.again = {}
        for partition, acknowledgements in sent.items():
            text = f"{partition}: the response of node {node.node_id} does not mention the acknowledgements"
            error = BrokerError(ErrorCode.INVALID_RECORD_STATE, text)
            self.settlements.settle(partition, acknowledgements, error, now_ms)

    def _add_again(self, node: NodeShares, acknowledgements: ByPartition, now_ms: int) -> None:
        for several in acknowledgements.values():
            for each in several:
                later = node.add_again(each, now_ms)
                if later is not None:
                    self.settlements.replaced(each, later)

    # Sessions.

    def _lose(self, node: NodeShares) -> None:
        """Open a new session with the next fetch; the records of this one are lost."""
        if node.session.state is not ShareSessionState.CLOSED:
            node.session.lose()
        self._lose_records(node)

    def _lose_records(self, node: NodeShares) -> None:
        self._held.lose(lambda acquired: acquired.node_id == node.node_id)

    def _close_session(self, node: NodeShares, now_ms: int) -> None:
        """Close a session, which takes along all acknowledgements."""
        if node.session.state is ShareSessionState.CLOSED:
            return
        link = self._reach(node, now_ms) if node.session.is_open else None
        if node.session.is_open and link is None:
            return  # the connection is congested or throttled
        ready = self._take_ready(node, link, now_ms)
        if link is None or not node.session.is_open:
            node.session.close()
            return
        renews = any(each.renewal is not None for several in ready.values() for each in several)
        self._acknowledge(node, link, ready, renews, now_ms, closes=True)

    def _poll_closing(self, closing: Promise[None], now_ms: int) -> None:
        is_over = all(
            node.session.state is ShareSessionState.CLOSED and node.in_flight is None for node in self._nodes.values()
        )
        if is_over or now_ms >= self._close_by_ms:
            closing.keep(None)

    def _poll_commits(self, now_ms: int) -> None:
        for commit in self._commits:
            commit.poll(now_ms)
        self._commits = [commit for commit in self._commits if not commit.is_over]

    def _node(self, node_id: int) -> NodeShares:
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = NodeShares(node_id, self._backoff)
        return node
