"""The partitions of a consumer and what the application was handed of each.

`Assignment` is what a group's machine sees of a consumer: it assigns and withholds partitions and asks what to commit.
The user's side reads, seeks and pauses; every change is passed on to the I/O side, which fetches. The two may be two
threads, and a signal handler may come in between anywhere, so there is no lock (docs/decisions/0035-no-locks.md): what
changes with a seek is one object, replaced in one step, and the I/O side looks at what is there when its turn comes.
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

#: Shared by all partitions: one that was revoked and assigned again must not accept what was fetched for it before.
_epochs = count(1)


class Fetching(Protocol):
    """What the I/O side is told; called there."""

    def assign(self, epochs: Mapping[TopicPartition, tuple[int, Place]], now_ms: int) -> None:
        """Fetch exactly these partitions; those whose epoch is known go on."""
        ...

    def seek(self, partition: TopicPartition, epoch: int, place: Place, now_ms: int) -> None:
        """Fetch a partition from another place."""
        ...

    def pause(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Fetch nothing more of these partitions: the application has paused them, or the group withholds them."""
        ...

    def resume(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Fetch these partitions again."""
        ...

    def halt(self, partition: TopicPartition, now_ms: int) -> None:
        """Fetch nothing more of a partition until it is sought: an error is raised for it."""
        ...


class _Epoch:
    """What was handed out of a partition since it was sought; attributes as those of `Reading`."""

    __slots__ = ("done", "halted", "handout", "number", "place", "start")

    def __init__(self, place: Place, start: Position | None, done: Position | None, *, halted: bool) -> None:
        self.number = next(_epochs)
        self.place = place
        self.start = start
        self.done = done
        self.handout: Handout | None = None
        self.halted = halted


class Reading:
    """What the application was handed of one partition.

    Attributes:
        partition: which one.
        unfinished: what was handed out and is not finished, if the application says what is; None if the next read
            finishes it.
        committed: the last offset committed from here, -1 if none.
        paused: by the application.
        withheld: by the group: about to be revoked, or assigned and the application was not told yet.
        until: where a bounded read ends; None for no end.
        end_offset: the first offset that was not readable at the last fetch, -1 if not known.
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
        """Begin anew, in a new epoch; what is before the place is finished unless `done` says otherwise."""
        start = place if isinstance(place, Position) else None
        self._epoch = _Epoch(place, start, done or start, halted=False)

    def halt(self) -> None:
        """Stop where it is, in a new epoch."""
        start = self.position
        self._epoch = _Epoch(self.place, start, start, halted=True)

    def located(self, epoch: int, position: Position) -> bool:
        """Take the position that was looked up in an epoch; return whether that goes on and had none."""
        current = self._epoch
        if current.number != epoch or current.start is not None:
            return False
        current.start = current.done = position
        return True

    @property
    def epoch(self) -> int:
        """Changes with each seek; what was fetched in an earlier epoch is dropped."""
        return self._epoch.number

    @property
    def origin(self) -> tuple[int, Place]:
        """The epoch, and where it began."""
        current = self._epoch
        return current.number, current.place

    @property
    def place(self) -> Place:
        """Where it began in this epoch."""
        return self._epoch.place

    @property
    def start(self) -> Position | None:
        """The position before `handout`, or without one the next to hand out; None until it was looked up."""
        return self._epoch.start

    @start.setter
    def start(self, start: Position | None) -> None:
        self._epoch.start = start

    @property
    def done(self) -> Position | None:
        """Everything before it is finished, `handout` aside."""
        return self._epoch.done

    @done.setter
    def done(self, done: Position | None) -> None:
        self._epoch.done = done

    @property
    def handout(self) -> Handout | None:
        """What is being handed out of it, None if nothing is."""
        return self._epoch.handout

    @handout.setter
    def handout(self, handout: Handout | None) -> None:
        self._epoch.handout = handout

    @property
    def halted(self) -> bool:
        """By an error that was raised for it, until a seek or `resume`."""
        return self._epoch.halted

    @property
    def position(self) -> Position | None:
        """The next record to hand out; None until it was looked up."""
        handout = self.handout
        return self.start if handout is None or self.start is None else handout.position(self.start)

    @property
    def finished(self) -> Position | None:
        """Everything before it is finished: the application asked for the next record, or said so."""
        unfinished = self.unfinished
        if unfinished is not None:
            position, first = self.position, unfinished.first  # in this order: more may be handed out in between
            return position if first is None or position is None else min(first, position)
        handout = self.handout
        return self.done if handout is None or self.done is None else handout.finished(self.done)

    @property
    def is_held(self) -> bool:
        """Whether nothing of it may be handed out now."""
        return self.paused or self.withheld or self.halted or (self.until is not None and self.is_at_end)

    @property
    def is_at_end(self) -> bool:
        """Whether a bounded read has reached its end here."""
        return self.until is not None and self.start is not None and self.start.offset >= self.until

    def leave(self) -> None:
        """Detach the handout; what was finished of it stays finished."""
        handout = self.handout
        if handout is not None and self.start is not None and self.done is not None:
            self.done, self.start = handout.finished(self.done), handout.position(self.start)
            self.handout = None

    def settle(self) -> None:
        """Count everything that was handed out as finished."""
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
        queue: of fetched batches.
        run: has something done on the I/O side, in order.
        clock_ms: returns the time of the machines.
        auto_finish: whether a record is finished when the next one is asked for; otherwise the application says so.

    Attributes:
        clock_ms: as given.
        readings: by partition; replaced as a whole by each assignment.
        on_pause: called when partitions were paused; set by the reader.
        handed_out: returns how many records were handed out so far; set by the reader.
        on_commit: called with offsets that were committed; set by the face.
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
        """The partitions assigned now."""
        return frozenset(self.readings)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """Those that the application has paused."""
        return frozenset(partition for partition, reading in self.readings.items() if reading.paused)

    def __getitem__(self, partition: TopicPartition) -> Reading:
        reading = self.readings.get(partition)
        if reading is None:
            raise LocalProtocolError(f"partition {partition} is not assigned to this consumer")
        return reading

    def assign(
        self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, Position], place: Place = None
    ) -> None:
        """Read exactly these partitions; those already assigned keep their positions, withheld ones go on.

        Args:
            partitions: replace those assigned before; a mapping says where each of them begins.
            place: where new ones begin of which it is not said.
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
            if reading.withheld:  # hand it out again, from where it was or was sought meanwhile
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
        """Hand out nothing more of these partitions, until `assign` names them again."""
        withheld = [each for each in partitions if each in self.readings]
        for partition in withheld:
            self._withhold(self.readings[partition])
        self._run(partial(self._pause, withheld))

    def to_commit(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what is finished and not committed yet; None for all partitions."""
        readings = self.readings
        found = {}
        for partition in readings if partitions is None else partitions:
            reading = readings.get(partition)
            finished = None if reading is None else reading.finished
            if reading is not None and finished is not None and finished.offset != reading.committed:
                found[partition] = finished.to_commit()
        return found

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Take note of what was committed."""
        for partition, offset in offsets.items():
            reading = self.readings.get(partition)
            if reading is not None:
                reading.committed = offset.offset
        self.on_commit(offsets)

    def report(self, error: KafkaWireError) -> None:
        """Have the next read raise an error, and reading go on."""
        self._queue.report(error)

    def is_unread(self, error: KafkaWireError) -> bool:
        """Return whether no read has raised a reported error yet."""
        return error in list(self._queue.errors)

    @property
    def last_handed_out_ms(self) -> int | None:
        """When the application was last seen to get a record; None while a read is waiting.

        It is seen when somebody looks: no clock is read for each record.
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
        """Take the position that was looked up; return whether the partition had none."""
        reading = self.readings.get(partition)
        if reading is None or not reading.located(epoch, position):
            return False
        self._queue.signal()
        return True

    def observed(self, partition: TopicPartition, epoch: int, end_offset: int) -> None:
        """Take the first offset that is not readable yet."""
        reading = self.readings.get(partition)
        if reading is not None and reading.epoch == epoch:
            reading.end_offset = end_offset

    def renewed(self, partition: TopicPartition, epoch: int, place: Place) -> None:
        """Begin anew at a place: the topic is another one now, of the same name."""
        reading = self.readings.get(partition)
        if reading is not None and reading.epoch == epoch:
            reading.committed = -1
            self._move(reading, place)

    # The user's side.

    def seek(self, partition: TopicPartition, place: Place) -> None:
        """Continue from another place; what was fetched before is dropped.

        Raises:
            LocalProtocolError: the partition is not assigned.
        """
        self._move(self[partition], place)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these partitions until they are resumed.

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
        """Hand out paused partitions again; try again to read those that an error has halted.

        Raises:
            LocalProtocolError: a partition is not assigned.
        """
        chosen = [self[partition] for partition in partitions]
        for reading in chosen:
            reading.paused = False
            if reading.halted:
                self._restart(reading, reading.place if reading.start is None else reading.start)
            self._queue.unpark(reading.partition)
        self._run(partial(self._fetching.resume, [reading.partition for reading in chosen]))

    def halt(self, reading: Reading) -> None:
        """Hand out nothing more of a partition because of an error, until it is sought or resumed."""
        self._queue.forget(reading.partition)
        reading.halt()
        self._run(partial(self._fetching.halt, reading.partition))

    def finish(self, partition: TopicPartition, start_offset: int, end_offset: int | None = None) -> None:
        """Count a record, or a whole batch up to `end_offset`, as finished; nothing if its partition was given up.

        Raises:
            LocalProtocolError: the record was handed out in a batch, or the next read finishes it anyway.
        """
        reading = self.readings.get(partition)
        if self._auto_finish:
            raise LocalProtocolError("finish: set enable_auto_finish=False; otherwise the next read finishes records")
        if reading is None or reading.unfinished is None:
            return
        if end_offset is None:
            reading.unfinished.finish(start_offset)
        else:
            reading.unfinished.finish_batch(start_offset, end_offset)

    def skip(self, partition: TopicPartition, offset: int) -> None:
        """Continue after a record at which an error stopped its partition, unless the partition has moved.

        Earlier records stay unfinished until the application finishes them.
        """
        reading = self.readings.get(partition)
        start = None if reading is None else reading.start
        if reading is not None and start is not None and reading.halted and start.offset <= offset:
            self._restart(reading, Position(offset + 1))  # its epoch may be a later one than that of `start`
            if reading.unfinished is not None:
                reading.unfinished.forget(offset)

    def fetch_again(self, reading: Reading, position: Position | None = None) -> None:
        """Drop what was fetched and not handed out; also what was, from a position on."""
        finished, position = reading.finished, position or reading.position
        if position is not None:
            self._restart(reading, position, finished)

    def _move(self, reading: Reading, place: Place) -> None:
        """Continue from another place; what was handed out is of no matter any more."""
        if reading.unfinished is not None:
            reading.unfinished.forget()
        self._restart(reading, place)

    def _restart(self, reading: Reading, place: Place, done: Position | None = None) -> None:
        """Continue from a place, in a new epoch; what is before it is finished unless `done` says otherwise."""
        self._cut(reading)
        reading.begin(place, done)
        self._queue.forget(reading.partition)
        self._run(partial(self._sought, reading.partition))

    def _fetch(self, now_ms: int) -> None:
        """Have the I/O side fetch what is assigned now."""
        readings = self.readings
        self._fetching.assign({each: reading.origin for each, reading in readings.items()}, now_ms)
        self._pause(readings, now_ms)

    def _pause(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Have the I/O side fetch nothing of those partitions that are paused or withheld now."""
        chosen = [self.readings.get(partition) for partition in partitions]
        held = [reading.partition for reading in chosen if reading is not None and (reading.paused or reading.withheld)]
        if held:
            self._fetching.pause(held, now_ms)

    def _sought(self, partition: TopicPartition, now_ms: int) -> None:
        """Have the I/O side fetch a partition from where it was sought last."""
        reading = self.readings.get(partition)
        if reading is not None:
            self._fetching.seek(partition, *reading.origin, now_ms)

    def _withhold(self, reading: Reading) -> None:
        """Hand out nothing more of a partition."""
        reading.withheld = True
        self._cut(reading)

    def _cut(self, reading: Reading) -> None:
        """Hand out nothing more of what is being handed out."""
        handout = reading.handout
        if handout is not None:
            handout.cut()
