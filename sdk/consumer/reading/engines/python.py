"""Hand out the records of one batch to the application, in Python; `native.pyx` does the same in C.

A record is handed out when it is taken, and finished when the next one is requested. Handing out a record merely moves
an index, from which positions are computed on request.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.records import Record
from kafkawire.sdk.records.type_variables import Key, Value
from kafkawire.sdk.transport.waiting import FAIR_MS

__all__ = ["Handout", "RecordIterator", "RecordStream"]


class Handout:
    """The records being handed out.

    Args:
        records: the records of one batch, in order.
        end: the position once all records have been handed out.
        leader_epoch: the leader epoch of the batch.

    Attributes:
        index: the number of records handed out.
    """

    __slots__ = ("_done", "_end", "_leader_epoch", "_records", "index")

    def __init__(self, records: list[Record], end: Position, leader_epoch: int) -> None:
        self._records = records
        self._end = end
        self._leader_epoch = leader_epoch
        self._done = 0
        self.index = 0

    @property
    def left(self) -> int:
        """The number of records not handed out yet."""
        return len(self._records) - self.index

    def take(self) -> Record[Any, Any]:
        """Hand out the next record; the one before it is finished.

        Raises:
            IndexError: no record is left.
        """
        record = self._records[self.index]
        self._done = self.index
        self.index += 1
        return record

    def take_many(self, limit: int) -> list[Record[Any, Any]]:
        """Hand out up to `limit` records, without finishing any of them."""
        records = self._records[self.index : self.index + limit]
        self.index += len(records)
        return records

    def settle(self) -> None:
        """Mark all records handed out as finished."""
        self._done = self.index

    def cut(self) -> None:
        """Stop handing out records."""
        if self.left:
            records = self._records[: self.index]
            self._end = self._after(records, self.index)
            self._records = records

    def position(self, start: Position) -> Position:
        """Return the position, which is `start` if nothing was handed out."""
        if not self.index:
            return start
        return self._end if not self.left else self._after(self._records, self.index)

    def finished(self, start: Position) -> Position:
        """Return the position before which everything is finished, which is `start` if nothing is."""
        if not self._done:
            return start
        return self._end if self._done == len(self._records) else self._after(self._records, self._done)

    def _after(self, records: list[Record], count: int) -> Position:
        return Position(records[count - 1].offset + 1, self._leader_epoch) if count else self._end


class RecordStream(Generic[Key, Value]):
    """The asynchronous iterator of records: it takes available ones first, then those that `wait` returns.

    For up to `FAIR_MS`, available records are taken without waiting; then `wait` can give the event loop a turn.

    Args:
        wait: waits for the next record and returns it.

    Attributes:
        handout: supplies the next record while it has any.
    """

    def __init__(self, wait: Callable[[], Coroutine[Any, Any, Record[Key, Value]]]) -> None:
        self._wait = wait
        self._due_ms = 0
        self.handout: Handout | None = None

    def __aiter__(self) -> RecordStream[Key, Value]:
        return self

    async def __anext__(self) -> Record[Key, Value]:
        handout, now_ms = self.handout, monotonic_ms()
        if handout is not None and handout.left and now_ms < self._due_ms:
            return handout.take()
        self._due_ms = now_ms + FAIR_MS
        return await self._wait()


class RecordIterator(Generic[Key, Value]):
    """The blocking iterator of records: it takes available ones first, then those that arrive during `wait`.

    Args:
        wait: blocks until the handout has a record; returns False if none will ever arrive.

    Attributes:
        handout: supplies the next record while it has any.
    """

    def __init__(self, wait: Callable[[], bool]) -> None:
        self._wait = wait
        self.handout: Handout | None = None

    def __iter__(self) -> RecordIterator[Key, Value]:
        return self

    def __next__(self) -> Record[Key, Value]:
        while self.handout is None or not self.handout.left:
            if not self._wait():
                raise StopIteration
        return self.handout.take()
