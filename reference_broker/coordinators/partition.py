"""A coordinator's partition: its shard, its log, and the operations that wait for either.

While the partition is loading, operations are refused; while an append is unfinished, they wait their turn, so the
shard always matches its log. Replies wait for the high watermark, in order. Both waits are limited; an append that is
unfinished at the timeout takes effect if it reaches the log. If the log fails, the shard cannot replay a record, or the
partition is unloaded, all waiting operations are answered.

Source: `CoordinatorRuntime.CoordinatorContext` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kafkawire.reference_broker.coordinators.loading import Loading, NewLoading, ShardLoading
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
from kafkawire.reference_broker.storage.segments.search_preparation import NotPrepared
from kafkawire.reference_broker.work.timers import Timer, Timers
from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.states import Edges

__all__ = ["COMMIT_TIMEOUT_MS", "PARTITION_EDGES", "CoordinatorPartition", "PartitionState", "ignore"]

S = TypeVar("S", bound=Shard)
R = TypeVar("R")

#: How long a request waits for its turn, its append and the high watermark: Kafka's `offsets.commit.timeout.ms`.
COMMIT_TIMEOUT_MS = 5_000

#: Maximum number of operations waiting for an unfinished append. Each connection has one request in progress, so only
#: an overloaded broker reaches this limit.
_QUEUE_MAX = 10_000

#: Pauses before loading continues after a read error: a disk error may be temporary, and the coordinator is needed as
#: long as the broker is running.
_LOAD_AGAIN_MS = (100, 500, 1_000, 5_000, 5_000)

#: Pause while an index is rebuilt.
_PREPARING_MS = 20

#: Higher than any offset: a callback waiting for it is called only if the log fails.
_NEVER_REACHED = 2**63

_log = logging.getLogger("kafkawire.broker")


class PartitionState(Enum):
    """The loading state of a partition, which determines whether operations run."""

    #: The log is being read; operations are refused.
    LOADING = auto()
    #: Operations run, each after the previous append has an outcome.
    ACTIVE = auto()
    #: Operations are refused, since another broker may be serving the partition.
    CLOSED = auto()


#: The transitions of a partition. It is never reopened: when it is served again, a new object is loaded.
PARTITION_EDGES: Final = Edges(
    "a coordinator's partition",
    (PartitionState.LOADING,),
    {
        PartitionState.LOADING: {
            PartitionState.ACTIVE: "the whole log has been replayed",
            PartitionState.CLOSED: "unloaded, or the log cannot be read",
        },
        PartitionState.ACTIVE: {
            PartitionState.CLOSED: "unloaded, the log failed, or a record could not be replayed",
        },
    },
)


class _Queued(NamedTuple):
    """An operation that is waiting for its turn.

    Attributes:
        operation: see `submit`.
        done: see `submit`.
        now_ms: when it was submitted.
        jumped_ms: the sum of all clock jumps before then (see `Timers`).
        is_request: whether a client is waiting for the reply, for a limited time; operations from the shard's timers
            wait without a limit.
    """

    operation: Operation[Any, Any]
    done: Callable[[Any], None]
    now_ms: int
    jumped_ms: int
    is_request: bool


class _Pending(NamedTuple):
    """An operation that has run; its reply is sent once `offset` is committed. For the other fields, see `_Queued`."""

    offset: int
    result: Result[Any]
    done: Callable[[Any], None]
    now_ms: int
    jumped_ms: int


class _ShardTimer(Timer):
    """A timer that can still be cancelled while its action waits for an append to finish.

    Args:
        deadline_ms: when it is due.
        action: called when the timer fires.
        pending: contains the timer until it is due or cancelled.

    Attributes:
        alarm: the broker's timer behind it.
    """

    __slots__ = ("_pending", "alarm")

    def __init__(self, deadline_ms: int, action: Callable[[int], None], pending: set[_ShardTimer]) -> None:
        super().__init__(deadline_ms, action)
        self.alarm: Timer | None = None
        self._pending = pending
        pending.add(self)

    def cancel(self) -> None:
        super().cancel()
        self._pending.discard(self)
        if self.alarm is not None:
            self.alarm.cancel()


class CoordinatorPartition(Generic[S]):
    """A partition that is being loaded or served.

    Args:
        name: for log lines.
        log: holds the shard's records.
        timers: the broker's timers.
        new_shard: returns an empty shard that uses the given timers.
        new_loading: begins to load the shard from the log.

    Attributes:
        state: see `PartitionState`.
        shard: the state machine.
        is_appending: whether an append is still without an outcome, even after `close`.
    """

    def __init__(
        self,
        name: str,
        log: CoordinatorLog,
        timers: Timers,
        new_shard: Callable[[ShardTimers], S],
        new_loading: NewLoading = Loading,
    ) -> None:
        self._name = name
        self._new_loading = new_loading
        self._log = log
        self._timers = timers
        self._loading: ShardLoading | None = None
        self._load_failures = 0
        self._expiry: Timer | None = None
        self._queue: deque[_Queued] = deque()
        #: The operation being appended, while its reply is awaited.
        self._appending: _Pending | None = None
        self.is_appending = False
        #: Called when the current append has an outcome, even if the partition has been closed.
        self._when_appended: list[Callable[[], None]] = []
        self._waiting: deque[_Pending] = deque()
        self._is_draining = False
        #: The shard's timers that are not due yet.
        self._alarms: set[_ShardTimer] = set()
        self._last_written = 0
        self._lines = LogLimit(_log)
        self.state = PartitionState.LOADING
        self.shard = new_shard(self)

    # Loading and unloading.

    def load(self, now_ms: int) -> None:
        """Begin to load; an empty partition is served immediately, and one with a failed log is never served."""
        self._loading = self._new_loading(self._log, self.shard)
        self._log.when_reached(_NEVER_REACHED, self._reached)
        if self._loading is not None and self._loading.is_done:
            self.load_slice(now_ms)

    def load_slice(self, now_ms: int) -> int:
        """Continue loading for a few milliseconds; if it is unfinished, return the pause before the next slice."""
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
            # A defect must not leave clients waiting for the load to finish.
            _log.exception("%s cannot be loaded", self._name)
            self.close()
        return 0

    def _activate(self, now_ms: int) -> None:
        self._loading = None
        self._enter(PartitionState.ACTIVE)
        self._last_written = self._log.next_offset
        self.shard.loaded(now_ms)

    def close(self) -> None:
        """Stop serving; all waiting operations are answered with NOT_COORDINATOR, and all timers end."""
        if self.state is PartitionState.CLOSED:
            return
        is_loaded = self.state is PartitionState.ACTIVE
        self._enter(PartitionState.CLOSED)
        self._loading = None
        if self._expiry is not None:
            self._expiry.cancel()
        error = BrokerError(ErrorCode.NOT_COORDINATOR, f"{self._name} has been unloaded")
        queued, pending = list(self._queue), [*self._waiting, *([] if self._appending is None else [self._appending])]
        self._waiting.clear()
        self._queue.clear()
        self._appending = None
        for entry in pending:
            self._finish(entry, error)
        for waiting in queued:
            self._timers.as_of(waiting.jumped_ms, self._answer, waiting, error)
        if is_loaded:
            self.shard.unloaded()
        for timer in list(self._alarms):
            timer.cancel()

    def _enter(self, state: PartitionState) -> None:
        self.state = PARTITION_EDGES.follow(self.state, state)

    def when_appended(self, done: Callable[[], None]) -> None:
        """Call `done` once the current append has an outcome; immediately if there is none."""
        if self.is_appending:
            self._when_appended.append(done)
        else:
            done()

    # Operations.

    def submit(self, operation: Operation[S, R], done: Done[R], now_ms: int) -> None:
        """Run an operation, now or once the previous append is finished.

        Args:
            operation: an operation on the shard.
            done: called once with the reply or the error.
            now_ms: the current time.
        """
        if self.state is PartitionState.LOADING:
            done(BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self._name} is being loaded"))
        elif self.state is PartitionState.CLOSED:
            done(BrokerError(ErrorCode.NOT_COORDINATOR, f"this broker does not serve {self._name}"))
        elif len(self._queue) >= _QUEUE_MAX:
            done(
                BrokerError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{_QUEUE_MAX} operations are already waiting for {self._name}"
                )
            )
        else:
            self._queue.append(_Queued(operation, done, now_ms, self.jumped_ms, is_request=True))
            self._drain()

    def _drain(self) -> None:
        if self._is_draining:
            return
        self._is_draining = True
        try:
            while self._queue and not self.is_appending:
                entry = self._queue.popleft()
                self._timers.as_of(entry.jumped_ms, self._run, entry)
        finally:
            self._is_draining = False
        self._limit_wait()

    def _run(self, entry: _Queued) -> None:
        operation, done, now_ms, jumped_ms, is_request = entry
        try:
            result = operation(self.shard)
        except BrokerError as error:
            self._answer(entry, error)
            return
        except Exception as error:
            # A defect must not leave later operations unanswered.
            self._lines.exception("operation", now_ms, "an operation on %s failed", self._name)
            self._answer(entry, BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
            return
        pending = _Pending(self._last_written, result, done, now_ms, jumped_ms)
        if not result.records and result.marker is None:
            self._await_commit(pending)
            return
        self._appending, self.is_appending = pending, True
        appended = partial(self._appended, pending)
        try:
            self._append(result, now_ms, appended, is_request=is_request)
        except Exception as error:
            # The same applies to a record that cannot be encoded.
            self._lines.exception("append", now_ms, "a record of %s cannot be written", self._name)
            if self._appending is pending:
                appended(BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))

    def _append(
        self, result: Result[Any], now_ms: int, appended: Callable[[int | BrokerError], None], *, is_request: bool
    ) -> None:
        if result.marker is not None:
            self._log.append_marker(result.marker, now_ms, appended)
            return
        records = []
        # The limit does not apply to timers and deletions, which otherwise might never complete.
        is_limited = is_request and any(record.value is not None for record in result.records)
        limit = room = self._log.max_batch_bytes
        for record in result.records:
            key, value = encode(record)
            records.append((key, value))
            room -= len(key) + len(value or b"")
            if is_limited and room < 0:
                reason = f"the records in the request are too large for {self._name}; the limit is {limit} bytes"
                appended(BrokerError(ErrorCode.MESSAGE_TOO_LARGE, reason))
                return
        self._log.append(records, now_ms, appended, result.transaction)

    def _appended(self, pending: _Pending, outcome: int | BrokerError) -> None:
        self.is_appending = False
        waiting, self._when_appended = self._when_appended, []
        for done in waiting:
            done()
        if self.state is PartitionState.CLOSED:
            return  # closing has answered the operation
        if self._appending is None:
            # The operation was answered at its timeout.
            pending = pending._replace(result=pending.result._replace(committed=None), done=ignore)
        self._appending = None
        if isinstance(outcome, BrokerError):
            self._finish(pending, coordinator_error(outcome))
        else:
            self._last_written = outcome
            # Operations that the shard submits during replay wait, so that replies are sent in the order of their
            # records.
            was_draining, self._is_draining = self._is_draining, True
            try:
                self._timers.as_of(pending.jumped_ms, self._take_over, pending._replace(offset=outcome))
            finally:
                self._is_draining = was_draining
        self._drain()

    def _take_over(self, pending: _Pending) -> None:
        try:
            self._replay(pending.result, pending.offset - 1)
        except Exception:
            # This is a defect: the shard no longer matches its log, and must not answer from its state. It is not
            # loaded again until the broker restarts, since the log would trigger the same defect.
            why = "unloading %s, which could not replay a record"
            self._lines.exception("replay", pending.now_ms, why, self._name)
            self._waiting.append(pending)
            self.close()
        else:
            self._await_commit(pending)

    def _replay(self, result: Result[Any], offset: int) -> None:
        if result.marker is not None:
            marker = result.marker.marker
            self.shard.end_transaction(marker.producer_id, marker.is_commit)
        producer_id = NO_PRODUCER_ID if result.transaction is None else result.transaction.producer_id
        for at, record in enumerate(result.records, offset + 1 - len(result.records)):
            if not record.is_held:
                self.shard.replay(record, at, producer_id)

    # Replies.

    def _await_commit(self, pending: _Pending) -> None:
        if self._log.high_watermark >= pending.offset:
            self._reached(None)
            self._finish(pending, None)
            return
        self._waiting.append(pending)
        self._log.when_reached(pending.offset, self._reached)

    def _reached(self, error: BrokerError | None) -> None:
        if error is not None and self.state is not PartitionState.CLOSED:
            # The shard's state may not be durable; only the log can tell, once it is online again.
            _log.error("unloading %s, since its log failed: %s", self._name, error)
            self.close()
        while self._waiting and self._waiting[0].offset <= self._log.high_watermark:
            self._finish(self._waiting.popleft(), None)

    def _limit_wait(self) -> None:
        """Set the timer for the request that has waited longest, if any; later requests have more time left."""
        first: _Queued | _Pending | None = self._waiting[0] if self._waiting else self._appending
        if first is None:
            first = next((entry for entry in self._queue if entry.is_request), None)
        is_set = self._expiry is not None and self._expiry.is_pending
        if first is not None and not is_set:
            self._timers.as_of(first.jumped_ms, self._expire_at, first.now_ms + COMMIT_TIMEOUT_MS)
        elif first is None and self._expiry is not None:
            self._expiry.cancel()

    def _expire_at(self, deadline_ms: int) -> None:
        self._expiry = self._timers.at(deadline_ms, self._expire)

    def _is_late(self, entry: _Queued | _Pending, now_ms: int) -> bool:
        return entry.now_ms + COMMIT_TIMEOUT_MS - entry.jumped_ms <= now_ms - self.jumped_ms

    def _expire(self, now_ms: int) -> None:
        error = BrokerError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the records were not committed within {COMMIT_TIMEOUT_MS} ms"
        )
        while self._waiting and self._is_late(self._waiting[0], now_ms):
            self._finish(self._waiting.popleft(), error)
        if self._appending is not None and self._is_late(self._appending, now_ms):
            pending, self._appending = self._appending, None
            self._finish(pending, error)
        late = [entry for entry in self._queue if entry.is_request and self._is_late(entry, now_ms)]
        if late:
            gone = set(map(id, late))
            self._queue = deque(entry for entry in self._queue if id(entry) not in gone)
            for entry in late:
                self._timers.as_of(entry.jumped_ms, self._answer, entry, error)
        self._limit_wait()

    def _finish(self, pending: _Pending, error: BrokerError | None) -> None:
        self._timers.as_of(pending.jumped_ms, self._reply, pending, error)

    def _reply(self, pending: _Pending, error: BrokerError | None) -> None:
        reply = pending.result.reply if error is None else error
        if pending.result.committed is not None:
            try:
                pending.result.committed(error)
            except BrokerError as told:
                reply = told
            except Exception as defect:
                text = "%s could not apply a commit"
                self._lines.exception("committed", pending.now_ms, text, self._name)
                reply = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(defect))
        self._answer(pending, reply)

    def _answer(self, entry: _Queued | _Pending, reply: object) -> None:
        """Send a reply; if the callback fails, call it again with an error, without holding up other replies."""
        try:
            entry.done(reply)
        except Exception as defect:
            self._lines.exception("reply", entry.now_ms, "a reply from %s failed", self._name)
            if not isinstance(reply, BrokerError):
                self._answer(entry, BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(defect)))

    # Timers.

    @property
    def jumped_ms(self) -> int:
        return self._timers.jumped_ms

    def at(self, deadline_ms: int, action: Callable[[int], None]) -> Timer:
        """Set a timer for the shard; see `ShardTimers`."""
        return self._timer(self._timers.at, deadline_ms, action)

    def in_turn(self, now_ms: int, action: Callable[[int], None]) -> Timer:
        """See `ShardTimers`."""
        return self._timer(self._timers.in_turn, now_ms, action)

    def _timer(self, call: Callable[..., Timer], deadline_ms: int, action: Callable[[int], None]) -> Timer:
        def due(now_ms: int) -> None:
            self._alarms.discard(timer)
            if self.state is not PartitionState.CLOSED:
                # Unlike requests, timers are not limited in number: a group whose timer is lost would wait forever.
                fire = _Queued(lambda shard: shard.fire(timer.fire, now_ms), ignore, now_ms, self.jumped_ms, False)
                self._queue.append(fire)
                self._drain()

        timer = _ShardTimer(deadline_ms, action, self._alarms)
        timer.alarm = call(deadline_ms, due)
        return timer


def ignore(_: object) -> None:
    """Ignore an outcome for which nothing is waiting."""
