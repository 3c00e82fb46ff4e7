"""What a producer keeps for a topic besides the appender's open batches: queues, and records waiting for the topic."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kafkawire.sdk.producer.arguments import Held
from kafkawire.sdk.producer.engine import Topic
from kafkawire.sdk.producer.partition_queue import PartitionQueue

if TYPE_CHECKING:
    from kafkawire.sdk.producer.partition_queue import ProducerBatch

__all__ = ["Arrivals", "End", "ProducerTopic"]


class ProducerTopic(Topic):
    """A topic that records are sent to.

    Attributes:
        queues: the queues of partitions that have had batches, keyed by partition number.
        arrivals: collects the records that must wait until the topic or their partition is known.
        held: the records that the sender has taken from `arrivals`, oldest first.
        round_robin: the number of records distributed over the partitions in turn.
        used_ms: when the last batch was created.
    """

    __slots__ = ("arrivals", "held", "queues", "round_robin", "used_ms")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.queues: dict[int, PartitionQueue] = {}
        self.arrivals = Arrivals()
        self.held: deque[Held] = deque()
        self.round_robin = itertools.count()
        self.used_ms = 0

    @property
    def holds(self) -> bool:
        """Whether records are waiting for the topic."""
        return bool(self.held or len(self.arrivals))

    def gather(self) -> None:
        """Take the records that have arrived; more can arrive in the meantime."""
        if len(self.arrivals):
            arrivals, self.arrivals = self.arrivals, Arrivals()
            self.held += arrivals.close(End(self.partitions, self.arrivals))

    def shown_open(self, batch: ProducerBatch, *, is_sticky: bool) -> None:
        """Show the engine an open batch; if it is sticky, show it for records without a key as well.

        Another thread can close and hide the batch before it is shown, so a closed batch is hidden again.
        """
        self.show(batch.queue.partition.partition, batch)
        if is_sticky:
            self.sticky = batch
        if batch.is_closed:
            self.shown_closed(batch)

    def shown_closed(self, batch: ProducerBatch) -> None:
        """Hide a closed batch from the engine, wherever it is currently shown."""
        number = batch.queue.partition.partition
        if self.open_batch(number) is batch:
            self.show(number, None)
        if self.sticky is batch:
            self.sticky = None

    def show(self, number: int, batch: ProducerBatch | None) -> None:
        """Show the engine which batch of a partition is open."""
        with suppress(IndexError):  # the topic now has fewer partitions
            self.open[number] = batch

    def open_batch(self, number: int) -> ProducerBatch | None:
        """Return the open batch of a partition; None if there is none."""
        batch: ProducerBatch | None = None
        with suppress(IndexError):
            batch = self.open[number]
        return batch

    def less_busy(self, fraction: Callable[[], float], has_leader: Callable[[str, int], bool]) -> int:
        """Return the less busy of two random partitions with a leader, without looking at all partitions.

        Args:
            fraction: returns a random number in [0, 1).
            has_leader: returns whether a partition of a topic has a leader.
        """
        count = len(self.open)
        if count == 1:
            return 0
        start = int(fraction() * count)
        chosen = [start, int(fraction() * count)]
        led = [number for number in chosen if has_leader(self.name, number)]
        if led:
            return min(led, key=self._load)
        others = ((start + step) % count for step in range(count))
        return next((number for number in others if has_leader(self.name, number)), start)

    def _load(self, number: int) -> int:
        queue = self.queues.get(number)
        return 0 if queue is None else queue.load


class End(NamedTuple):
    """The reason why arrivals accept no more records.

    Attributes:
        partitions: the topic's number of partitions; 0 while unknown.
        others: the arrivals for records that must keep waiting; None if the topic was forgotten.
    """

    partitions: int
    others: Arrivals | None


class Arrivals:
    """Records that wait until their topic is known, in order of arrival; lock-free, for use from any thread.

    The sender takes them by closing these arrivals and opening new ones. Records and the end each take the next place
    in one atomic step (`dict.setdefault`). Therefore either the sender takes a record or the record's thread sees the
    end, and no record overtakes another.
    """

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[int, Held | End] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, record: Held) -> bool:
        return record in self._places.values()

    def add(self, record: Held) -> End | None:
        """Add a record; return the end if these arrivals are closed."""
        places = self._places
        while True:
            place = len(places)
            last = places[place - 1] if place else None
            found = last if isinstance(last, End) else places.setdefault(place, record)
            if found is record:
                return None
            if isinstance(found, End):
                return found

    def close(self, end: End) -> list[Held]:
        """Accept no more records, and return those that have arrived."""
        while self._places.setdefault(len(self._places), end) is not end:
            pass  # a record has arrived
        return [each for each in self._places.values() if isinstance(each, Held)]

    def close_if_empty(self, end: End) -> bool:
        """Close these arrivals if no record has arrived; return whether they are closed."""
        return self._places.setdefault(0, end) is end
