"""The I/O side of one partition: the position and source of its next fetch, and anything that prevents that fetch.

After a failure, the fetch is retried forever, with pauses, if `may_pass` allows it. A denial (`retry.is_denial`) is
retried forever, too, and every one is reported to the application. After any other error, the partition stops, because
going on would skip or repeat records, or fail in the same way.
"""

from __future__ import annotations

from typing import Protocol

from kafkawire.sdk.consumer.position import Located, Place, Position
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing import retry
from kafkawire.sdk.routing.links import Link
from kafkawire.sdk.routing.metadata import Partition
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.retry import Attempts, Backoff

__all__ = ["PartitionFetch", "Planning", "may_pass"]

#: Retriable codes that stop a partition, because its leader would read the same damaged batch again.
_FINAL = frozenset({ErrorCode.CORRUPT_MESSAGE})

#: Codes that are not marked as retriable but are retried nevertheless, as in Apache Kafka's consumer.
_PASSING = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR})


def may_pass(error: KafkaWireError) -> bool:
    """Return whether a fetch, or the lookup of a position, may succeed later, for example after a refused login."""
    return retry.is_refusal(error) or retry.may_pass(error, _FINAL, _PASSING)


class PartitionFetch:
    """A partition that is being fetched.

    Args:
        partition: the partition.
        backoff: the pauses after failures.
        max_bytes: the maximum size of one fetch in bytes.

    Attributes:
        epoch: the reading side's epoch, which changes with each seek.
        position: the next position to fetch; None until it is looked up.
        place: the place to look up (see `Place`).
        is_asked: whether a lookup of the position, or of its epoch, is in flight.
        checked_epoch: the epoch of the leader that confirmed that the position is in its log.
        leader_epoch: the epoch of the leader from which the partition is fetched, or which was last asked about the
            position.
        topic_id: the topic's id when the partition was first seen.
        paused: whether the application has paused the partition or the group withholds it.
        halted: whether an error has stopped the partition until a seek.
        buffered_bytes: the number of bytes fetched but not handed out.
        attempts: counts the attempts to fetch and to look up the position.
        home: the node from which the partition is fetched; None while it is not fetched.
        replica: the follower to fetch from, and how long to do so (KIP-392); None for the leader.
        sent: the values in the last request that named the partition (see `to_send`).
        waits_until_ms: the end of the pause after a failure, if a check is scheduled for it.
        end_offset: the first offset that was not readable at the last fetch; -1 if unknown.
        warned: the logged reason why the partition cannot be read; empty if none was logged.
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
        """Restart at a place."""
        self.move(place)
        self.epoch, self.halted = epoch, False
        self.end_offset = -1  # the reading side may not have accepted the last one, which had another epoch
        self.buffered_bytes = 0
        self.attempts.succeeded()

    def move(self, place: Place) -> None:
        """Continue from another place in the same epoch."""
        self.place = place
        self.position = place if isinstance(place, Position) else None
        self.is_asked = False
        self.checked_epoch = -1

    def needs_check(self, known: Partition) -> bool:
        """Return whether the leader has changed since the position was confirmed to be in its log (KIP-320)."""
        is_checked = known.leader_epoch in (-1, self.checked_epoch)  # an older epoch belongs to a recreated topic
        return self.position is not None and self.position.leader_epoch >= 0 and not is_checked

    def to_send(self) -> tuple[int | None, int, int, int]:
        """Return the values that can change from one request to the next: node, epoch, offset, leader epoch."""
        offset = -1 if self.position is None else self.position.offset
        return self.home, self.epoch, offset, self.leader_epoch

    def to_fetch(self) -> FetchRequest.FetchPartition:
        """Return the partition's entry in a fetch request."""
        assert self.position is not None
        self.sent = self.to_send()
        return FetchRequest.FetchPartition(
            self.partition.partition, self.leader_epoch, self.position.offset, partition_max_bytes=self.max_bytes
        )


class Planning(Protocol):
    """The planner as seen by lookups and responses, which handle its partitions.

    Attributes:
        user: the reading side; set before anything is assigned.
    """

    user: Located | None

    def current(self, partition: TopicPartition) -> PartitionFetch | None:
        """Return the state of a partition; None if it is no longer assigned."""
        ...

    def reach(self, node_id: int, now_ms: int) -> Link | None:
        """Return the link to a broker if it takes calls; otherwise, open it, and have a refused login reported."""
        ...

    def consider(self, fetch: PartitionFetch, now_ms: int) -> None:
        """Move a partition to where it belongs now."""
        ...

    def go_on(self, fetch: PartitionFetch, now_ms: int) -> None:
        """Continue fetching a partition at its position after a broker has answered."""
        ...

    def locate(self, fetch: PartitionFetch, position: Position, now_ms: int, *, is_checked: bool = False) -> None:
        """Start fetching from a position that was looked up; `is_checked` says whether the leader returned it."""
        ...

    def reset(self, fetch: PartitionFetch, reason: str, now_ms: int) -> None:
        """Look up the position according to `auto_offset_reset`."""
        ...

    def failed(self, fetch: PartitionFetch, error: KafkaWireError, now_ms: int) -> None:
        """Pause a partition after a failure that may be temporary, or stop reading it."""
        ...

    def retry(self, fetch: PartitionFetch, error: KafkaWireError, now_ms: int) -> None:
        """Pause a partition after a failure of any kind."""
        ...

    def succeeded(self, fetch: PartitionFetch) -> None:
        """Start over after a success: the next failure counts as the first."""
        ...

    def halt_with(self, fetch: PartitionFetch, error: KafkaWireError, now_ms: int) -> None:
        """Stop fetching a partition until the next seek, and report the error to the application once."""
        ...
