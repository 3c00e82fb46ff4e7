"""The delivery of records to a share group: its states, the lock of the member that has acquired a record, and batches.

A transition that has to be stored first is *pending*: the record is in its new state, but nobody can change it until
the persister has answered, and a failure restores the state before.

Source: `InFlightState`, `InFlightBatch`, `RecordState`, `AcquisitionLockTimerTask` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kafkawire.reference_broker.work.timers import Timer
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_MEMBER_ID, DeliveryState
from kafkawire.sdk.states import Edges

__all__ = ["COMPLETE", "DELIVERY_EDGES", "NO_MEMBER", "Batch", "Delivery", "Lock", "SetLock"]

#: The member of a record that nobody has acquired.
NO_MEMBER: Final = UNKNOWN_MEMBER_ID

#: The states in which a delivery is complete.
COMPLETE: Final = frozenset({DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED})

#: Looking up an enum member takes time, and every record needs these.
_AVAILABLE, _ACQUIRED, _ARCHIVED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED, DeliveryState.ARCHIVED

#: The states in which a record can be when the persister has read it; a leader's own records begin as acquired.
DELIVERY_EDGES: Final = Edges(
    "the delivery of a record to a share group",
    (DeliveryState.ACQUIRED, DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED),
    {
        DeliveryState.AVAILABLE: {
            DeliveryState.ACQUIRED: "a member fetches it",
            DeliveryState.ARCHIVED: "the log no longer has it, or begins later",
        },
        DeliveryState.ACQUIRED: {
            DeliveryState.AVAILABLE: "released, or the lock has expired",
            DeliveryState.ACKNOWLEDGED: "accepted",
            DeliveryState.ARCHIVED: "rejected, a gap, delivered too often, aborted, or the log begins later",
        },
        DeliveryState.ACKNOWLEDGED: {
            DeliveryState.ACQUIRED: "the persister has refused it",
            DeliveryState.AVAILABLE: "the persister has refused it, and the lock has expired",
            DeliveryState.ARCHIVED: "the same, and it was delivered too often",
        },
        DeliveryState.ARCHIVED: {
            DeliveryState.ACQUIRED: "the persister has refused it",
            DeliveryState.AVAILABLE: "the persister has refused it, and the lock has expired",
        },
    },
)


class Lock:
    """A member's lock on acquired records.

    Args:
        timer: fires when the lock expires.

    Attributes:
        timer: see above.
        has_expired: whether the timer has fired.
    """

    __slots__ = ("has_expired", "timer")

    def __init__(self, timer: Timer) -> None:
        self.timer = timer
        self.has_expired = False


#: Locks a range of offsets for a member until a deadline.
SetLock = Callable[[str, int, int, int], Lock]


class Delivery:
    """The delivery of the records of a batch, or of one record.

    Args:
        state: see `DeliveryState`.
        count: how many times the records have been delivered.
        member_id: the member that has acquired the records, or `NO_MEMBER`.
        lock: its lock, or None.

    Attributes:
        state, count, member_id, lock: see above.
    """

    __slots__ = ("_before", "_is_final", "count", "lock", "member_id", "state")

    def __init__(self, state: DeliveryState, count: int, member_id: str = NO_MEMBER, lock: Lock | None = None) -> None:
        self.state = state
        self.count = count
        self.member_id = member_id
        self.lock = lock
        #: The state, the member and the limit before a pending transition.
        self._before: tuple[DeliveryState, str, int] | None = None
        #: Whether the records have been archived for good, whatever the outcome of a pending transition.
        self._is_final = False

    @property
    def is_pending(self) -> bool:
        """Whether a transition waits for the persister."""
        return self._before is not None

    @property
    def is_available(self) -> bool:
        """Whether a member can acquire the records."""
        return self.state is _AVAILABLE and self._before is None

    @property
    def is_complete(self) -> bool:
        """Whether the records are accepted or archived, for good."""
        return self.state in COMPLETE and self._before is None

    def acquire(self, member_id: str) -> None:
        """Deliver available records to a member, which then needs a lock."""
        self._enter(_ACQUIRED)
        self.count += 1
        self.member_id = member_id

    def release(self, state: DeliveryState, count_max: int) -> bool:
        """Leave the acquired state at once; return whether the records could, since no transition is pending.

        Args:
            state: the next state; available records that were delivered too often are archived instead.
            count_max: the maximum number of deliveries.
        """
        if self.is_pending:
            return False
        self._enter(_ARCHIVED if state is _AVAILABLE and self.count >= count_max else state)
        self.member_id = NO_MEMBER
        return True

    def begin(self, state: DeliveryState, count_max: int) -> bool:
        """Leave the acquired state, pending the persister; return whether the records could. See `release`."""
        before = self.state, self.member_id, count_max
        if not self.release(state, count_max):
            return False
        self._before = before
        return True

    def end(self, *, is_stored: bool) -> None:
        """End a pending transition; if it was not stored, restore what it left, unless the lock has expired."""
        before, self._before = self._before, None
        if before is None:
            return
        if is_stored or self._is_final:
            self.unlock()
            return
        state, member_id, count_max = before
        if self.lock is not None and self.lock.has_expired:
            self.unlock()
            state, member_id = (_ARCHIVED if self.count >= count_max else _AVAILABLE), NO_MEMBER
        if state is not self.state:
            self._enter(state)
        self.member_id = member_id

    def archive(self) -> None:
        """Give up available or acquired records for good."""
        self._is_final = True
        if self.state is not _ARCHIVED:
            self._enter(_ARCHIVED)
        self.member_id = NO_MEMBER
        self.unlock()

    def unlock(self) -> None:
        """Drop the lock."""
        if self.lock is not None:
            self.lock.timer.cancel()
            self.lock = None

    def _enter(self, state: DeliveryState) -> None:
        self.state = DELIVERY_EDGES.follow(self.state, state)


class Batch:
    """Adjacent offsets that were acquired together; they share one delivery until they have to be told apart.

    Args:
        first_offset, last_offset: the offsets, inclusive.
        whole: the delivery of all of them.

    Attributes:
        first_offset, last_offset: see above.
        whole: see above; None once each offset has its own.
        each: the delivery of each offset, in order; empty while they share one.
    """

    __slots__ = ("each", "first_offset", "last_offset", "whole")

    def __init__(self, first_offset: int, last_offset: int, whole: Delivery) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.whole: Delivery | None = whole
        self.each: dict[int, Delivery] = {}

    def __len__(self) -> int:
        return self.last_offset - self.first_offset + 1

    def split(self, set_lock: SetLock, acquired_to: int | None = None) -> None:
        """Give each offset a delivery of its own.

        Args:
            set_lock: locks an offset as the batch was locked.
            acquired_to: the last offset that stays acquired; those after it have not been delivered. None for all.
        """
        whole = self.whole
        if whole is None:
            return
        one_lock: Callable[[int, int], Lock | None] = _no_lock
        if whole.lock is not None:
            deadline_ms = whole.lock.timer.deadline_ms
            one_lock = partial(_locked, set_lock, whole.member_id, deadline_ms)
        last = self.last_offset if acquired_to is None else acquired_to
        for offset in range(self.first_offset, last + 1):
            self.each[offset] = Delivery(whole.state, whole.count, whole.member_id, one_lock(offset, offset))
        for offset in range(last + 1, self.last_offset + 1):
            self.each[offset] = Delivery(_AVAILABLE, whole.count - 1)
        whole.unlock()
        self.whole = None


def _locked(set_lock: SetLock, member_id: str, deadline_ms: int, first_offset: int, last_offset: int) -> Lock:
    return set_lock(member_id, first_offset, last_offset, deadline_ms)


def _no_lock(first_offset: int, last_offset: int) -> None:
    return None
