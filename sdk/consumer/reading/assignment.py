"""A consumer's partitions, and how many of each one's records have been handed out so far.

`Assignment` is a group machine's interface to a consumer: it assigns and withholds partitions, and returns what to
commit. The reading side reads, seeks and pauses; every change is passed on to the I/O side, which fetches. The two can
run on separate threads, and a signal handler can interrupt anywhere, so there is no lock
(docs/decisions/0035-no-locks.md): all state that a seek changes is held in one object, which is replaced in one step,
and the I/O side reads the current object when its turn comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from typing import Protocol

from kafkawire.sdk.consumer.fetching.queue import FetchQueue
from kafkawire.sdk.consumer.position import Place, Position
from kafkawire.sdk.consumer.reading.engine import Handout
from kafkawire.sdk.consumer.reading.unfinished_records import UnfinishedRecords
from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition

__all__ = ["Assignment", "Fetching", "Reading"]

#: Shared by all partitions: a partition that was revoked and reassigned must not accept data fetched for it earlier.
_epochs = count(1)


class Fetching(Protocol):
    """The I/O side as seen by the assignment; the methods are called on that side."""

    def assign(self, epochs: Mapping[TopicPartition, tuple[int, Place]], now_ms: int) -> None:
        """Fetch exactly these partitions; partitions whose epoch is known continue."""
        ...

    def seek(self, partition: TopicPartition, epoch: int, place: Place, now_ms: int) -> None:
        """Fetch a partition from another place."""
        ...

    def pause(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Stop fetching these partitions, because the application has paused them or the group withholds them."""
        ...

    def resume(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Fetch these partitions again."""
        ...

    def halt(self, partition: TopicPartition, now_ms: int) -> None:
        """Stop fetching a partition until the next seek, because an error is raised for it."""
        ...


class _Epoch:
    """The state of a partition since its last seek; the attributes are those of `Reading`."""

    __slots__ = ("done", "error", "handout", "number", "place", "start")

    def __init__(
        self, place: Place, start: Position | None, done: Position | None, error: KafkaWireError | None = None
    ) -> None:
        self.number = next(_epochs)
        self.place = place
        self.start = start
        self.done = done
        self.handout: Handout | None = None
        self.error = error


class Reading:
    """How many of one partition's records have been handed out so far.

    Attributes:
        partition: the partition.
        unfinished: the records handed out but not finished, if the application finishes them; None if the next read
            does.
        committed: the last offset committed by this consumer; -1 if none.
        paused: whether the application has paused the partition.
        withheld: whether the group withholds the partition, because it is about to be revoked or its assignment has not
            been announced yet.
        until: the offset at which a bounded read ends; None for no end.
        end_offset: the first offset that was not readable at the last fetch; -1 if unknown.
    """

    __slots__ = ("_epoch", "committed", "end_offset", "partition", "paused", "unfinished", "until", "withheld")

    def __init__(self, partition: TopicPartition, place: Place = None, *, auto_finish: bool = True) -> None:
        self.partition = partition
        self.unfinished = None if auto_finish else UnfinishedRecords(partition)
        self.paused = self.withheld = False
        self.committed = self.end_offset = -1
        self.until: int | None = None
        self.begin(place)

    def begin(self, place: Place, done: Position | None = None) -> None:
        """Restart in a new epoch; everything before the place is finished unless `done` says otherwise."""
        start = place if isinstance(place, Position) else None
        self._epoch = _Epoch(place, start, done or start)

    def halt(self, error: KafkaWireError) -> None:
        """Stop at the current position, in a new epoch, because of an error."""
        start = self.position
        self._epoch = _Epoch(self.place, start, start, error.again().with_traceback(None))

    def located(self, epoch: int, position: Position) -> bool:
        """Accept a position looked up in an epoch; return whether that epoch is current and had none before."""
        current = self._epoch
        if current.number != epoch or current.start is not None:
            return False
        current.start = current.done = position
        return True

    @property
    def epoch(self) -> int:
        """A number that changes with each seek; data fetched in an earlier epoch is dropped."""
        return self._epoch.number

    @property
    def origin(self) -> tuple[int, Place]:
        """The epoch and its start."""
        current = self._epoch
        return current.number, current.place

    @property
    def place(self) -> Place:
        """The place where this epoch began."""
        return self._epoch.place

    @property
    def start(self) -> Position | None:
        """The position before `handout` or, without a handout, the next one to hand out; None until it is looked up."""
        return self._epoch.start

    @start.setter
    def start(self, start: Position | None) -> None:
        self._epoch.start = start

    @property
    def done(self) -> Position | None:
        """The position before which everything is finished, apart from `handout`."""
        return self._epoch.done

    @done.setter
    def done(self, done: Position | None) -> None:
        self._epoch.done = done

    @property
    def handout(self) -> Handout | None:
        """The records being handed out; None if there are none."""
        return self._epoch.handout

    @handout.setter
    def handout(self, handout: Handout | None) -> None:
        self._epoch.handout = handout

    @property
    def halted(self) -> bool:
        """Whether an error has stopped the partition until a seek or `resume`."""
        return self._epoch.error is not None

    @property
    def error(self) -> KafkaWireError | None:
        """The error that has stopped the partition; None if none has."""
        return self._epoch.error

    @property
    def position(self) -> Position | None:
        """The position of the next record to hand out; None until it is looked up."""
        handout = self.handout
        return self.start if handout is None or self.start is None else handout.position(self.start)

    @property
    def finished(self) -> Position | None:
        """The position before which everything is finished, either by later reads or by the application's calls."""
        unfinished = self.unfinished
        if unfinished is not None:
            position, first = (
                self.position,
                unfinished.first,
            )  # in this order, because more may be handed out in between
            return position if first is None or position is None else min(first, position)
        handout = self.handout
        return self.done if handout is None or self.done is None else handout.finished(self.done)

    @property
    def is_held(self) -> bool:
        """Whether the partition's records must not be handed out at present."""
        return self.paused or self.withheld or self.halted or (self.until is not None and self.is_at_end)

    @property
    def is_at_end(self) -> bool:
        """Whether a bounded read has reached its end in this partition."""
        return self.until is not None and self.start is not None and self.start.offset >= self.until

    def leave(self) -> None:
        """Detach the handout; its finished records stay finished."""
        handout = self.handout
        if handout is not None and self.start is not None and self.done is not None:
            self.done, self.start = handout.finished(self.done), handout.position(self.start)
            self.handout = None

    def settle(self) -> None:
        """Mark all records handed out so far as finished."""
        handout = self.handout
        if handout is not None:
            handout.settle()
            if handout.left:
                return
            self.leave()
        self.done = self.start


class Assignment:
    """The partitions of one consumer.

    Args:
        fetching: the I/O side.
        queue: the fetched batches.
        run: runs functions on the I/O side, in the order given.
        clock_ms: returns the machines' time.
        auto_finish: whether a record is finished when the next one is requested, rather than by the application.

    Attributes:
        clock_ms: as given.
        readings: the reading of each partition; each assignment replaces the whole mapping.
        on_pause: called after partitions are paused; set by the reader.
        handed_out: returns the number of records handed out so far; set by the reader.
        on_commit: called with committed offsets; set by the client.
    """

    def __init__(
        self,
        fetching: Fetching,
        queue: FetchQueue,
        run: Callable[[Callable[[int], None]], None],
        clock_ms: Callable[[], int],
        *,
        auto_finish: bool = True,
    ) -> None:
        self.clock_ms = clock_ms
        self._auto_finish = auto_finish
        self._fetching = fetching
        self._queue = queue
        self._run = run
        self._seen = 0
        self._seen_ms: int | None = None
        self.readings: dict[TopicPartition, Reading] = {}
        self.on_pause: Callable[[], None] = lambda: None
        self.handed_out: Callable[[], int] = lambda: 0
        self.on_commit: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], None] = lambda offsets: None

    # Called by both sides.

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        """The currently assigned partitions."""
        return frozenset(self.readings)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that the application has paused."""
        return frozenset(partition for partition, reading in self.readings.items() if reading.paused)

    def __getitem__(self, partition: TopicPartition) -> Reading:
        reading = self.readings.get(partition)
        if reading is None:
            raise LocalProtocolError(f"partition {partition} is not assigned to this consumer")
        return reading

    def assign(
        self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, Position], place: Place = None
    ) -> None:
        """Read exactly these partitions; those already assigned keep their positions, and withheld ones continue.

        Args:
            partitions: the new assignment; a mapping gives the start of each partition.
            place: where to start new partitions that are not in the mapping.
        """
        begins = partitions if isinstance(partitions, Mapping) else {}
        former = self.readings
        chosen = {
            each: former.get(each) or Reading(each, begins.get(each, place), auto_finish=self._auto_finish)
            for each in sorted(partitions)
        }
        for partition in former.keys() - chosen.keys():
            self._queue.forget(partition)
            self._withhold(former[partition])
        for reading in chosen.values():
            if reading.withheld:  # hand out its records again, from its last position or the target of a later seek
                reading.withheld = False
                self._queue.forget(reading.partition)
                reading.begin(reading.place if reading.position is None else reading.position)
        self.readings = chosen
        self._run(self._fetch)
        for partition in begins.keys() & former.keys():
            self.seek(partition, begins[partition])
        self._queue.signal()

    # The group's side.

    def withhold(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop handing out records of these partitions until `assign` names them again."""
        withheld = [each for each in partitions if each in self.readings]
        for partition in withheld:
            self._withhold(self.readings[partition])
        self._run(partial(self._pause, withheld))

    def to_commit(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the finished but uncommitted positions of the given partitions, or of all assigned ones."""
        readings = self.readings
        found = {}
        for partition in readings if partitions is None else partitions:
            reading = readings.get(partition)
            finished = None if reading is None else reading.finished
            if reading is not None and finished is not None and finished.offset != reading.committed:
                found[partition] = finished.to_commit()
        return found

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Record committed offsets."""
        for partition, offset in offsets.items():
            reading = self.readings.get(partition)
            if reading is not None:
                reading.committed = offset.offset
        self.on_commit(offsets)

    def report(self, error: KafkaWireError) -> None:
        """Make the next read raise an error, after which reading continues."""
        self._queue.report(error)

    def is_unread(self, error: KafkaWireError) -> bool:
        """Return whether a reported error is still waiting to be raised by a read."""
        return error in list(self._queue.errors)

    @property
    def last_handed_out_ms(self) -> int | None:
        """When the application was last known to receive a record; None while a read is waiting.

        The clock is read when this is accessed, not once per record.
        """
        if self._queue.is_awaited:
            self._seen_ms = None
            return None
        seen = self.handed_out()
        if self._seen_ms is None or seen != self._seen:
            self._seen, self._seen_ms = seen, self.clock_ms()
        return self._seen_ms

    # The I/O side.

    def located(self, partition: TopicPartition, epoch: int, position: Position) -> bool:
        """Accept a position that was looked up; return whether the partition had none before."""
        reading = self.readings.get(partition)
        if reading is None or not reading.located(epoch, position):
            return False
        self._queue.signal()
        return True

    def observed(self, partition: TopicPartition, epoch: int, end_offset: int) -> None:
        """Record the first offset that is not readable yet."""
        reading = self.readings.get(partition)
        if reading is not None and reading.epoch == epoch:
            reading.end_offset = end_offset

    def renewed(self, partition: TopicPartition, epoch: int, place: Place) -> None:
        """Restart at a place, because the topic was replaced by another one with the same name."""
        reading = self.readings.get(partition)
        if reading is not None and reading.epoch == epoch:
            reading.committed = -1
            self._move(reading, place)

    # The reading side.

    def seek(self, partition: TopicPartition, place: Place) -> None:
        """Continue from another place; data fetched earlier is dropped.

        Raises:
            LocalProtocolError: the partition is not assigned.
        """
        self._move(self[partition], place)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop handing out records of these partitions until they are resumed.

        Raises:
            LocalProtocolError: a partition is not assigned.
        """
        chosen = [self[partition] for partition in partitions]
        for reading in chosen:
            reading.paused = True
        self.on_pause()
        paused = [reading.partition for reading in chosen]
        self._run(partial(self._pause, paused))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resume handing out records of paused partitions, and try again to read those that an error has stopped.

        An error that no read has raised yet is dropped, unless its partition was paused: an application that pauses and
        resumes around each batch might never learn of it.

        Raises:
            LocalProtocolError: a partition is not assigned.
        """
        chosen = [self[partition] for partition in partitions]
        for reading in chosen:
            was_paused, reading.paused = reading.paused, False
            if reading.halted or (not was_paused and self._queue.has_error(reading.partition, reading.epoch)):
                position = reading.position
                self._restart(reading, reading.place if position is None else position, reading.finished)
            self._queue.unpark(reading.partition)
        self._run(partial(self._fetching.resume, [reading.partition for reading in chosen]))

    def halt(self, reading: Reading, error: KafkaWireError) -> None:
        """Stop handing out records of a partition after an error, until a seek or `resume`."""
        self._queue.forget(reading.partition)
        reading.halt(error)
        self._run(partial(self._fetching.halt, reading.partition))

    def finish(self, partition: TopicPartition, start_offset: int, end_offset: int | None = None) -> None:
        """Mark a record, or a whole batch up to `end_offset`, as finished, unless its partition was given up.

        Raises:
            LocalProtocolError: the record was handed out in a batch, or the next read finishes it anyway.
        """
        reading = self.readings.get(partition)
        if self._auto_finish:
            reason = "requires enable_auto_finish=False; otherwise the next read finishes the records"
            raise LocalProtocolError(f"finish: {reason}")
        if reading is None or reading.unfinished is None:
            return
        if end_offset is None:
            reading.unfinished.finish(start_offset)
        else:
            reading.unfinished.finish_batch(start_offset, end_offset)

    def skip(self, partition: TopicPartition, offset: int) -> None:
        """Continue after the record at which an error stopped its partition, unless the position has been moved.

        Earlier records stay unfinished until the application finishes them.
        """
        reading = self.readings.get(partition)
        start = None if reading is None else reading.start
        if reading is not None and start is not None and reading.halted and start.offset <= offset:
            self._restart(reading, Position(offset + 1))  # its epoch may be later than that of `start`
            if reading.unfinished is not None:
                reading.unfinished.forget(offset)

    def fetch_again(self, reading: Reading, position: Position | None = None) -> None:
        """Drop data that was fetched but not handed out and, at or after a given position, even handed-out data."""
        finished, position = reading.finished, position or reading.position
        if position is not None:
            self._restart(reading, position, finished)

    def _move(self, reading: Reading, place: Place) -> None:
        """Continue from another place; records handed out earlier are forgotten."""
        if reading.unfinished is not None:
            reading.unfinished.forget()
        self._restart(reading, place)

    def _restart(self, reading: Reading, place: Place, done: Position | None = None) -> None:
        """Continue from a place in a new epoch; everything before it is finished unless `done` says otherwise."""
        self._cut(reading)
        reading.begin(place, done)
        self._queue.forget(reading.partition)
        self._run(partial(self._sought, reading.partition))

    def _fetch(self, now_ms: int) -> None:
        """Make the I/O side fetch the assigned partitions."""
        readings = self.readings
        self._fetching.assign({each: reading.origin for each, reading in readings.items()}, now_ms)
        self._pause(readings, now_ms)

    def _pause(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Make the I/O side stop fetching those of the partitions that are now paused or withheld."""
        chosen = [self.readings.get(partition) for partition in partitions]
        held = [reading.partition for reading in chosen if reading is not None and (reading.paused or reading.withheld)]
        if held:
            self._fetching.pause(held, now_ms)

    def _sought(self, partition: TopicPartition, now_ms: int) -> None:
        """Make the I/O side fetch a partition from the target of its last seek."""
        reading = self.readings.get(partition)
        if reading is not None:
            self._fetching.seek(partition, *reading.origin, now_ms)

    def _withhold(self, reading: Reading) -> None:
        """Stop handing out records of a partition."""
        reading.withheld = True
        self._cut(reading)

    def _cut(self, reading: Reading) -> None:
        """Cut the current handout so that no more of its records are handed out."""
        handout = reading.handout
        if handout is not None:
            handout.cut()
