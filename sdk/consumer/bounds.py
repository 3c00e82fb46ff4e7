"""The ends of a bounded read: offsets, a time, or where the partitions end when it begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp

if TYPE_CHECKING:
    from kafkawire.sdk.consumer.core import ConsumerCore

__all__ = ["Bounds"]

#: The end of a partition that is not to be read.
_NOTHING = 0


class Bounds:
    """The ends of one bounded read of the partitions that are assigned when it begins.

    Args:
        core: of the consumer.
        until: the first offset that is not read, by partition; or the time of the first record that is not, in ms since
            the epoch; None for no such end.
        stop_at_end: whether to end where the partitions end now.
    """

    def __init__(self, core: ConsumerCore, until: Mapping[TopicPartition, int] | int | None, stop_at_end: bool) -> None:
        self._core = core
        self._until = until
        self._stop_at_end = stop_at_end
        self._bounded: list[TopicPartition] = []

    async def find(self, woken: Callable[[], Awaitable[object]]) -> None:
        """Look up the ends, and bound the partitions.

        Args:
            woken: waits until something comes.

        Raises:
            BrokerError: a partition does not exist, or may not be read.
        """
        queue = self._core.queue
        while queue.announces_reads and not (self._core.assignment.assigned or queue.errors or queue.failure):
            await woken()  # the group has not assigned anything yet
        if self._core.group is None and self._core.is_subscribed:
            await self._core.topics_assigned()  # the topics may be news
        partitions = self._core.assignment.assigned
        ends: dict[TopicPartition, int] = {}
        if isinstance(self._until, int):
            found = await self._core.look_up(dict.fromkeys(partitions, self._until))
            ends = {each: place.offset for each, place in found.items() if place.offset >= 0}
        elif self._until is not None:
            ends = {each: self._until.get(each, _NOTHING) for each in partitions}
        if self._stop_at_end or isinstance(self._until, int):
            unbounded = [each for each in partitions if self._stop_at_end or each not in ends]
            last = await self._core.look_up(dict.fromkeys(unbounded, OffsetTimestamp.LATEST))
            for partition, place in last.items():
                ends[partition] = min(place.offset, ends.get(partition, place.offset))
        for partition, end in ends.items():
            reading = self._core.assignment.readings.get(partition)
            if reading is not None:
                reading.until = end
                self._bounded.append(partition)
        self._core.reader.is_bounded = True
        self._core.reader.take_back()
        self._core.queue.signal()

    def lift(self) -> None:
        """Read on without an end; what was fetched beyond it is fetched again."""
        self._core.reader.is_bounded = False
        for partition in self._bounded:
            reading = self._core.assignment.readings.get(partition)
            if reading is None or reading.until is None:
                continue
            position, until, reading.until = reading.position, reading.until, None
            if position is not None and position.offset >= until and self._core.queue.failure is None:
                self._core.assignment.seek(partition, position)
        self._core.reader.take_back()
