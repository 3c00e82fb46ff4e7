"""What a broker has acquired for a share consumer, and the acknowledgements on their way from the application to it.

`Acquired` is one response's share of one partition. The I/O side creates it; the reading side hands out its records;
the application's acknowledgements come back through the `Ledger`. The sides can be separate threads, without a lock
(docs/decisions/0035-no-locks.md): each attribute is written by one side, and deques append and pop atomically.

Source: KIP-932, KIP-1222 (renewals).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.tables.enums import ACKNOWLEDGE_GAP, AcknowledgeType
from kafkawire.sdk.routing.partitions import TopicIdPartition, TopicPartition
from kafkawire.sdk.transport.promise import Promise

__all__ = [
    "AcknowledgeOutcome",
    "Acknowledgement",
    "Acquired",
    "AcquiredRange",
    "Awaiting",
    "Ledger",
    "Settled",
]


class AcknowledgeOutcome(NamedTuple):
    """The outcome of acknowledgements that a broker handled together.

    Attributes:
        partition: the records' partition.
        topic_id: the id of its topic, 16 bytes.
        offsets: the offsets of the acknowledged records, in order.
        error: why none of them is acknowledged: their acquisition locks have run out or were lost, and other consumers
            may receive the records. None if the broker has stored the acknowledgements.
    """

    partition: TopicPartition
    topic_id: bytes
    offsets: tuple[int, ...]
    error: KafkaWireError | None


class AcquiredRange(NamedTuple):
    """Consecutive offsets that were acquired together.

    Attributes:
        first: the first offset.
        last: the last offset, inclusive.
        delivery_count: how many times these records have been delivered, including this time.
    """

    first: int
    last: int
    delivery_count: int


class Settled(Protocol):
    """A delivery as seen by the I/O side."""

    @property
    def delivery_count(self) -> int:
        """How many times the record has been delivered, including this time."""
        ...

    @property
    def locked_until_ms(self) -> int:
        """When the acquisition lock runs out."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether the lock is known to be lost, apart from the other locks of its acquisition."""
        ...

    def renewed(self, locked_until_ms: int) -> None:
        """Extend the lock."""
        ...

    def settled(self, error: KafkaWireError | None) -> None:
        """Record the outcome of its acknowledgement, or that its renewal has failed."""
        ...


class Awaiting(Protocol):
    """A commit that is waiting for acknowledgements."""

    def acknowledged(self, count: int) -> None:
        """Count acknowledgements that no longer have to be waited for."""
        ...

    def report(self, outcome: AcknowledgeOutcome) -> None:
        """Add an outcome."""
        ...


class Acquired:
    """The offsets of one partition that one response has acquired.

    Args:
        partition: the partition.
        node_id: the broker that holds the locks.
        count: the number of acquired offsets.
        locked_until_ms: when the locks run out that are not renewed.
        lock_timeout_ms: how long a lock lasts.
        ledger: takes the acknowledgements.

    Attributes:
        is_lost: whether all locks are known to be lost; written by the I/O side.
    """

    __slots__ = ("count", "is_lost", "ledger", "lock_timeout_ms", "locked_until_ms", "node_id", "partition")

    def __init__(
        self,
        partition: TopicIdPartition,
        node_id: int,
        count: int,
        locked_until_ms: int,
        lock_timeout_ms: int,
        ledger: Ledger,
    ) -> None:
        self.partition = partition
        self.node_id = node_id
        self.count: Final = count
        self.locked_until_ms: Final = locked_until_ms
        self.lock_timeout_ms = lock_timeout_ms
        self.ledger = ledger
        self.is_lost = False


class Acknowledgement:
    """The acknowledgement of one record, or of consecutive offsets that have no record for the application.

    Args:
        acquired: the acquisition to which the offsets belong.
        first: the first offset.
        last: the last offset, inclusive.
        type: an `AcknowledgeType`, or ACKNOWLEDGE_GAP.
        delivery: the record's delivery; None for other offsets.
        renewal: settled once a renewal is confirmed or has failed; None for other types.

    Attributes:
        commits: the commits that wait for it.
    """

    __slots__ = ("acquired", "commits", "delivery", "first", "last", "renewal", "type")

    def __init__(
        self,
        acquired: Acquired,
        first: int,
        last: int,
        type: int,
        delivery: Settled | None = None,
        renewal: Promise[None] | None = None,
    ) -> None:
        self.acquired = acquired
        self.first = first
        self.last = last
        self.type = type
        self.delivery = delivery
        self.renewal = renewal
        self.commits: tuple[Awaiting, ...] = ()

    @property
    def locked_until_ms(self) -> int:
        """When the acquisition lock of its offsets runs out."""
        return self.acquired.locked_until_ms if self.delivery is None else self.delivery.locked_until_ms

    @property
    def count(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1


class Ledger:
    """The acknowledgements that the I/O side has not taken yet.

    Args:
        wake: makes the I/O side take a turn.
        clock_ms: returns the machines' time.
        is_explicit: whether the application acknowledges deliveries itself.
        reject_on: the exceptions after which `with delivery` rejects the record rather than releasing it.

    Attributes:
        given: the acknowledgements, oldest first.
        is_awaited: whether the I/O side must be woken for the next one, because no timer will make it look; written by
            the I/O side.
        is_over: whether the I/O side has stopped taking acknowledgements; written by the I/O side.
        lock_timeout_ms: how long acquisition locks last, as last reported by a broker; None before the first response.
    """

    def __init__(
        self,
        wake: Callable[[], None],
        clock_ms: Callable[[], int],
        *,
        is_explicit: bool,
        reject_on: tuple[type[BaseException], ...] = (),
    ) -> None:
        self._wake = wake
        self.clock_ms: Final = clock_ms
        self.is_explicit: Final = is_explicit
        self.reject_on: Final = reject_on
        self.given: deque[Acknowledgement] = deque()
        self.is_awaited = True
        self.is_over = False
        self.lock_timeout_ms: int | None = None

    def add(self, acknowledgement: Acknowledgement) -> None:
        """Pass on an acknowledgement; can be called from any thread."""
        if self.is_over:
            return
        self.given.append(acknowledgement)
        if self.is_awaited or acknowledgement.type == AcknowledgeType.RENEW:
            self._wake()

    def add_range(self, acquired: Acquired, first: int, last: int, type: int = ACKNOWLEDGE_GAP) -> None:
        """Pass on the acknowledgement of offsets that have no record for the application."""
        self.add(Acknowledgement(acquired, first, last, type))
