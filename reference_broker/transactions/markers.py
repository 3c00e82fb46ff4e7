"""Writes the markers of ending transactions to all of their partitions.

A marker that cannot be written, for example because a log is offline or a group coordinator is loading, is retried with
increasing pauses until it is written or its topic is deleted. Once a later marker of the same producer has been
written, the earlier one is no longer needed.

Source: `TransactionMarkerChannelManager`, `TransactionMarkerRequestCompletionHandler` in Apache Kafka, where a refused
epoch leaves the transaction unfinished until the coordinator moves.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from kafkawire.reference_broker.cluster.links import Cancel
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.reference_broker.transactions.transaction import Transaction
from kafkawire.reference_broker.work.timers import Timer, Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["REFUSED_FOR_GOOD", "Markers", "WriteMarker"]

#: Maximum number of markers that are written in one step, which takes a few milliseconds.
_STEP_MARKERS = 200

#: The first pause before a marker is retried, and the maximum to which it is doubled.
_BACKOFF_MS = 100
_BACKOFF_MAX_MS = 5_000

#: Errors after which no attempt can succeed: the partition has a later marker, or cannot hold transactions.
REFUSED_FOR_GOOD: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)

#: Errors after which the partition needs no marker.
_DONE_ANYWAY: Final = REFUSED_FOR_GOOD | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

_log = logging.getLogger("kafkawire.broker")


class WriteMarker(Protocol):
    """Writes a marker to a partition."""

    def __call__(
        self,
        partition: Partition,
        marker: Marker,
        transaction_version: int,
        done: Callable[[BrokerError | None], None],
        now_ms: int,
        /,
    ) -> Cancel:
        """Write a marker, and call `done` once, with None when the marker is committed, or with the error.

        Returns:
            A function that abandons the marker if it has not been sent yet, and otherwise has no effect. For an
            abandoned marker, `done` need not be called.
        """
        ...


class _Sending:
    """The markers of one transaction.

    Attributes:
        transaction: the ending transaction.
        remaining: the partitions without a marker.
        todo: the partitions to try in this round.
        in_flight: the number of attempts without an outcome.
        rounds: the number of failed rounds.
        timer: the timer for the next step.
        cancels: functions that abandon the attempts of this round.
    """

    __slots__ = (
        "cancels",
        "done",
        "in_flight",
        "is_cancelled",
        "marker",
        "remaining",
        "rounds",
        "timer",
        "todo",
        "transaction",
    )

    def __init__(self, transaction: Transaction, marker: Marker, done: Callable[[int], None]) -> None:
        self.transaction = transaction
        self.marker = marker
        self.done = done
        self.remaining = set(transaction.partitions)
        self.todo = deque(sorted(transaction.partitions))
        self.in_flight = 0
        self.rounds = 0
        self.timer: Timer | None = None
        self.cancels: list[Cancel] = []
        self.is_cancelled = False


class Markers:
    """The markers that are being written.

    Args:
        timers: the broker's timers.
        write: see `WriteMarker`.
    """

    def __init__(self, timers: Timers, write: WriteMarker) -> None:
        self._timers = timers
        self._write = write
        self._lines = LogLimit(_log)
        self._sending: dict[str, _Sending] = {}

    def send(self, transaction: Transaction, coordinator_epoch: int, done: Callable[[int], None], now_ms: int) -> None:
        """Write the markers of a prepared transaction.

        Args:
            transaction: the transaction; no effect if its markers are already being written.
            coordinator_epoch: epoch of the coordinator.
            done: called with the current time once all markers are written; not called if the transactional id is
                cancelled.
            now_ms: the current time.
        """
        before = self._sending.get(transaction.transactional_id)
        if before is not None:
            if before.transaction.is_same_step(transaction):
                return
            self.cancel(transaction.transactional_id)
        marker = Marker(transaction.producer_id, transaction.epoch, transaction.is_commit, coordinator_epoch)
        sending = self._sending[transaction.transactional_id] = _Sending(transaction, marker, done)
        self._step(sending, now_ms)

    def remaining(self, transactional_id: str) -> frozenset[Partition] | None:
        """Return the partitions without a marker, or None if no markers are being written."""
        sending = self._sending.get(transactional_id)
        return None if sending is None else frozenset(sending.remaining)

    def cancel(self, transactional_id: str) -> None:
        """Stop writing the markers of a transactional id that another broker now coordinates."""
        sending = self._sending.pop(transactional_id, None)
        if sending is not None:
            sending.is_cancelled = True
            if sending.timer is not None:
                sending.timer.cancel()
            for cancel in sending.cancels:
                cancel()

    def ids(self) -> list[str]:
        """Return the transactional ids whose markers are being written."""
        return list(self._sending)

    def _step(self, sending: _Sending, now_ms: int) -> None:
        sending.in_flight += 1  # counting the step itself keeps the round from ending before the step does
        for _ in range(min(len(sending.todo), _STEP_MARKERS)):
            partition = sending.todo.popleft()
            sending.in_flight += 1
            done = self._timers.as_of_now(partial(self._written, sending, partition, now_ms))
            version = sending.transaction.client_version
            sending.cancels.append(self._write(partition, sending.marker, version, done, now_ms))
        if sending.todo and not sending.is_cancelled:
            sending.timer = self._timers.at(now_ms, partial(self._step, sending))
        self._settle(sending, now_ms)

    def _written(self, sending: _Sending, partition: Partition, now_ms: int, error: BrokerError | None) -> None:
        if error is None or error.code in _DONE_ANYWAY:
            sending.remaining.discard(partition)
        if error is not None and not sending.is_cancelled:
            self._report(sending, partition, error, now_ms)
        self._settle(sending, now_ms)

    def _settle(self, sending: _Sending, now_ms: int) -> None:
        sending.in_flight -= 1
        if sending.in_flight or sending.todo or sending.is_cancelled:
            return
        if not sending.remaining:
            del self._sending[sending.transaction.transactional_id]
            sending.done(now_ms)
            return
        sending.cancels.clear()
        sending.todo.extend(sorted(sending.remaining))
        pause_ms = min(_BACKOFF_MS << min(sending.rounds, 10), _BACKOFF_MAX_MS)
        sending.rounds += 1
        sending.timer = self._timers.at(now_ms + pause_ms, partial(self._step, sending))

    def _report(self, sending: _Sending, partition: Partition, error: BrokerError, now_ms: int) -> None:
        topic, number = partition
        transactional_id = sending.transaction.transactional_id
        text = "could not write the marker of %r to %s-%d: %s"
        self._lines.warning(f"marker {transactional_id}", now_ms, text, transactional_id, topic, number, error)
