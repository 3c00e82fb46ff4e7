"""The queue of fetched batches, the only structure shared by both sides of a consumer.

The I/O side adds a response's data for a partition, and the reading side takes it. Each count has one writer, so no
lock is needed. Data fetched before a seek is
dropped when its turn comes; data of a paused partition is set aside until the partition is resumed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.consumer.read_queue import ReadQueue
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["FetchQueue", "Fetched", "Taker"]


class Fetched:
    """One response's data for one partition: batches, an error, or just a new position.

    Args:
        partition: the partition that the batches are from.
        epoch: the partition's epoch when the batches were requested; they are dropped if it has changed.
        start: the requested offset; earlier records of the first batch are skipped.
        end: the position after the last whole batch.
        records: concatenated batches; the last one may be incomplete.
        data_end: the offset after the last batch that can have records for the application.
        aborted: (first offset, producer id) of each aborted transaction, sorted by first offset.
        error: why the partition cannot be read; such an error stops it.
    """

    __slots__ = ("aborted", "data_end", "end", "epoch", "error", "partition", "records", "start")

    def __init__(
        self,
        partition: TopicPartition,
        epoch: int,
        start: int,
        end: Position,
        records: Buffer = b"",
        *,
        data_end: int = -1,
        aborted: tuple[tuple[int, int], ...] = (),
        error: KafkaWireError | None = None,
    ) -> None:
        self.partition = partition
        self.epoch = epoch
        self.start = start
        self.end = end
        self.records = records
        self.data_end = data_end
        self.aborted = aborted
        self.error = error


class Taker(Protocol):
    """The reading side of a partition, which decides whether fetched data may be handed out."""

    @property
    def epoch(self) -> int:
        """The current epoch; data fetched in another epoch is dropped."""
        ...

    @property
    def is_held(self) -> bool:
        """Whether nothing may be handed out at present."""
        ...


class FetchQueue(ReadQueue[Fetched]):
    """The data that was fetched but has not been handed out yet.

    Args:
        wake: makes the I/O side process releases if it is waiting for them.

    Attributes:
        released: (partition, epoch, bytes) for the data taken since the I/O side last checked.
        starved: set by the I/O side while it waits for releases.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        super().__init__(wake)
        self._parked: dict[TopicPartition, list[Fetched]] = {}
        self._put_bytes = 0
        self._taken_bytes = 0
        self.released: deque[tuple[TopicPartition, int, int]] = deque()
        self.starved = False

    @property
    def size_bytes(self) -> int:
        """The size in bytes of all data that was put into the queue but not taken."""
        return self._put_bytes - self._taken_bytes

    # The I/O side.

    def put(self, fetched: Fetched) -> None:
        """Append data; `signal` must follow."""
        self._put_bytes += len(fetched.records)
        self._items.append(fetched)

    def deliver(self, fetched: Fetched) -> None:
        """Append data and wake all readers."""
        self.put(fetched)
        self.signal()

    def clear(self) -> None:
        """Drop everything that was fetched; `fail` follows."""
        self._items.clear()
        self._parked.clear()

    # The reading side.

    def take(self, takers: Mapping[TopicPartition, Taker]) -> Fetched | None:
        """Return the oldest data that can be handed out; None if there is none."""
        while self._items:
            fetched = self._items.popleft()
            taker = takers.get(fetched.partition)
            if taker is None or taker.epoch != fetched.epoch:
                self._release(fetched)
            elif taker.is_held:
                self._parked.setdefault(fetched.partition, []).append(fetched)
                self._taken_bytes += len(fetched.records)  # it will not be used, so it must not hold up other fetches
            else:
                self._release(fetched)
                return fetched
        return None

    def unpark(self, partition: TopicPartition) -> None:
        """Move the data that was set aside while a partition was paused to the front."""
        parked = self._parked.pop(partition, ())
        for fetched in parked:
            self._taken_bytes -= len(fetched.records)
        self._items.extendleft(reversed(parked))
        self.signal()

    def forget(self, partition: TopicPartition) -> None:
        """Drop the data that was set aside, after a seek or when the partition is no longer assigned."""
        self._parked.pop(partition, None)

    def failures(self) -> list[Fetched]:
        """Return the errors that are waiting to be raised for partitions."""
        return [each for each in list(self._items) if each.error is not None]

    def take_error(self, partition: TopicPartition, epoch: int) -> KafkaWireError | None:
        """Remove and return the error waiting to be raised for a partition; None if there is none."""
        fetched = self._failed(partition, epoch)
        if fetched is None:
            return None
        self._items.remove(fetched)
        return fetched.error

    def has_error(self, partition: TopicPartition, epoch: int) -> bool:
        """Return whether an error is waiting to be raised for a partition."""
        return self._failed(partition, epoch) is not None

    def _failed(self, partition: TopicPartition, epoch: int) -> Fetched | None:
        waiting = (each for each in list(self._items) if each.partition == partition and each.epoch == epoch)
        return next((each for each in waiting if each.error is not None), None)

    def _release(self, fetched: Fetched) -> None:
        size_bytes = len(fetched.records)
        if size_bytes:
            self._taken_bytes += size_bytes
            self.released.append((fetched.partition, fetched.epoch, size_bytes))
            if self.starved:
                self.wake()
