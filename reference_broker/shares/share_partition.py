"""A share partition: the delivery of one partition's records to one share group, at the leader of the partition.

    persister ──state──▶ SharePartition ◀──acquire── share fetches of the members
                              │  ▲
              changed state ──┘  └── acknowledgements, locks that expire, sessions that end

The state is read from the persister once, and what members acknowledge or release is stored before they are answered.
Acquired records are not stored: after a crash of the broker they are delivered again.

Source: `SharePartition` in Apache Kafka; KIP-932.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from enum import Enum, auto
from functools import partial
from typing import Final

from kafkawire.reference_broker.coordinators.shard import Done
from kafkawire.reference_broker.shares.acknowledgement import AcknowledgedRange, Acknowledgement, Pending
from kafkawire.reference_broker.shares.acquisition import AcquiredRange, Acquisition, Fetched, Wanted
from kafkawire.reference_broker.shares.delivery import COMPLETE, Batch, Delivery, Lock
from kafkawire.reference_broker.shares.in_flight import InFlight
from kafkawire.reference_broker.shares.limits import ShareLimits
from kafkawire.reference_broker.shares.persister import Persister
from kafkawire.reference_broker.shares.shard import Write
from kafkawire.reference_broker.shares.share_state import SharePartitionKey, ShareState
from kafkawire.reference_broker.shares.state_batches import StateBatch
from kafkawire.reference_broker.work.timers import Timer, Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_OFFSET, DeliveryState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.states import Edges

__all__ = ["LOAD_EDGES", "FindStart", "LoadState", "SharePartition"]

_log = logging.getLogger("kafkawire.broker")

#: Looks up where a group without a state begins; the callback gets the offset or the error.
FindStart = Callable[[Done[int]], None]

#: What members get instead of the persister's errors; UNKNOWN_SERVER_ERROR instead of any other.
_TOLD: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


class LoadState(Enum):
    """Whether the state of a share partition has been read."""

    #: Nothing has asked for it yet.
    EMPTY = auto()
    #: The persister has been asked; fetches wait.
    LOADING = auto()
    #: Records can be acquired and acknowledged.
    ACTIVE = auto()
    #: The state could not be read; the next fetch tries again with a new share partition.
    FAILED = auto()
    #: The share partition must not be used any more: its group, its topic or its leader has changed.
    FENCED = auto()


#: The transitions of a share partition; it never becomes active again, but is replaced.
LOAD_EDGES: Final = Edges(
    "a share partition",
    (LoadState.EMPTY,),
    {
        LoadState.EMPTY: {
            LoadState.LOADING: "a member fetches",
            LoadState.FENCED: "it is dropped",
        },
        LoadState.LOADING: {
            LoadState.ACTIVE: "the persister has returned its state",
            LoadState.FAILED: "the persister has an error, or the state is damaged",
            LoadState.FENCED: "it is dropped",
        },
        LoadState.ACTIVE: {
            LoadState.FENCED: "it is dropped",
        },
        LoadState.FAILED: {
            LoadState.FENCED: "it is dropped",
        },
    },
)


class SharePartition:
    """The delivery of one partition's records to one group.

    Args:
        key: the group and the partition.
        leader_epoch: the epoch in which this broker leads the partition.
        limits: see `ShareLimits`.
        persister: stores the state.
        timers: the broker's timers, for locks.
        find_start: see `FindStart`.
        on_change: called when records may have become available, or the start offset has moved.

    Attributes:
        key, leader_epoch: see above.
        state: see `LoadState`.
        flight: the offsets in delivery.
    """

    def __init__(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        limits: ShareLimits,
        persister: Persister,
        timers: Timers,
        find_start: FindStart,
        on_change: Callable[[], None],
    ) -> None:
        self.key = key
        self.leader_epoch = leader_epoch
        self.state = LoadState.EMPTY
        self.flight = InFlight()
        self._limits = limits
        self._persister = persister
        self._timers = timers
        self._find_start = find_start
        self._on_change = on_change
        self._state_epoch = 0
        #: What expired locks have changed, and the timer that stores it; locks often expire together.
        self._expired: list[StateBatch] = []
        self._expiry: Timer | None = None

    def _enter(self, state: LoadState) -> None:
        self.state = LOAD_EDGES.follow(self.state, state)

    # Loading.

    def load(self, done: Callable[[BrokerError | None], None]) -> None:
        """Read the state; `done` is called once, when the share partition is active or has failed."""
        self._enter(LoadState.LOADING)
        self._persister.read(self.key, self.leader_epoch, partial(self._read, done))

    def _read(self, done: Callable[[BrokerError | None], None], state: ShareState | BrokerError) -> None:
        if isinstance(state, BrokerError):
            self._failed(done, _told(state))
        elif state.start_offset == UNKNOWN_OFFSET:
            self._find_start(partial(self._begin, done, state))
        else:
            self._begin(done, state, state.start_offset)

    def _begin(
        self, done: Callable[[BrokerError | None], None], state: ShareState, start_offset: int | BrokerError
    ) -> None:
        if isinstance(start_offset, BrokerError):
            self._failed(done, start_offset)
            return
        try:
            self.flight.load(start_offset, state.batches)
        except ValueError as error:
            _log.error("the stored state of share partition %s is damaged: %s", self.key, error)
            self._failed(done, BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
            return
        self._state_epoch = state.state_epoch
        if self.state is LoadState.LOADING:
            self._enter(LoadState.ACTIVE)
        done(None)

    def _failed(self, done: Callable[[BrokerError | None], None], error: BrokerError) -> None:
        if self.state is LoadState.LOADING:
            self._enter(LoadState.FAILED)
        done(error)

    def fence(self) -> None:
        """Stop using the share partition; its locks end, and the acquired records will be delivered again."""
        if self.state is LoadState.FENCED:
            return
        self._enter(LoadState.FENCED)
        for batch in self.flight.batches:
            for delivery in _deliveries(batch):
                delivery.unlock()
        if self._expiry is not None:
            self._expiry.cancel()

    # Acquiring.

    @property
    def can_acquire(self) -> bool:
        """Whether there may be records to acquire: some in delivery are available, or there is room for more."""
        if self.state is not LoadState.ACTIVE:
            return False
        is_within = self.next_fetch_offset() != self.flight.end_offset + 1
        return is_within or len(self.flight) < self._limits.record_locks_max(self.key.group_id)

    def next_fetch_offset(self) -> int:
        """Return the offset from which to fetch next."""
        return self.flight.next_fetch_offset()

    def acquire(self, wanted: Wanted, fetched: Fetched, now_ms: int) -> tuple[list[AcquiredRange], int]:
        """Acquire fetched records for a member; return the ranges, and the number of their offsets."""
        if self.state is not LoadState.ACTIVE:
            return [], 0
        group_id = self.key.group_id
        deadline_ms = now_ms + self._limits.lock_duration_ms(group_id)
        acquisition = Acquisition(
            self.flight,
            wanted,
            fetched,
            self._limits.delivery_count_max(group_id),
            lambda member_id, first, last: self._lock(member_id, first, last, deadline_ms),
            self._lock,
        )
        return acquisition.run(self._limits.record_locks_max(group_id))

    def begin_at(self, log_start_offset: int) -> None:
        """Move the start offset up, because the log now begins later."""
        self.flight.begin_at(log_start_offset, self._lock)
        self.flight.advance()

    # Acknowledging.

    def acknowledge(
        self,
        member_id: str,
        ranges: Iterable[AcknowledgedRange],
        done: Callable[[BrokerError | None], None],
        now_ms: int,
    ) -> None:
        """Acknowledge acquired records; `done` is called once the persister has stored the change, or with the error.

        Args:
            member_id: the member that has acquired them.
            ranges: the ranges in order.
            done: see above.
            now_ms: the current time.
        """
        acknowledgement = self._acknowledgement(member_id, now_ms)
        try:
            acknowledgement.acknowledge(ranges)
        except BrokerError as error:
            self._undo(acknowledgement.pending)
            done(error)
            return
        self._store(acknowledgement.pending, done)

    def release(self, member_id: str, done: Callable[[BrokerError | None], None], now_ms: int) -> None:
        """Release everything that a member has acquired; see `acknowledge`."""
        acknowledgement = self._acknowledgement(member_id, now_ms)
        acknowledgement.release()
        self._store(acknowledgement.pending, done)

    def _acknowledgement(self, member_id: str, now_ms: int) -> Acknowledgement:
        group_id = self.key.group_id
        deadline_ms = now_ms + self._limits.lock_duration_ms(group_id)
        return Acknowledgement(
            self.flight,
            member_id,
            self._limits.delivery_count_max(group_id),
            may_renew=self._limits.may_renew(group_id),
            renewed=lambda member_id, first, last: self._lock(member_id, first, last, deadline_ms),
            set_lock=self._lock,
        )

    def _store(self, pending: list[Pending], done: Callable[[BrokerError | None], None]) -> None:
        if pending:
            self._write([each.stored for each in pending], partial(self._stored, pending, done))
        else:
            done(None)

    def _write(self, batches: Iterable[StateBatch], done: Callable[[BrokerError | None], None]) -> None:
        flight = self.flight
        write = Write(self._state_epoch, self.leader_epoch, flight.start_offset, flight.complete_count, tuple(batches))
        self._persister.write(self.key, write, done)

    def _stored(
        self, pending: list[Pending], done: Callable[[BrokerError | None], None], error: BrokerError | None
    ) -> None:
        if error is not None:
            self._undo(pending)
        else:
            for delivery, _ in pending:
                delivery.end(is_stored=True)
            self.flight.has_available = True
        self._archive_passed(pending)
        self.flight.advance()
        done(None if error is None else _told(error))
        self._on_change()

    def _archive_passed(self, pending: Iterable[Pending]) -> None:
        """Archive what has become available before the start offset, which has moved in the meantime."""
        start = self.flight.start_offset
        if any(delivery.is_available and stored.first_offset < start for delivery, stored in pending):
            self.flight.archive(0, start, self.flight.batches, DeliveryState.AVAILABLE, self._lock)

    def _undo(self, pending: Iterable[Pending]) -> None:
        """Undo transitions, because the persister or a later part of the request has refused them."""
        for delivery, stored in pending:
            delivery.end(is_stored=False)
            if stored.delivery_state in COMPLETE and delivery.state not in COMPLETE:
                self.flight.complete_count -= self.flight.count_within(stored.first_offset, stored.last_offset)
            self.flight.has_available |= delivery.state is DeliveryState.AVAILABLE

    # Locks.

    def _lock(self, member_id: str, first_offset: int, last_offset: int, deadline_ms: int) -> Lock:
        """Lock a range of offsets for a member until a deadline; see `SetLock`."""

        def expire(now_ms: int) -> None:
            lock.has_expired = True
            self._expire(first_offset, last_offset)

        lock = Lock(self._timers.at(deadline_ms, expire))
        return lock

    def _expire(self, first_offset: int, last_offset: int) -> None:
        """Release the records of an expired lock, except those with a pending transition."""
        floor = self.flight.batches.floor(first_offset)
        if floor is None:
            return
        start = self.flight.start_offset
        for batch in self.flight.batches.between(floor.first_offset, last_offset):
            is_cut = batch.first_offset < start <= batch.last_offset
            if is_cut and batch.whole is not None and batch.whole.state is DeliveryState.ACQUIRED:
                batch.split(self._lock)
            if batch.whole is not None:
                self._release_expired(batch.whole, batch.first_offset, batch.last_offset)
                continue
            for offset, delivery in batch.each.items():
                if first_offset <= offset <= last_offset:
                    self._release_expired(delivery, offset, offset)

    def _release_expired(self, delivery: Delivery, first_offset: int, last_offset: int) -> None:
        if delivery.state is not DeliveryState.ACQUIRED:
            return
        flight = self.flight
        state = DeliveryState.ARCHIVED if last_offset < flight.start_offset else DeliveryState.AVAILABLE
        if not delivery.release(state, self._limits.delivery_count_max(self.key.group_id)):
            return
        delivery.unlock()
        flight.has_available |= delivery.is_available
        if delivery.state in COMPLETE:
            flight.complete_count += flight.count_within(first_offset, last_offset)
        self._expired.append(StateBatch(first_offset, last_offset, delivery.count, delivery.state))
        if self._expiry is None:
            self._expiry = self._timers.soon(self._store_expired)

    def _store_expired(self, now_ms: int) -> None:
        """Store what expired locks have changed; the change stays in effect even if that fails."""
        self._expiry = None
        expired, self._expired = self._expired, []
        self._write(expired, self._stored_expired)
        self._on_change()

    def _stored_expired(self, error: BrokerError | None) -> None:
        if error is not None:
            _log.info("could not store that locks of share partition %s have expired: %s", self.key, error)
        if self.flight.advance():
            self._on_change()


def _deliveries(batch: Batch) -> Iterable[Delivery]:
    return batch.each.values() if batch.whole is None else (batch.whole,)


def _told(error: BrokerError) -> BrokerError:
    """Return the error that members get for an error of the persister."""
    return BrokerError(_TOLD.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR), error.detail)
