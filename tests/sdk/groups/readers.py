"""A reader that finishes records when told to, and a listener that acknowledges events when told to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.groups.protocol import Event
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition

__all__ = ["Listener", "MemoryReader"]


class MemoryReader:
    """A reader of partitions that never end; see `MemberReader`.

    Args:
        start: returns the offset at which the reading of a partition starts.

    Attributes:
        withheld: partitions whose records are not handed out.
        positions: the next offset to hand out, keyed by partition.
        stored: the committed offsets.
        log: the calls, in order.
        errors: the errors that were reported but not raised yet.
    """

    def __init__(self, start: Callable[[TopicPartition], int] = lambda partition: 0) -> None:
        self._start = start
        self.withheld: set[TopicPartition] = set()
        self.positions: dict[TopicPartition, int] = {}
        self.stored: dict[TopicPartition, OffsetAndMetadata] = {}
        self.last_handed_out_ms: int | None = None
        self.log: list[tuple[str, frozenset[TopicPartition]]] = []
        self.errors: list[KafkaWireError] = []

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self.positions)

    @property
    def handed_out(self) -> frozenset[TopicPartition]:
        """The partitions whose records are handed out."""
        return frozenset(self.positions) - self.withheld

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        self.log.append(("assign", frozenset(partitions)))
        self.positions = {
            partition: self.positions[partition] if partition in self.positions else self._start(partition)
            for partition in partitions
        }
        self.stored = {partition: offset for partition, offset in self.stored.items() if partition in self.positions}
        self.withheld.clear()

    def withhold(self, partitions: Collection[TopicPartition]) -> None:
        assert set(partitions) <= self.positions.keys()
        if partitions:
            self.log.append(("withhold", frozenset(partitions)))
        self.withheld |= set(partitions)

    def to_commit(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        wanted = self.positions.keys() if partitions is None else partitions
        offsets = {partition: OffsetAndMetadata(self.positions[partition], leader_epoch=1) for partition in wanted}
        return {
            partition: offset
            for partition, offset in offsets.items()
            if offset.offset > 0 and self.stored.get(partition) != offset
        }

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.stored.update(offsets)

    def report(self, error: KafkaWireError) -> None:
        self.errors.append(error)

    def is_unread(self, error: KafkaWireError) -> bool:
        return error in self.errors

    def read(self, count: int = 1) -> frozenset[TopicPartition]:
        """Finish records in each partition that is handed out, and return those partitions."""
        for partition in self.handed_out:
            self.positions[partition] += count
        return self.handed_out


class Listener:
    """A listener that receives events and acknowledges them when told to.

    Attributes:
        events: all events, in order.
        on_event: a function called with each event in place of the application; None to do nothing.
        acknowledge: the group's method, which a test sets.
        check_time: called with the time that accompanies an event.
        is_slow: whether events wait for `handle`.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.waiting: list[Event] = []
        self.on_event: Callable[[Event, int], None] | None = None
        self.acknowledge: Callable[[Event, int], None] | None = None
        self.check_time: Callable[[int], None] = lambda now_ms: None
        self.is_slow = False

    def __call__(self, event: Event, now_ms: int) -> None:
        self.check_time(now_ms)
        assert not self.waiting, "an event arrived before the previous one was acknowledged"
        self.events.append(event)
        self.waiting.append(event)
        if self.on_event is not None:
            self.on_event(event, now_ms)
        if not self.is_slow:
            self.handle(now_ms)

    def handle(self, now_ms: int) -> None:
        """Acknowledge the waiting event."""
        assert self.acknowledge is not None
        if self.waiting:
            self.acknowledge(self.waiting.pop(), now_ms)
