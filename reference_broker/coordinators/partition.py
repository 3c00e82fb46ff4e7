"""One partition of a coordinator: its shard, its log, and the operations that wait for either.

While it loads, operations are refused; while an append is unfinished, they wait their turn, so that a shard is always
exactly what its log says. Replies wait for the high watermark, in order, for a limited time. If the log fails, the
shard cannot take over what is in the log, or the partition is unloaded, everything that waits is answered.

Source: `CoordinatorRuntime.CoordinatorContext` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from kafkawire.reference_broker.coordinators.loading import Loading
from kafkawire.reference_broker.coordinators.records import encode
from kafkawire.reference_broker.coordinators.shard import (
    CoordinatorLog,
    Done,
    Operation,
    Result,
    Shard,
    ShardTimers,
    coordinator_error,
)
from kafkawire.reference_broker.log.preparation import NotPrepared
from kafkawire.reference_broker.timers import Timer, Timers
from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["COMMIT_TIMEOUT_MS", "CoordinatorPartition", "PartitionState", "ignore"]

S = TypeVar("S", bound=Shard)
R = TypeVar("R")

#: How long a reply waits for the high watermark: Kafka's `offsets.commit.timeout.ms`.
COMMIT_TIMEOUT_MS = 5_000

#: Most operations that wait for an unfinished append. A connection has one request in progress, so only a broker with
#: more clients than it can serve gets there.
_QUEUE_MAX = 10_000

#: Pauses before a load whose log could not be read goes on: a disk may fail once, and a coordinator is needed for as
#: long as the broker runs.
_LOAD_AGAIN_MS = (100, 500, 1_000, 5_000, 5_000)

#: Pause while an index is rebuilt.
_PREPARING_MS = 20

#: No offset is as high: who waits for it is told only if the log fails.
_NEVER_REACHED = 2**63

_log = logging.getLogger("kafkawire.broker")


class PartitionState(Enum):
    """What becomes of an operation."""

    LOADING = auto()
    ACTIVE = auto()
    CLOSED = auto()


class _Pending(NamedTuple):
    """An operation that has run: its reply leaves at `offset`, or fails at `deadline_ms`, less the clock's jumps."""

    offset: int
    deadline_ms: int
    result: Result[Any]
    done: Callable[[Any], None]


class _ShardTimer(Timer):
    """A timer that can still be cancelled while its action waits for an append to finish.

    Attributes:
        alarm: the broker's timer for it.
    """

    __slots__ = ("alarm",)
    alarm: Timer

    def cancel(self) -> None:
        super().cancel()
        self.alarm.cancel()


class CoordinatorPartition(Generic[S]):
    """A partition that is being loaded or is served.

    Args:
        name: for the log lines.
        log: where the shard's records are.
        timers: the broker's timers.
        new_shard: returns an empty shard that sets its timers in the given ones.

    Attributes:
        state: see `PartitionState`.
        shard: the state machine.
        is_appending: whether an append has no outcome yet, which may be so after `close`.
    """

    def __init__(self, name: str, log: CoordinatorLog, timers: Timers, new_shard: Callable[[ShardTimers], S]) -> None:
        self._name = name
        self._log = log
        self._timers = timers
        self._loading: Loading | None = None
        self._load_failures = 0
        self._expiry: Timer | None = None
        self._queue: deque[tuple[Operation[S, Any], Callable[[Any], None], int]] = deque()
        self._appending: _Pending | None = None
        self.is_appending = False
        #: Called when the append that is under way has an outcome, even if the partition has been closed.
        self._when_appended: list[Callable[[], None]] = []
        self._waiting: deque[_Pending] = deque()
        self._is_draining = False
        self._last_written = 0
        self._lines = LogLimit(_log)
        self.state = PartitionState.LOADING
        self.shard = new_shard(self)

    # Loading and unloading.

    def load(self, now_ms: int) -> None:
        """Begin to load; an empty partition is served at once, one whose log has failed never."""
        self._loading = Loading(self._log, self.shard)
        self._log.when_reached(_NEVER_REACHED, self._reached)
        if self._loading is not None and self._loading.is_done:
            self.load_slice(now_ms)

    def load_slice(self, now_ms: int) -> int:
        """Go on for a few milliseconds with the load, if there is one; return the pause that it needs then."""
        if self.state is not PartitionState.LOADING or self._loading is None:
            return 0
        try:
            if not self._loading.is_done:
                self._loading.step()
            if self._loading.is_done:
                self._activate(now_ms)
        except NotPrepared:
            return _PREPARING_MS
        except (BrokerError, DecodeError) as error:
            is_passing = isinstance(error, BrokerError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR
            if is_passing and self._load_failures < len(_LOAD_AGAIN_MS):
                self._load_failures += 1
                return _LOAD_AGAIN_MS[self._load_failures - 1]
            _log.error("%s cannot be loaded: %s", self._name, error)
            self.close()
        except Exception:
            # A defect, which must not leave clients waiting for the end of the load.
            _log.exception("%s cannot be loaded", self._name)
            self.close()
        return 0

    def _activate(self, now_ms: int) -> None:
        self._loading = None
        self.state = PartitionState.ACTIVE
        self._last_written = self._log.next_offset
        self.shard.loaded(now_ms)

    def close(self) -> None:
        """Stop serving; everything that waits is answered with NOT_COORDINATOR."""
        if self.state is PartitionState.CLOSED:
            return
        is_loaded = self.state is PartitionState.ACTIVE
        self.state = PartitionState.CLOSED
        self._loading = None
        if self._expiry is not None:
            self._expiry.cancel()
        error = BrokerError(ErrorCode.NOT_COORDINATOR, f"{self._name} has been unloaded")
        pending = [*self._waiting, *([] if self._appending is None else [self._appending])]
        queued = list(self._queue)
        self._waiting.clear()
        self._queue.clear()
        self._appending = None
        for entry in pending:
            self._finish(entry, error)
        for _, done, now_ms in queued:
            self._answer(done, error, now_ms)
        if is_loaded:
            self.shard.unloaded()

    def when_appended(self, done: Callable[[], None]) -> None:
        """Call `done` once the append that is under way has an outcome; now, if there is none."""
        if self.is_appending:
            self._when_appended.append(done)
        else:
            done()

    # Operations.

    def submit(self, operation: Operation[S, R], done: Done[R], now_ms: int) -> None:
        """Run an operation, now or once the append before it is finished.

        Args:
            operation: a step of the shard.
            done: called once with the reply or the error.
            now_ms: the current time.
        """
        if self.state is PartitionState.LOADING:
            done(BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self._name} is being loaded"))
        elif self.state is PartitionState.CLOSED:
            done(BrokerError(ErrorCode.NOT_COORDINATOR, f"{self._name} is not served here"))
        elif len(self._queue) >= _QUEUE_MAX:
            done(BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{_QUEUE_MAX} operations wait for {self._name}"))
        else:
            self._queue.append((operation, done, now_ms))
            self._drain()

    def _drain(self) -> None:
        if self._is_draining:
            return
        self._is_draining = True
        try:
            while self._queue and self._appending is None:
                self._run(*self._queue.popleft())
        finally:
            self._is_draining = False

    def _run(self, operation: Operation[S, R], done: Done[R], now_ms: int) -> None:
        try:
            result = operation(self.shard)
        except BrokerError as error:
            self._answer(done, error, now_ms)
            return
        except Exception as error:
            # One defect must not leave the operations behind it unanswered.
            self._lines.exception("operation", now_ms, "an operation on %s failed", self._name)
            self._answer(done, BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)), now_ms)
            return
        pending = _Pending(self._last_written, now_ms + COMMIT_TIMEOUT_MS - self.jumped_ms, result, done)
        if not result.records and result.marker is None:
            self._await_commit(pending, now_ms)
            return
        self._appending, self.is_appending = pending, True
        appended = partial(self._appended, pending, now_ms)
        try:
            self._append(result, now_ms, appended)
        except Exception as error:
            # Nor must a record that cannot be written.
            self._lines.exception("append", now_ms, "a record of %s cannot be written", self._name)
            if self._appending is pending:
                appended(BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))

    def _append(self, result: Result[Any], now_ms: int, appended: Callable[[int | BrokerError], None]) -> None:
        if result.marker is not None:
            self._log.append_marker(result.marker, now_ms, appended)
        elif result.transaction is not None:
            self._log.append([encode(record) for record in result.records], now_ms, appended, result.transaction)
        else:
            self._log.append([encode(record) for record in result.records], now_ms, appended)

    def _appended(self, pending: _Pending, now_ms: int, outcome: int | BrokerError) -> None:
        self.is_appending = False
        waiting, self._when_appended = self._when_appended, []
        for done in waiting:
            done()
        if self._appending is not pending:
            return  # the partition was closed meanwhile, which answered this
        self._appending = None
        if isinstance(outcome, BrokerError):
            self._finish(pending, coordinator_error(outcome))
        else:
            self._last_written = outcome
            # What the shard submits while it replays waits, so that replies leave in the order of their records.
            was_draining, self._is_draining = self._is_draining, True
            try:
                self._take_over(pending._replace(offset=outcome), now_ms)
            finally:
                self._is_draining = was_draining
        self._drain()

    def _take_over(self, pending: _Pending, now_ms: int) -> None:
        try:
            self._replay(pending.result, pending.offset - 1)
        except Exception:
            # A defect. The shard is not what its log says any more, and must answer nothing from what it holds. Nobody
            # loads it again before the broker starts again: what is in its log would meet the same defect.
            self._lines.exception("replay", now_ms, "%s is unloaded, it could not take over a record", self._name)
            self._waiting.append(pending)
            self.close()
        else:
            self._await_commit(pending, now_ms)

    def _replay(self, result: Result[Any], offset: int) -> None:
        if result.marker is not None:
            marker = result.marker.marker
            self.shard.end_transaction(marker.producer_id, marker.is_commit)
        producer_id = NO_PRODUCER_ID if result.transaction is None else result.transaction.producer_id
        for record in result.records:
            if not record.is_held:
                self.shard.replay(record, offset, producer_id)

    # Replies.

    def _await_commit(self, pending: _Pending, now_ms: int) -> None:
        if self._log.high_watermark >= pending.offset:
            self._reached(None)
            self._finish(pending, None)
            return
        self._waiting.append(pending)
        if self._expiry is None or not self._expiry.is_pending:
            self._expiry = self._timers.at(now_ms + COMMIT_TIMEOUT_MS, self._expire)
        self._log.when_reached(pending.offset, self._reached)

    def _reached(self, error: BrokerError | None) -> None:
        if error is not None and self.state is not PartitionState.CLOSED:
            # What the shard holds may not survive: only the log, once it is back, can say.
            _log.error("%s is unloaded, its log failed: %s", self._name, error)
            self.close()
        while self._waiting and self._waiting[0].offset <= self._log.high_watermark:
            self._finish(self._waiting.popleft(), None)

    def _expire(self, now_ms: int) -> None:
        error = BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"not committed within {COMMIT_TIMEOUT_MS} ms")
        while self._waiting and self._waiting[0].deadline_ms + self.jumped_ms <= now_ms:
            self._finish(self._waiting.popleft(), error)
        if self._waiting:
            self._expiry = self._timers.at(self._waiting[0].deadline_ms + self.jumped_ms, self._expire)

    def _finish(self, pending: _Pending, error: BrokerError | None) -> None:
        reply = pending.result.reply if error is None else error
        begun_ms = pending.deadline_ms - COMMIT_TIMEOUT_MS + self.jumped_ms
        if pending.result.committed is not None:
            try:
                pending.result.committed(error)
            except BrokerError as told:
                reply = told
            except Exception as defect:
                self._lines.exception("committed", begun_ms, "%s could not take over what was committed", self._name)
                reply = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(defect))
        self._answer(pending.done, reply, begun_ms)

    def _answer(self, done: Callable[[Any], None], reply: object, now_ms: int) -> None:
        """Reply; one who fails to take a reply gets an error instead, and holds up nobody else."""
        try:
            done(reply)
        except Exception as defect:
            self._lines.exception("reply", now_ms, "a reply of %s failed", self._name)
            if not isinstance(reply, BrokerError):
                self._answer(done, BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(defect)), now_ms)

    # Timers.

    @property
    def jumped_ms(self) -> int:
        return self._timers.jumped_ms

    def at(self, deadline_ms: int, action: Callable[[int], None]) -> Timer:
        """Set a timer of the shard; see `ShardTimers`."""

        def due(now_ms: int) -> None:
            if self.state is not PartitionState.CLOSED:
                # Not limited as requests are: without its timers a group would wait forever.
                self._queue.append((lambda shard: shard.fire(timer.fire, now_ms), ignore, now_ms))
                self._drain()

        timer = _ShardTimer(deadline_ms, action)
        timer.alarm = self._timers.at(deadline_ms, due)
        return timer


def ignore(_: object) -> None:
    """Take an outcome that nobody waits for."""
