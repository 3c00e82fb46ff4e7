"""The outcome of a batch's records, to which their deliveries refer.

The driver settles an outcome once; any thread may wait for it, and nothing here takes a lock. An outcome does not refer
to the records, so a long-lived delivery keeps no batch alive. Records that move to other batches take their waiters
with them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import copy_context
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kafkawire.sdk.client.arguments import checked_timeout_ms
from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError, RequestTimedOut
from kafkawire.sdk.protocol.values import shown
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport import fork, loop_watch
from kafkawire.sdk.transport.latch import Latch
from kafkawire.sdk.transport.promise import wake_future
from kafkawire.sdk.transport.user_code import contained
from kafkawire.sdk.transport.waiting import check_may_block, driving
from kafkawire.sdk.transport.watchers import Watchers

__all__ = ["Outcome", "RecordMetadata"]

logger = logging.getLogger("kafkawire.producer")


_NONE: Final[Mapping[int, KafkaWireError]] = MappingProxyType({})


#: The maximum number of an error's characters shown in the repr of a delivery.
_ERROR_CHARACTERS = 300


class RecordMetadata(NamedTuple):
    """Where a record is stored.

    Attributes:
        topic: the record's topic.
        partition: the record's partition.
        offset: the record's offset; -1 if the broker did not report it, as with acks=0.
        timestamp_ms: the record's timestamp, milliseconds since the epoch.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Outcome:
    """The outcome of a batch, or of a record that is not in a batch yet.

    Args:
        partition: the records' partition; its number is -1 while it is unknown.

    Attributes:
        done: whether the outcome is settled.
        error: why the records were not stored.
        record_errors: the errors of individual records that the broker named, keyed by index.
        base_offset: the offset of the first record; -1 if unknown.
        log_append_time_ms: the broker's timestamp for all records; -1 if they keep their own.
        observed: whether the application has checked the outcome.
        places: the new place of each record; None while no record has moved.
    """

    __slots__ = (
        "_generation",
        "_watchers",
        "base_offset",
        "done",
        "error",
        "log_append_time_ms",
        "observed",
        "partition",
        "places",
        "record_errors",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.done = False
        self.error: KafkaWireError | None = None
        self.record_errors: Mapping[int, KafkaWireError] = _NONE
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.observed = False
        self.places: Sequence[tuple[Outcome, int]] | None = None
        self._watchers: Watchers[tuple[int, Callable[[], object]]] = Watchers()
        self._generation = fork.generation()

    # The driver's side.

    def settle(self, base_offset: int = -1, log_append_time_ms: int = -1) -> None:
        """Settle the outcome as stored, unless it is already settled."""
        if not self.done:
            self.base_offset = base_offset
            self.log_append_time_ms = log_append_time_ms
            self._end()

    def fail(self, error: KafkaWireError, record_errors: Mapping[int, KafkaWireError] = _NONE) -> None:
        """Settle the outcome with an error, and separate errors for some records, unless it is already settled."""
        if not self.done:
            self.error, self.record_errors = error, record_errors
            self._end()

    def move(self, places: Sequence[tuple[Outcome, int]]) -> None:
        """Move the records elsewhere: record `i` becomes record `places[i][1]` of outcome `places[i][0]`."""
        self.places = places
        for index, callback in self._watchers.take():
            target, place = places[index]
            target.observed |= self.observed
            target._watch(place, callback)

    def _end(self) -> None:
        self.done = True
        raised = 0
        for _, callback in self._watchers.take():
            # One line per batch, because a callback that raises usually does so for every record.
            raised += not _told(callback, logs=not raised)
        if raised > 1:
            logger.error("delivery callbacks raised errors for %d records in this batch in total", raised)

    # The application's side: each method takes the index of a record.

    def watch(self, index: int, callback: Callable[[], object]) -> None:
        """Call `callback` once the record is settled, on the driver's thread; immediately if it is already settled."""
        self.observed = self.find(index)[0].observed = True
        self._watch(index, callback)

    def observe(
        self, index: int, timestamp_ms: int, callback: Callable[[RecordMetadata | None, KafkaWireError | None], object]
    ) -> None:
        """Call `callback` in a copy of this context once the record is settled, without marking it as observed."""
        context = copy_context()

        def settled() -> None:
            outcome, place = self.find(index)
            error = outcome._error(place)
            if error is None:
                context.run(callback, outcome._stored(place, timestamp_ms), None)
            else:
                context.run(callback, None, error)

        self._watch(index, settled)

    def _watch(self, index: int, callback: Callable[[], object]) -> None:
        added = self._watchers.add((index, callback))
        if self.places is None and not self.done:
            return  # the thread that settles the outcome or moves its records will find the watcher
        if not self._watchers.take_back(added):
            return
        if self.places is not None:
            target, place = self.places[index]
            target._watch(place, callback)
        else:
            _told(callback)

    def find(self, index: int) -> tuple[Outcome, int]:
        """Return the current outcome and index of a record."""
        outcome = self
        while outcome.places is not None:
            outcome, index = outcome.places[index]
        return outcome, index

    def described(self, index: int) -> str:
        """Describe the record's outcome, for the repr of its delivery."""
        outcome, place = self.find(index)
        topic, partition = outcome.partition
        where = f"to {shown(topic)}" if partition < 0 else f"to {shown(topic)}, partition {partition}"
        if not outcome.done:
            return f"{where}: not settled yet"
        error = outcome.record_errors.get(place, outcome.error)
        if error is not None:
            return f"{where}: failed with {type(error).__name__}: {str(error)[:_ERROR_CHARACTERS]}"
        return f"{where}: stored" + (f" at offset {outcome.base_offset + place}" if outcome.base_offset >= 0 else "")

    def is_done(self, index: int) -> bool:
        """Return whether the record is stored or has failed."""
        return self.find(index)[0].done

    def exception(self, index: int) -> KafkaWireError | None:
        """Return the error of the record; None if it is stored.

        Raises:
            LocalProtocolError: the record is not settled yet.
        """
        outcome, place = self.find(index)
        if not outcome.done:
            raise LocalProtocolError(f"the record for {outcome.partition} is not settled yet: await its delivery first")
        outcome.observed = True
        return outcome._error(place)

    def raise_error(self) -> None:
        """Raise the error of the batch, or of the first record named by the broker."""
        outcome, _ = self.find(0)
        outcome.observed = True
        if outcome.error is not None:
            raise next(iter(outcome.record_errors.values()), outcome.error).again()

    def wait(self, index: int, timestamp_ms: int) -> Generator[Any, None, RecordMetadata]:
        """Wait on the running event loop until the record is settled, and return where it is now."""
        if not self.is_done(index):
            self._check_process()
            loop = asyncio.get_running_loop()
            settled: asyncio.Future[None] = loop.create_future()
            self.watch(index, lambda: wake_future(loop, settled))
            loop_watch.look_from(loop)
            yield from settled.__await__()
        return self._metadata(index, timestamp_ms)

    def result(self, index: int, timestamp_ms: int, timeout_ms: int | None) -> RecordMetadata:
        """Block this thread until the record is settled, and return where it is now.

        Raises:
            RequestTimedOut: the record was not settled in time.
            LocalProtocolError: this thread runs a client's event loop, or the limit is not a number.
            Forked: this process is a fork of the one that is sending the record.
        """
        if not self.is_done(index):
            self._check_process()
            if timeout_ms is not None:
                timeout_ms = checked_timeout_ms(timeout_ms)
            check_may_block(driving)
            settled = Latch()
            self.watch(index, settled.set)
            if not loop_watch.wait(settled, None if timeout_ms is None else timeout_ms / 1000):
                raise RequestTimedOut(f"the record for {self.partition} was not settled within {timeout_ms} ms")
        return self._metadata(index, timestamp_ms)

    def _check_process(self) -> None:
        if self._generation != fork.generation():
            raise fork.refusal()

    def _metadata(self, index: int, timestamp_ms: int) -> RecordMetadata:
        outcome, index = self.find(index)
        outcome.observed = True
        error = outcome._error(index)
        if error is not None:
            raise error
        return outcome._stored(index, timestamp_ms)

    def _error(self, index: int) -> KafkaWireError | None:
        """Return a copy of the error of a record that has not moved; the copy can be raised."""
        error = self.record_errors.get(index, self.error)
        return None if error is None else error.again()

    def _stored(self, index: int, timestamp_ms: int) -> RecordMetadata:
        return RecordMetadata(
            *self.partition,
            self.base_offset + index if self.base_offset >= 0 else -1,
            self.log_append_time_ms if self.log_append_time_ms >= 0 else timestamp_ms,
        )


def _told(callback: Callable[[], object], *, logs: bool = True) -> bool:
    """Call the user's code without letting its errors reach a `send`, other deliveries or the driver.

    Returns:
        Whether the call succeeded.
    """
    try:
        callback()
    except BaseException as error:
        contained(error)
        if logs:
            is_other = isinstance(error, TypeError) and "positional argument" in str(error)
            hint = ": its only argument is the delivery, whose exception() returns the error" if is_other else ""
            logger.exception("a delivery callback raised%s", hint)
        return False
    return True
