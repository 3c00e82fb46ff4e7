"""Bounded reads, which stop at offsets, at a time, or where the partitions ended when the read began."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, Self

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.records import Record
from kafkawire.sdk.records.type_variables import Key, Value
from kafkawire.sdk.routing.partitions import TopicPartition

if TYPE_CHECKING:
    from kafkawire.sdk.consumer.core import ConsumerCore
    from kafkawire.sdk.consumer.reading.engine import Handout

__all__ = ["BoundedRecords", "EndOffsets"]

#: The end for a partition that must not be read.
_NOTHING = 0


class EndOffsets:
    """The ends of one bounded read, which covers the partitions that are assigned when it begins.

    The ends apply to every read by the consumer; unbounded reads wait until the bounded read has ended.

    Args:
        core: the consumer's core.
        until: the first offset not to read, keyed by partition, or the time of the first record not to read, in ms
            since the epoch; None for no such end.
        stop_at_end: whether to stop at the current ends of the partitions.

    Attributes:
        is_abandoned: whether the next read lifts the ends, unless that read is the one bounded by them.
        is_lifted: whether the ends no longer apply.
    """

    def __init__(self, core: ConsumerCore, until: Mapping[TopicPartition, int] | int | None, stop_at_end: bool) -> None:
        self._core = core
        self._until = until
        self._stop_at_end = stop_at_end
        self._bounded: list[TopicPartition] = []
        self.is_abandoned = False
        self.is_lifted = False

    async def find(self, woken: Callable[[Callable[[], bool]], Awaitable[object]]) -> None:
        """Look up the ends and apply them to the partitions.

        Args:
            woken: waits until something arrives, unless the function passed to it returns True because it has already
                arrived.

        Raises:
            BrokerError: a partition does not exist, or access to it is denied.
            LocalProtocolError: another bounded read is still running.
        """
        self._core.reader.lift_abandoned()
        if self._core.reader.bounded_read is not None:
            raise LocalProtocolError("another bounded read of this consumer is open: read it to its end, or close it")
        self._core.reader.bounded_read = self
        queue = self._core.queue

        def has_assigned() -> bool:
            return bool(self._core.assignment.assigned or queue.errors or queue.refusal or queue.failure)

        while queue.announces_reads and not has_assigned():
            await woken(has_assigned)
        if self._core.group is None and self._core.is_subscribed:
            await self._core.topics_assigned()  # the topics may be new
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
        self._core.reader.take_back()
        self._core.queue.signal()

    @property
    def are_reached(self) -> bool:
        """Whether everything before the end offsets has been handed out; always False if there are none."""
        handout, assignment = self._core.reader.handout, self._core.assignment
        if (self._until is None and not self._stop_at_end) or (handout is not None and handout.left):
            return False
        return all(reading.is_at_end for reading in assignment.readings.values() if reading.until is not None)

    def lift(self) -> None:
        """Let reads continue without an end; fetched data that was cut at an end is fetched again."""
        self.is_lifted = True
        if self._core.reader.bounded_read is not self:
            return
        self._core.reader.bounded_read = None
        for partition in self._bounded:
            reading = self._core.assignment.readings.get(partition)
            if reading is not None and reading.until is not None:
                reading.until = None
                if self._core.queue.failure is None:
                    self._core.reader.fetch_again(reading)
        self._core.queue.signal()

    def abandon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Lift the ends no later than the next read, without a lock, since garbage collection can happen anywhere."""
        self.is_abandoned = True
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(self.lift)


class BoundedRecords(Generic[Key, Value]):
    """The records up to an end, for `async for`; an error, `aclose` or dropping the object ends the read.

    Args:
        begin: looks up the ends.
        advance: waits for a record before the ends; returns None if there are no more.
    """

    def __init__(
        self, begin: Callable[[], Awaitable[EndOffsets]], advance: Callable[[EndOffsets], Awaitable[Handout | None]]
    ) -> None:
        self._begin = begin
        self._advance = advance
        self._end_offsets: EndOffsets | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record[Key, Value]:
        if self._is_over or (self._end_offsets is not None and self._end_offsets.is_lifted):
            raise StopAsyncIteration
        try:
            handout = await self._found()
            record = None if handout is None else handout.take()
        except Exception:
            await self.aclose()  # as in a generator; otherwise a stored error would keep this read alive
            raise
        except BaseException:  # cancelled: the next request continues this read, and any other read ends it
            if self._end_offsets is not None:
                self._end_offsets.is_abandoned = True
            raise
        if record is None:
            await self.aclose()
            raise StopAsyncIteration
        return record

    async def _found(self) -> Handout | None:
        if self._end_offsets is None:
            self._loop = asyncio.get_running_loop()
            self._end_offsets = await self._begin()
        self._end_offsets.is_abandoned = False
        return await self._advance(self._end_offsets)

    async def aclose(self) -> None:
        """End the read; later reads continue from here."""
        self._is_over = True
        if self._end_offsets is not None:
            self._end_offsets.lift()

    def __del__(self) -> None:
        if self._end_offsets is not None and self._loop is not None and not self._is_over:
            self._end_offsets.abandon(self._loop)
