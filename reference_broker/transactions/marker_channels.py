"""Send the markers of ending transactions to the brokers that lead the partitions.

One WriteTxnMarkers request at a time is in flight to each broker; markers that arrive meanwhile share the next one. A
marker is resent, perhaps to another broker, until it is written or permanently refused, or its partition is deleted.
For partitions that this broker leads, it writes the markers without a request. A marker with an outdated epoch is
permanently refused, since the partition has seen a later epoch, and a coordinator that has been replaced can commit
nothing.

Source: `TransactionMarkerChannelManager`, `TransactionMarkerRequestCompletionHandler` in Apache Kafka, where an
unexpected error stops the broker.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from kafkawire.reference_broker.cluster.links import Cancel
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.reference_broker.transactions.markers import REFUSED_FOR_GOOD, WriteMarker
from kafkawire.reference_broker.transactions.peers import Peers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID, TRANSACTION_STATE_TOPIC
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Purpose
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["ABSENCES_MAX", "MARKERS_MAX", "MarkerChannels"]

#: The maximum number of markers in one request. A broker responds once it has written all of them, and one huge
#: transaction should not delay the others.
MARKERS_MAX: Final = 1_000

#: The first and the longest pause before a marker is resent. A new leader becomes known within milliseconds, and a
#: broker restarts within seconds. Kafka does not pause.
_PAUSE_MS: Final = 20
_PAUSE_MAX_MS: Final = 1_000

#: A partition that has never appeared in the image is considered deleted after this many lookups, which take 10 to 15
#: seconds; lookups are counted because a machine's clock may be adjusted just after startup. After the election of a
#: controller, the image receives the partitions in several requests, and the coordinator may be elected before the
#: first of them. Kafka does not wait: it completes the transaction, and the partition never gets its marker.
ABSENCES_MAX: Final = 15

#: Errors that disappear once a leader is elected, or a disk or broker is available again. A marker is also resent after
#: any other error, but such an error indicates a defect.
_PASSING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)

_log = logging.getLogger("kafkawire.broker")

WantedMarker = WriteTxnMarkersRequest.WritableTxnMarker
WantedTopic = WriteTxnMarkersRequest.WritableTxnMarkerTopic


class _Entry:
    """A marker for one partition.

    Attributes:
        failures: how many attempts to write the marker have failed.
        is_known: whether the image has contained the partition since the marker arrived.
        absences: how many lookups did not find the partition, although the image was complete enough to be trusted.
        is_over: whether the marker has had its outcome or has been abandoned.
    """

    __slots__ = (
        "absences",
        "done",
        "failures",
        "is_known",
        "is_over",
        "marker",
        "partition",
        "transaction_version",
    )

    def __init__(
        self,
        partition: Partition,
        marker: Marker,
        transaction_version: int,
        done: Callable[[BrokerError | None], None],
    ) -> None:
        self.partition = partition
        self.marker = marker
        self.transaction_version = transaction_version
        self.done = done
        self.failures = 0
        self.is_known = False
        self.absences = 0
        self.is_over = False

    def cancel(self) -> None:
        """Abandon the marker."""
        self.is_over = True


class MarkerChannels:
    """The channels to all brokers; their `write` method is a `WriteMarker`.

    Args:
        peers: the brokers.
        own: writes a marker to a partition that this broker leads.
    """

    def __init__(self, peers: Peers, own: WriteMarker) -> None:
        self._peers = peers
        self._own = own
        self._lines = LogLimit(_log)
        #: Waiting markers, keyed by broker. Their number is limited, since `Markers` submits each partition of an
        #: ending transaction only once at a time.
        self._waiting: defaultdict[int, deque[_Entry]] = defaultdict(deque)
        #: The brokers to which a request is in flight or about to be sent.
        self._busy: set[int] = set()

    def write(
        self,
        partition: Partition,
        marker: Marker,
        transaction_version: int,
        done: Callable[[BrokerError | None], None],
        now_ms: int,
    ) -> Cancel:
        """Write a marker; see `WriteMarker`.

        The error is one of `REFUSED_FOR_GOOD`, or UNKNOWN_TOPIC_OR_PARTITION if the partition has been deleted.
        """
        entry = _Entry(partition, marker, transaction_version, done)
        self._route([entry])
        return entry.cancel

    def _route(self, entries: Iterable[_Entry]) -> None:
        """Send markers to the current leaders of their partitions."""
        for entry in entries:
            if entry.is_over:
                continue
            name, number = entry.partition
            leader = self._peers.leader(entry.partition)
            entry.is_known = entry.is_known or leader is not None
            if leader is None:
                error = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name}-{number} does not exist")
                if self._is_deleted(entry):
                    self._end(entry, error)
                else:
                    self._try_again({entry: error})
            elif leader == NO_LEADER_ID:
                reason = f"{name}-{number} has no reachable leader"
                self._try_again({entry: BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, reason)})
            elif leader == self._peers.broker_id:
                written = partial(self._judge_one, entry)
                self._own(entry.partition, entry.marker, entry.transaction_version, written, self._peers.now_ms())
            else:
                self._waiting[leader].append(entry)
                self._wake(leader)

    def _is_deleted(self, entry: _Entry) -> bool:
        """Return whether a partition missing from the image was deleted."""
        if entry.is_known:
            return True
        if TRANSACTION_STATE_TOPIC not in self._peers.image().topics:
            return False  # elected, but not even the coordinator's topic is in the image yet
        entry.absences += 1
        return entry.absences > ABSENCES_MAX

    # Requests.

    def _wake(self, broker_id: int) -> None:
        if broker_id not in self._busy:
            self._busy.add(broker_id)
            self._peers.post(partial(self._send, broker_id))

    def _send(self, broker_id: int) -> None:
        entries, moved = self._take(broker_id)
        if entries:
            done = partial(self._answered, broker_id, entries)
            self._peers.ask(broker_id, _request(entries), done, Purpose.MARKERS)
        else:
            self._busy.discard(broker_id)
        self._route(moved)

    def _take(self, broker_id: int) -> tuple[list[_Entry], list[_Entry]]:
        """Take the markers for the next request, and those whose partitions now have another leader.

        A response identifies producers, not transactions, so a request contains at most one transaction per producer.
        """
        waiting = self._waiting[broker_id]
        taken: list[_Entry] = []
        moved: list[_Entry] = []
        kept: list[_Entry] = []
        markers: dict[int, tuple[Marker, int]] = {}
        while waiting and len(taken) < MARKERS_MAX:
            entry = waiting.popleft()
            marker = entry.marker, entry.transaction_version
            if entry.is_over:
                continue
            if self._peers.leader(entry.partition) != broker_id:
                moved.append(entry)
            elif markers.setdefault(entry.marker.producer_id, marker) != marker:
                kept.append(entry)
            else:
                taken.append(entry)
        waiting.extendleft(reversed(kept))
        return taken, moved

    def _answered(self, broker_id: int, entries: list[_Entry], outcome: Message | Exception) -> None:
        self._busy.discard(broker_id)
        if self._waiting[broker_id]:
            self._wake(broker_id)
        if isinstance(outcome, WriteTxnMarkersResponse):
            codes = _codes(outcome)
            self._judge({entry: _error(broker_id, entry, codes) for entry in entries})
        else:
            lost = BrokerError(ErrorCode.NETWORK_EXCEPTION, f"broker {broker_id}: {outcome}")
            self._judge(dict.fromkeys(entries, lost))

    # Outcomes.

    def _judge_one(self, entry: _Entry, error: BrokerError | None) -> None:
        self._judge({entry: error})

    def _judge(self, outcomes: Mapping[_Entry, BrokerError | None]) -> None:
        """Finish the markers that are written or permanently refused, and resend the others."""
        failed: dict[_Entry, BrokerError] = {}
        for entry, error in outcomes.items():
            if error is None or error.code in REFUSED_FOR_GOOD:
                self._end(entry, error)
            elif not entry.is_over:
                failed[entry] = error
        self._try_again(failed)

    def _try_again(self, failed: Mapping[_Entry, BrokerError]) -> None:
        pauses: defaultdict[int, list[_Entry]] = defaultdict(list)
        for entry, error in failed.items():
            self._report(entry, error)
            pauses[min(_PAUSE_MS << min(entry.failures, 10), _PAUSE_MAX_MS)].append(entry)
            entry.failures += 1
        for pause_ms, entries in pauses.items():
            self._peers.later(pause_ms, partial(self._route, entries))

    def _end(self, entry: _Entry, error: BrokerError | None) -> None:
        if entry.is_over:
            return
        entry.is_over = True
        try:
            entry.done(error)
        except Exception:  # a defect, which must not delay other transactions
            self._lines.exception("marker", self._peers.now_ms(), "failed to process the outcome of a marker")

    def _report(self, entry: _Entry, error: BrokerError) -> None:
        write_line = self._lines.info if error.code in _PASSING else self._lines.error
        text = "resending the marker of producer %d for %s-%d: %s"
        write_line(
            ("marker", error.code), self._peers.now_ms(), text, entry.marker.producer_id, *entry.partition, error
        )


def _request(entries: Iterable[_Entry]) -> WriteTxnMarkersRequest:
    numbers: dict[tuple[Marker, int], dict[str, list[int]]] = {}
    for entry in entries:
        topics = numbers.setdefault((entry.marker, entry.transaction_version), {})
        name, number = entry.partition
        topics.setdefault(name, []).append(number)
    wanted = []
    for (marker, version), topics in numbers.items():
        producer_id, producer_epoch, is_commit, coordinator_epoch = marker
        listed = [WantedTopic(name, partitions) for name, partitions in topics.items()]
        wanted.append(WantedMarker(producer_id, producer_epoch, is_commit, listed, coordinator_epoch, version))
    return WriteTxnMarkersRequest(wanted)


def _codes(response: WriteTxnMarkersResponse) -> Mapping[tuple[int, Partition], int]:
    """Return the error codes in a response, keyed by producer id and partition."""
    return {
        (marker.producer_id, (topic.name, partition.partition_index)): partition.error_code
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }


def _error(broker_id: int, entry: _Entry, codes: Mapping[tuple[int, Partition], int]) -> BrokerError | None:
    """Return the error for a marker in a response, or None if the marker was written."""
    code = codes.get((entry.marker.producer_id, entry.partition))
    if code == ErrorCode.NONE:
        return None
    if code is None:
        return BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the response from broker {broker_id} omitted the marker")
    return BrokerError(code, f"broker {broker_id} rejected the marker")
