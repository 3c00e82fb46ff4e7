"""A consumer's reading side for tests, with an I/O side that only records its calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkawire.sdk.consumer.fetching.queue import Fetched, FetchQueue
from kafkawire.sdk.consumer.position import Place, Position
from kafkawire.sdk.consumer.reading.assignment import Assignment
from kafkawire.sdk.consumer.reading.reader import Reader
from kafkawire.sdk.errors import NoOffset
from kafkawire.sdk.records import walk_headers
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["T0", "T1", "T2", "UserSide"]

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class UserSide:
    """An assignment with its queue and its reader.

    Attributes:
        told: the calls to the I/O side, oldest first.
        wakes: how many times the I/O side was woken.
        now_ms: the current time.
    """

    def __init__(self, *partitions: TopicPartition, start: int | None = 0, auto_finish: bool = True) -> None:
        self.told: list[tuple[object, ...]] = []
        self.wakes = 0
        self.now_ms = 0
        self.queue = FetchQueue(self._wake)
        self.assignment = Assignment(
            self, self.queue, lambda step: step(0), lambda: self.now_ms, auto_finish=auto_finish
        )
        self.reader = Reader(self.assignment, self.queue, check_crcs=True)
        if partitions:
            self.assignment.assign(partitions, None if start is None else Position(start))
            self.told.clear()

    def put(self, partition: TopicPartition, data: bytes, start: int | None = None, **more: object) -> Fetched:
        """Deliver a partition's batches, as a response would."""
        headers = list(walk_headers(data))
        last = headers[-1]
        end = Position(last.next_offset, getattr(last, "partition_leader_epoch", -1))
        ends = [header.next_offset for header in headers if not getattr(header, "is_control", False)]
        begins = headers[0].base_offset if start is None else start
        epoch = self.assignment.readings[partition].epoch
        fetched = Fetched(partition, epoch, begins, end, data, data_end=max(ends, default=-1), **more)  # type: ignore[arg-type]  # by name
        self.queue.put(fetched)
        self.queue.signal()
        return fetched

    def stop(self, partition: TopicPartition) -> None:
        """Deliver an error that stops a partition."""
        reading = self.assignment[partition]
        end = reading.position or Position(-1)
        self.queue.deliver(Fetched(partition, reading.epoch, end.offset, end, error=NoOffset("stopped")))

    def position(self, partition: TopicPartition) -> Position | None:
        """Return the offset of the next record to hand out."""
        return self.assignment[partition].position

    def finished(self, partition: TopicPartition) -> Position | None:
        """Return the position before which everything is finished."""
        return self.assignment[partition].finished

    def take(self) -> int | None:
        """Hand out one record, as an iteration does, and return its offset, or None if no record is available."""
        if not self.reader.advance():
            return None
        assert self.reader.handout is not None
        return self.reader.handout.take().offset

    def take_all(self) -> list[int]:
        """Hand out everything, and return the offsets."""
        found = []
        while (offset := self.take()) is not None:
            found.append(offset)
        return found

    def _wake(self) -> None:
        self.wakes += 1

    # The I/O side.

    def assign(self, epochs: Mapping[TopicPartition, tuple[int, Place]], now_ms: int) -> None:
        self.told.append(("assign", {each: place for each, (_, place) in epochs.items()}))

    def seek(self, partition: TopicPartition, epoch: int, place: Place, now_ms: int) -> None:
        self.told.append(("seek", partition, place))

    def pause(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        self.told.append(("pause", *partitions))

    def resume(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        self.told.append(("resume", *partitions))

    def halt(self, partition: TopicPartition, now_ms: int) -> None:
        self.told.append(("halt", partition))
