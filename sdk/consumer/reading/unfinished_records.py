"""Track the unfinished records of a partition, for programs that finish them in any order.

Everything before the first unfinished record may be committed. Offsets have gaps (compaction, control records), so only
the records that were handed out are tracked. Any thread can finish records, even in a signal handler that interrupts
another call to this module; the I/O side asks what to commit. Each change is a single step in C, and the first
unfinished record is looked up on demand, so no lock is needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["MAX_UNFINISHED", "UnfinishedRecords"]

Found = TypeVar("Found")

#: The maximum number of unfinished records, and of batches handed out whole, in one partition. If there are more, one
#: of them must be stuck, and all would be read again after a restart.
MAX_UNFINISHED = 100_000


class UnfinishedRecords:
    """The records of one partition, starting with the first unfinished one."""

    __slots__ = ("_batches", "_partition", "_positions")

    def __init__(self, partition: TopicPartition) -> None:
        self._partition = partition
        #: The position directly after the previous record, keyed by the record's offset, in order. Another epoch may
        #: have begun in a gap between the two records, in which case the epoch would not match the offset itself.
        self._positions: OrderedDict[int, Position] = OrderedDict()
        #: The ends of batches handed out whole, keyed by the offset that represents them in `_positions`.
        self._batches: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def first(self) -> Position | None:
        """The position before the first unfinished record; None if all records that were handed out are finished."""
        return _undisturbed(lambda: next(iter(self._positions.values()), None))

    def check_room(self) -> None:
        """Check that more records can be handed out.

        Raises:
            LocalProtocolError: `MAX_UNFINISHED` records are unfinished.
        """
        first = self.first
        if first is not None and len(self._positions) >= MAX_UNFINISHED:
            raise LocalProtocolError(
                f"{self._partition}: {len(self._positions)} records starting at offset {first.offset} are unfinished;"
                f" the limit is {MAX_UNFINISHED}"
            )

    def began(self, start: Position, offsets: Iterable[int], leader_epoch: int) -> None:
        """Note that records are about to be handed out singly, replacing any entries at or after that position.

        Args:
            start: the position before the records.
            offsets: the records' offsets, in order.
            leader_epoch: the leader epoch of their batch.
        """
        self.forget(start.offset)
        position = start
        for offset in offsets:
            self._positions[offset] = position
            position = Position(offset + 1, leader_epoch)

    def began_batch(self, start: Position, end_offset: int) -> None:
        """Note that a batch is about to be handed out whole."""
        self.forget(start.offset)
        self._batches[start.offset] = end_offset
        self._positions[start.offset] = start

    def finish(self, offset: int) -> None:
        """Mark a record as finished; ignore a record that was not handed out or is already finished.

        Raises:
            LocalProtocolError: the record was handed out in a batch.
        """
        for start, end in list(self._batches.items()):
            if start <= offset < end:
                raise LocalProtocolError(
                    f"record {offset} of {self._partition} was handed out in a batch: finish the batch"
                )
        self._positions.pop(offset, None)

    def finish_batch(self, start_offset: int, end_offset: int) -> None:
        """Mark a batch as finished, or each of its records if they were handed out singly."""
        if self._batches.pop(start_offset, None) is not None:
            self._positions.pop(start_offset, None)
            return
        for offset in _undisturbed(lambda: list(self._positions)):
            if start_offset <= offset < end_offset:
                self._positions.pop(offset, None)

    def forget(self, offset: int = 0) -> None:
        """Forget everything at or after an offset, because the position was moved."""
        while (last := _undisturbed(lambda: next(reversed(self._positions), None))) is not None and last >= offset:
            self._positions.pop(last, None)
            self._batches.pop(last, None)


def _undisturbed(look: Callable[[], Found]) -> Found:
    """Read the positions repeatedly until no other thread interferes, and return the result."""
    while True:
        with suppress(RuntimeError, KeyError):
            return look()
