"""Which records of a partition are not finished, for programs that finish them in any order.

Everything before the first unfinished record may be committed. Offsets have holes (compaction, control records), so
what counts are the records that were handed out. Records are finished from any thread; the I/O side asks what to
commit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import RLock

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.errors import LocalProtocolError

__all__ = ["MAX_UNFINISHED", "Unfinished"]

#: Unfinished records of one partition, and batches that were handed out whole: with so many, one of them is stuck, and
#: after a restart all would come again.
MAX_UNFINISHED = 100_000


class Unfinished:
    """The records of one partition from the first unfinished one on.

    Attributes:
        first: the position before the first unfinished one; None if all that were handed out are finished.
    """

    __slots__ = ("_batches", "_lock", "_partition", "_positions", "first")

    def __init__(self, partition: TopicPartition) -> None:
        self._partition = partition
        self._lock = RLock()  # a signal handler may have interrupted this thread under it
        #: By offset, in order: the position before it, which is behind the record before it. In a hole between the two
        #: another epoch may have begun, so that the epoch would not fit the offset itself.
        self._positions: OrderedDict[int, Position] = OrderedDict()
        #: The ends of batches that were handed out whole, by the offset that stands for them above.
        self._batches: dict[int, int] = {}
        self.first: Position | None = None

    def __len__(self) -> int:
        return len(self._positions)

    def check_room(self) -> None:
        """See that more can be handed out.

        Raises:
            LocalProtocolError: `MAX_UNFINISHED` records wait.
        """
        first = self.first
        if first is not None and len(self._positions) >= MAX_UNFINISHED:
            raise LocalProtocolError(
                f"{self._partition}: {len(self._positions)} records are not finished, from offset {first.offset} on;"
                f" {MAX_UNFINISHED} is the limit"
            )

    def began(self, start: Position, offsets: Iterable[int], leader_epoch: int) -> None:
        """Note that records are about to be handed out, one by one; what was noted from there on comes again.

        Args:
            start: the position before them.
            offsets: theirs, in order.
            leader_epoch: of their batch.
        """
        with self._lock:
            self._drop_from(start.offset)
            position = start
            for offset in offsets:
                self._positions[offset] = position
                position = Position(offset + 1, leader_epoch)
            self._look()

    def began_batch(self, start: Position, end_offset: int) -> None:
        """Note that a batch is about to be handed out whole."""
        with self._lock:
            self._drop_from(start.offset)
            self._batches[start.offset] = end_offset
            self._positions[start.offset] = start
            self._look()

    def finish(self, offset: int) -> None:
        """Note that a record is finished; one that was not handed out, or is finished already, changes nothing.

        Raises:
            LocalProtocolError: it was handed out in a batch.
        """
        with self._lock:
            for start, end in self._batches.items():
                if start <= offset < end:
                    raise LocalProtocolError(
                        f"record {offset} of {self._partition} was handed out in a batch: finish the batch"
                    )
            self._finish(offset)

    def finish_batch(self, start_offset: int, end_offset: int) -> None:
        """Note that a batch is finished, or each record of it, if they were handed out one by one."""
        with self._lock:
            if self._batches.pop(start_offset, None) is not None:
                self._finish(start_offset)
                return
            for offset in [each for each in self._positions if start_offset <= each < end_offset]:
                self._finish(offset)

    def forget(self, offset: int = 0) -> None:
        """Forget everything from an offset on: the position was moved."""
        with self._lock:
            self._drop_from(offset)
            self._look()

    def _finish(self, offset: int) -> None:
        if self._positions.pop(offset, None) is not None:
            self._look()

    def _drop_from(self, offset: int) -> None:
        while self._positions and next(reversed(self._positions)) >= offset:
            last, _ = self._positions.popitem()
            self._batches.pop(last, None)

    def _look(self) -> None:
        self.first = next(iter(self._positions.values()), None)
