"""What a share consumer has to do with one broker: its session, and the acknowledgements for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kafkawire.sdk.consumer.sharing.acquisitions import Acknowledgement, Acquired
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Call
from kafkawire.sdk.routing.partitions import TopicIdPartition
from kafkawire.sdk.routing.retry import Attempts, Backoff
from kafkawire.sdk.routing.share_session import ShareSession

__all__ = ["ACKNOWLEDGE_LINGER_MS", "ByPartition", "Failed", "NodeShares"]

#: How long acknowledgements wait for a fetch that takes them along: short compared with any acquisition lock, and long
#: compared with the time between the records of a busy consumer, which would otherwise send a request for each.
ACKNOWLEDGE_LINGER_MS: Final = 100

#: Acknowledgements, by partition.
ByPartition = dict[TopicIdPartition, list[Acknowledgement]]


class Failed(NamedTuple):
    """Acknowledgements that cannot succeed, and therefore are not sent."""

    partition: TopicIdPartition
    acknowledgements: list[Acknowledgement]
    error: KafkaWireError


class NodeShares:
    """The state for one broker.

    Args:
        node_id: the broker.
        backoff: the pauses after failures.

    Attributes:
        node_id: as given.
        session: the share session.
        connection: the connection over which the session was opened.
        wanted: the assigned partitions that the broker leads.
        in_flight: the request of the session that has no response yet.
        is_fetching: whether that is a fetch.
        sent: the acknowledgements in that request.
        attempts: counts the requests that failed.
        is_urgent: whether acknowledgements do not wait for a fetch.
    """

    def __init__(self, node_id: int, backoff: Backoff) -> None:
        self.node_id = node_id
        self.session = ShareSession()
        self.connection: object = None
        self.wanted: dict[TopicIdPartition, None] = {}
        self.in_flight: Call | None = None
        self.is_fetching = False
        self.sent: ByPartition = {}
        self.attempts = Attempts(backoff)
        self.is_urgent = False
        #: By acquisition and offset, since an application may still acknowledge a delivery whose lock is lost while it
        #: has the next delivery of the record.
        self._pending: dict[TopicIdPartition, dict[tuple[Acquired, int], Acknowledgement]] = {}
        self._since_ms: int | None = None
        #: The names of topics, keyed by id: responses have only ids, and the metadata may already lack a topic.
        self._names: dict[bytes, str] = {}

    def want(self, partition: TopicIdPartition) -> None:
        """Fetch from a partition."""
        self.wanted[partition] = None
        self._names[partition.topic_id] = partition.topic

    def partition(self, topic_id: bytes, number: int) -> TopicIdPartition:
        """Return the partition that a response is about; its topic's name is empty if it was never requested."""
        return TopicIdPartition(topic_id, self._names.get(topic_id, ""), number)

    def landed(self) -> ByPartition:
        """Note that the request has ended; return the acknowledgements in it."""
        self.in_flight, self.is_fetching = None, False
        sent, self.sent = self.sent, {}
        return sent

    def drop(self) -> None:
        """Forget all acknowledgements."""
        self._pending, self.sent, self._since_ms = {}, {}, None

    def add(self, acknowledgement: Acknowledgement, now_ms: int) -> Acknowledgement | None:
        """Add an acknowledgement to send.

        Returns:
            The acknowledgement of the same delivery that it replaces; None if there is none.
        """
        waiting = self._pending.setdefault(acknowledgement.acquired.partition, {})
        key = acknowledgement.acquired, acknowledgement.first
        former = waiting.get(key)
        waiting[key] = acknowledgement
        if self._since_ms is None:
            self._since_ms = now_ms
        if acknowledgement.renewal is not None:
            self.is_urgent = True
        return former

    def add_again(self, acknowledgement: Acknowledgement, now_ms: int) -> Acknowledgement | None:
        """Add an acknowledgement that the broker did not handle, to be sent again.

        Returns:
            The later acknowledgement of the same delivery that is sent instead; None if there is none.
        """
        key = acknowledgement.acquired, acknowledgement.first
        later = self._pending.get(acknowledgement.acquired.partition, {}).get(key)
        if later is None:
            self.add(acknowledgement, now_ms)
        return later

    @property
    def due_ms(self) -> int | None:
        """The deadline for sending the acknowledgements; None if there are none."""
        if self._since_ms is None:
            return None
        return self._since_ms if self.is_urgent else self._since_ms + ACKNOWLEDGE_LINGER_MS

    def unsettled(self) -> Iterator[Acknowledgement]:
        """Yield the acknowledgements that have not ended."""
        for waiting in self._pending.values():
            yield from waiting.values()
        for sent in self.sent.values():
            yield from sent

    def take(self, now_ms: int, is_moved: Callable[[TopicIdPartition], bool]) -> tuple[ByPartition, list[Failed]]:
        """Remove and return the acknowledgements to send, and those that cannot succeed.

        A broker handles the acknowledgements of a partition together: one whose lock has run out would make the others
        fail.

        Args:
            now_ms: the time.
            is_moved: returns whether the broker no longer leads a partition.
        """
        ready: ByPartition = {}
        failed: list[Failed] = []
        for partition, waiting in self._pending.items():
            groups: dict[str, list[Acknowledgement]] = {}
            is_elsewhere = is_moved(partition)
            newest: dict[int, int] = {}
            for each in waiting.values():
                newest[each.first] = max(_count(each), newest.get(each.first, 0))
            for each in waiting.values():
                is_old = _count(each) < newest[each.first]
                reason = _EXPIRED if is_old else _hindrance(each, now_ms, is_elsewhere)
                groups.setdefault(reason, []).append(each)
            if sound := groups.pop("", None):
                ready[partition] = sound
            for reason, acknowledgements in groups.items():
                code = ErrorCode.INVALID_RECORD_STATE if reason == _EXPIRED else ErrorCode.NOT_LEADER_OR_FOLLOWER
                failed.append(Failed(partition, acknowledgements, BrokerError(code, f"{partition}: {reason}")))
        self._pending, self._since_ms, self.is_urgent = {}, None, False
        return ready, failed


_EXPIRED: Final = "the acquisition lock has run out"
_MOVED: Final = "another broker leads the partition"
_SESSION_LOST: Final = "the share session with the broker was lost"


def _count(each: Acknowledgement) -> int:
    """Return how many times the record has been delivered; 0 if there is no record."""
    return 0 if each.delivery is None else each.delivery.delivery_count


def _hindrance(each: Acknowledgement, now_ms: int, is_elsewhere: bool) -> str:
    """Return why an acknowledgement cannot succeed; empty if it may."""
    if each.locked_until_ms <= now_ms or (each.delivery is not None and each.delivery.is_lost):
        return _EXPIRED
    if is_elsewhere:
        return _MOVED
    return _SESSION_LOST if each.acquired.is_lost else ""
