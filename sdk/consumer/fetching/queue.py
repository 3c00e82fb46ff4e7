"""The queue of fetched batches: the only structure that both sides of a consumer touch.

The I/O side puts what a response brought for a partition, the user's side takes it; they may be two threads. Each count
has one writer, and deques append and pop atomically, so no lock is needed. What was fetched before a seek is dropped
when its turn comes; what belongs to a paused partition is set aside until it is resumed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Protocol

from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport.promise import Promise

__all__ = ["FetchQueue", "Fetched", "Taker"]


class Fetched:
    """What one response brought for one partition: batches, an error, or only a new position.

    Args:
        partition: where they are from.
        epoch: of the partition when they were requested; they are dropped once it differs.
        start: the offset that was requested; earlier records of the first batch are skipped.
        end: the position after the last whole batch.
        records: concatenated batches; the last one may be cut off.
        data_end: the offset after the last batch that may have records for the application.
        aborted: (first offset, producer id) of each aborted transaction, by first offset.
        error: why the partition cannot be read; it then stops.
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
    """The user's side of a partition, as far as it says whether something fetched may be handed out."""

    @property
    def epoch(self) -> int:
        """What was fetched in another one is dropped."""
        ...

    @property
    def is_held(self) -> bool:
        """Whether nothing may be handed out now."""
        ...


class FetchQueue:
    """What was fetched and not handed out yet.

    Args:
        wake: has the I/O side look at what was released, if it waits for that.

    Attributes:
        wake: as given.
        released: (partition, epoch, bytes) taken since the I/O side last looked.
        starved: set by the I/O side while it waits for releases.
        announces_reads: whether a read that begins to wait wakes the I/O side: a group wants to know.
        errors: that reads raise, one each.
        refusal: what reads raise that would have to wait, as long as a broker refuses this client.
        failure: why nothing will come any more; None while the client lives. A listener may have raised it.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = wake
        self._items: deque[Fetched] = deque()
        self._parked: dict[TopicPartition, list[Fetched]] = {}
        self._waiting: deque[Promise[None]] = deque()
        self._put_bytes = 0
        self._taken_bytes = 0
        self.released: deque[tuple[TopicPartition, int, int]] = deque()
        self.starved = False
        self.announces_reads = False
        self.errors: deque[KafkaWireError] = deque()
        self.refusal: KafkaWireError | None = None
        self.failure: Exception | None = None
        self._traceback: TracebackType | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of all that was put and not taken."""
        return self._put_bytes - self._taken_bytes

    # The I/O side.

    def put(self, fetched: Fetched) -> None:
        """Append; `signal` follows."""
        self._put_bytes += len(fetched.records)
        self._items.append(fetched)

    def deliver(self, fetched: Fetched) -> None:
        """Append, and wake every reader."""
        self.put(fetched)
        self.signal()

    def report(self, error: KafkaWireError) -> None:
        """Have the next read raise an error that concerns no single partition."""
        self.errors.append(error)
        self.signal()

    def refuse(self, error: KafkaWireError | None) -> None:
        """Have every read raise an error that finds nothing; None once that is over."""
        if error is not None and error is not self.refusal:
            self.report(error)
        self.refusal = error

    def fail(self, error: Exception) -> None:
        """Wake every reader: nothing will come any more."""
        self._traceback = error.__traceback__
        self.failure = error
        self.signal()

    def clear(self) -> None:
        """Drop everything that was fetched; `fail` follows."""
        self._items.clear()
        self._parked.clear()

    def signal(self) -> None:
        """Wake every reader."""
        waiting = self._waiting
        while waiting:
            try:
                promise = waiting.popleft()
            except IndexError:  # the other side was faster
                return
            promise.keep(None)

    # The user's side.

    def check(self) -> None:
        """Raise why nothing will come any more, as often as somebody reads."""
        failure = self.failure
        if failure is None:
            return
        if isinstance(failure, KafkaWireError):
            raise failure.again()
        raise failure.with_traceback(self._traceback)  # the application's own, which must not grow with each read

    def take(self, takers: Mapping[TopicPartition, Taker]) -> Fetched | None:
        """Return the oldest that can be handed out, None if there is none."""
        while self._items:
            fetched = self._items.popleft()
            taker = takers.get(fetched.partition)
            if taker is None or taker.epoch != fetched.epoch:
                self._release(fetched)
            elif taker.is_held:
                self._parked.setdefault(fetched.partition, []).append(fetched)
                self._taken_bytes += len(fetched.records)  # of no use now, so it must not keep others from fetching
            else:
                self._release(fetched)
                return fetched
        return None

    def unpark(self, partition: TopicPartition) -> None:
        """Hand out first what was set aside while a partition was paused."""
        parked = self._parked.pop(partition, ())
        for fetched in parked:
            self._taken_bytes -= len(fetched.records)
        self._items.extendleft(reversed(parked))
        self.signal()

    def forget(self, partition: TopicPartition) -> None:
        """Drop what was set aside: the partition was sought elsewhere, or is no longer assigned."""
        self._parked.pop(partition, None)

    def take_error(self, partition: TopicPartition, epoch: int) -> KafkaWireError | None:
        """Return the error that waits to be raised for a partition, None if there is none."""
        fetched = self._failed(partition, epoch)
        if fetched is None:
            return None
        self._items.remove(fetched)
        return fetched.error

    def has_error(self, partition: TopicPartition, epoch: int) -> bool:
        """Return whether an error waits to be raised for a partition."""
        return self._failed(partition, epoch) is not None

    def _failed(self, partition: TopicPartition, epoch: int) -> Fetched | None:
        waiting = (each for each in list(self._items) if each.partition == partition and each.epoch == epoch)
        return next((each for each in waiting if each.error is not None), None)

    def wait(self, is_there: Callable[[], bool] | None = None) -> Promise[None]:
        """Return a promise that is kept when something comes; `cancel` it if nobody waits any more.

        Args:
            is_there: whether what is waited for has come; None for anything that a read hands out or raises. What
                others wait for must not keep the promise at once, again and again.
        """
        promise: Promise[None] = Promise()
        self._waiting.append(promise)
        if self.announces_reads:
            self.wake()
        if is_there is None:
            is_there = self._has_news
        if is_there():
            self.signal()
        return promise

    def cancel(self, promise: Promise[None]) -> None:
        """Forget a promise of `wait`."""
        if not promise.done:
            with suppress(ValueError):
                self._waiting.remove(promise)

    def _has_news(self) -> bool:
        """Return whether a read finds something, or an error."""
        if self.refusal is not None and not self.errors:
            self.errors.append(self.refusal.again())
        return bool(self._items or self.errors) or self.failure is not None

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for records."""
        return bool(self._waiting)

    def _release(self, fetched: Fetched) -> None:
        size_bytes = len(fetched.records)
        if size_bytes:
            self._taken_bytes += size_bytes
            self.released.append((fetched.partition, fetched.epoch, size_bytes))
            if self.starved:
                self.wake()
