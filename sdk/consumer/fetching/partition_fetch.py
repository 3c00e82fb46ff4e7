"""The I/O side of one partition: where it is fetched next, and what keeps it from being fetched.

What fails is tried again for ever, with pauses, as long as `may_pass` says so; otherwise reading the partition stops.
"""

from __future__ import annotations

from typing import Protocol

from kafkawire.sdk.consumer.position import Located, Place, Position
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing import retry
from kafkawire.sdk.routing.metadata import Partition
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.retry import Attempts, Backoff

__all__ = ["PartitionFetch", "Planning", "may_pass"]

#: Retriable codes that stop a partition: its leader would read the same damaged batch again.
_FINAL = frozenset({ErrorCode.CORRUPT_MESSAGE})

#: Codes that may pass although they are not retriable: the consumer of Apache Kafka goes on, too.
_PASSING = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR})


def may_pass(error: KafkaWireError) -> bool:
    """Return whether a fetch, or the look-up of a position, may succeed later."""
    return retry.may_pass(error, _FINAL, _PASSING)


class PartitionFetch:
    """One partition that is fetched.

    Args:
        partition: which one.
        backoff: the pauses after failures.
        max_bytes: most bytes of one fetch.

    Attributes:
        epoch: of the user's side; changes with each seek.
        position: the next to fetch; None until it is looked up.
        place: where to look it up, see `Place`.
        is_asked: whether a look-up of the position, or of its epoch, is in flight.
        checked_epoch: the leader epoch at which the position was found to be in the leader's log.
        leader_epoch: of the leader that it is fetched from, or that was last asked about the position.
        topic_id: of the topic when the partition was first seen.
        paused: by the user's side: by the application, or because the group withholds it.
        halted: by an error; a seek begins anew.
        buffered_bytes: fetched and not handed out.
        attempts: at fetching and looking up.
        home: the node that it is fetched from, None while it is not.
        replica: the follower to fetch from, and until when (KIP-392); None for the leader.
        sent: what the last request that named it said, see `to_send`.
        waits_until_ms: until when a pause after a failure lasts, as far as somebody looks then.
        end_offset: the first offset that was not readable at the last fetch, -1 if not known.
        warned: why it cannot be read, as the log says; empty if it does not.
    """

    __slots__ = (
        "attempts",
        "buffered_bytes",
        "checked_epoch",
        "end_offset",
        "epoch",
        "halted",
        "home",
        "is_asked",
        "leader_epoch",
        "max_bytes",
        "partition",
        "paused",
        "place",
        "position",
        "replica",
        "sent",
        "topic_id",
        "waits_until_ms",
        "warned",
    )

    def __init__(self, partition: TopicPartition, backoff: Backoff, max_bytes: int) -> None:
        self.partition = partition
        self.max_bytes = max_bytes
        self.attempts = Attempts(backoff)
        self.paused = False
        self.topic_id = ZERO_UUID
        self.leader_epoch = -1
        self.home: int | None = None
        self.replica: tuple[int, int] | None = None
        self.sent: tuple[int | None, int, int, int] | None = None
        self.waits_until_ms = 0
        self.warned = ""
        self.begin(0, None)

    def begin(self, epoch: int, place: Place) -> None:
        """Begin anew at a place."""
        self.move(place)
        self.epoch, self.halted = epoch, False
        self.end_offset = -1  # the user's side may not have taken the last one, which was of another epoch
        self.buffered_bytes = 0
        self.attempts.succeeded()

    def move(self, place: Place) -> None:
        """Go on from another place in the same epoch."""
        self.place = place
        self.position = place if isinstance(place, Position) else None
        self.is_asked = False
        self.checked_epoch = -1

    def needs_check(self, known: Partition) -> bool:
        """Return whether the leader has changed since the position was found to be in its log (KIP-320)."""
        is_checked = known.leader_epoch in (-1, self.checked_epoch)  # an older one is that of a topic created again
        return self.position is not None and self.position.leader_epoch >= 0 and not is_checked

    def to_send(self) -> tuple[int | None, int, int, int]:
        """Return what tells one request from the next: node, epoch, offset, leader epoch."""
        offset = -1 if self.position is None else self.position.offset
        return self.home, self.epoch, offset, self.leader_epoch

    def to_fetch(self) -> FetchRequest.FetchPartition:
        """Return what a fetch request says of it."""
        assert self.position is not None
        self.sent = self.to_send()
        return FetchRequest.FetchPartition(
            self.partition.partition, self.leader_epoch, self.position.offset, partition_max_bytes=self.max_bytes
        )


class Planning(Protocol):
    """What look-ups and responses ask and tell the planner, whose partitions they concern.

    Attributes:
        user: the user's side; set before anything is assigned.
    """

    user: Located | None

    def current(self, partition: TopicPartition) -> PartitionFetch | None:
        """Return the state of a partition, None if it is not assigned any more."""
        ...

    def consider(self, fetch: PartitionFetch, now_ms: int) -> None:
        """Put a partition where it belongs now."""
        ...

    def go_on(self, fetch: PartitionFetch, now_ms: int) -> None:
        """Fetch a partition from where it is now: a broker has answered."""
        ...

    def locate(self, fetch: PartitionFetch, position: Position, now_ms: int, *, is_checked: bool = False) -> None:
        """Begin to fetch from a position that was looked up; `is_checked` if the leader that was asked has named it."""
        ...

    def reset(self, fetch: PartitionFetch, reason: str, now_ms: int) -> None:
        """Have the position looked up as `auto_offset_reset` says."""
        ...

    def failed(self, fetch: PartitionFetch, error: KafkaWireError, now_ms: int) -> None:
        """Have a partition wait after a failure that may pass, or stop reading it."""
        ...

    def retry(self, fetch: PartitionFetch, error: KafkaWireError, now_ms: int) -> None:
        """Have a partition wait after a failure, whatever it was."""
        ...

    def halt_with(self, fetch: PartitionFetch, error: KafkaWireError, now_ms: int) -> None:
        """Fetch nothing more of a partition until it is sought: the application gets the error, once."""
        ...
