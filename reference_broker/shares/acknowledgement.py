"""Acknowledging and releasing acquired records: checks, and the transitions that the persister has to store.

A request is applied completely or not at all: if one of its ranges is refused, the transitions of the others are
undone by the caller.

Source: `SharePartition.acknowledge`, `releaseAcquiredRecords` in Apache Kafka, whose order of checks and texts are
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from kafkawire.reference_broker.shares.delivery import COMPLETE, NO_MEMBER, Batch, Delivery, Lock, SetLock
from kafkawire.reference_broker.shares.in_flight import InFlight
from kafkawire.reference_broker.shares.state_batches import StateBatch
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import ACKNOWLEDGE_GAP, AcknowledgeType, DeliveryState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["AcknowledgedRange", "Acknowledgement", "Pending"]

#: The state that each acknowledge type leads to; renewing a lock does not change it.
_STATES: Final = {
    ACKNOWLEDGE_GAP: DeliveryState.ARCHIVED,
    AcknowledgeType.ACCEPT: DeliveryState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: DeliveryState.AVAILABLE,
    AcknowledgeType.REJECT: DeliveryState.ARCHIVED,
}


class AcknowledgedRange(NamedTuple):
    """A range of offsets that a member acknowledges.

    Attributes:
        first_offset, last_offset: the range, inclusive.
        types: an acknowledge type for all offsets, or one for each.
    """

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Pending(NamedTuple):
    """A transition that is waiting for the persister, and what to store."""

    delivery: Delivery
    stored: StateBatch


class Acknowledgement:
    """The state transitions that one request starts.

    Args:
        flight: the offsets in delivery.
        member_id: the member.
        count_max: the maximum number of deliveries.
        may_renew: whether the group's members may renew locks.
        renewed: returns a new lock for a range of the member's offsets.
        set_lock: see `Batch.split`.

    Attributes:
        pending: the transitions so far.
    """

    def __init__(
        self,
        flight: InFlight,
        member_id: str,
        count_max: int,
        *,
        may_renew: bool,
        renewed: Callable[[str, int, int], Lock],
        set_lock: SetLock,
    ) -> None:
        self._flight = flight
        self._member_id = member_id
        self._count_max = count_max
        self._may_renew = may_renew
        self._renewed = renewed
        self._set_lock = set_lock
        self.pending: list[Pending] = []

    # Acknowledging.

    def acknowledge(self, ranges: Iterable[AcknowledgedRange]) -> None:
        """Begin the transitions for acknowledged ranges.

        Raises:
            BrokerError: INVALID_REQUEST, INVALID_RECORD_STATE.
        """
        for acknowledged in ranges:
            if acknowledged.last_offset >= self._flight.start_offset:
                for batch in self._batches(acknowledged):
                    if batch.last_offset >= self._flight.start_offset:
                        self._acknowledge_batch(batch, acknowledged)

    def _batches(self, acknowledged: AcknowledgedRange) -> list[Batch]:
        """Return the batches that contain a range."""
        first, last, _ = acknowledged
        batches, start = self._flight.batches, self._flight.start_offset
        floor = batches.floor(first)
        if floor is None and first < start <= last:
            floor = batches.floor(start)
        if floor is None:
            text = "Batch record not found. The request batch offsets are not found in the cache."
            raise BrokerError(ErrorCode.INVALID_RECORD_STATE, text)
        found = batches.between(floor.first_offset, last)
        if found[-1].last_offset < first:
            text = "Batch record not found. The first offset in request is past acquired records."
            raise BrokerError(ErrorCode.INVALID_REQUEST, text)
        if last > found[-1].last_offset:
            text = "Batch record not found. The last offset in request is past acquired records."
            raise BrokerError(ErrorCode.INVALID_REQUEST, text)
        return found

    def _acknowledge_batch(self, batch: Batch, acknowledged: AcknowledgedRange) -> None:
        whole = batch.whole
        if whole is not None:
            if whole.member_id == NO_MEMBER:
                raise _refused("The batch cannot be acknowledged. The batch is not in the acquired state.")
            if whole.member_id != self._member_id:
                raise _refused("Member is not the owner of batch record")
            is_within = (
                acknowledged.first_offset <= batch.first_offset and batch.last_offset <= acknowledged.last_offset
            )
            is_cut = batch.first_offset < self._flight.start_offset
            if is_within and len(acknowledged.types) == 1 and not is_cut:
                kind = acknowledged.types[0]
                self._transition(whole, kind, batch.first_offset, batch.last_offset)
                return
            batch.split(self._set_lock)
        self._acknowledge_offsets(batch, acknowledged)

    def _acknowledge_offsets(self, batch: Batch, acknowledged: AcknowledgedRange) -> None:
        first, last, types = acknowledged
        first_offset = max(first, self._flight.start_offset)
        for offset, delivery in batch.each.items():
            if offset < first_offset:
                continue
            if offset > last:
                break
            if delivery.state is not DeliveryState.ACQUIRED:
                raise _refused("The offset cannot be acknowledged. The offset is not acquired.")
            if delivery.member_id != self._member_id:
                raise _refused("Member is not the owner of offset")
            self._transition(delivery, types[offset - first] if len(types) > 1 else types[0], offset, offset)

    def _transition(self, delivery: Delivery, kind: int, first_offset: int, last_offset: int) -> None:
        """Take the step that an acknowledge type asks for."""
        if kind == AcknowledgeType.RENEW:
            if not self._may_renew:
                raise _refused("Renewing acquisition locks is not enabled for the group.")
            delivery.unlock()
            delivery.lock = self._renewed(self._member_id, first_offset, last_offset)
        else:
            self._begin(delivery, _STATES[kind], first_offset, last_offset)

    # Releasing.

    def release(self) -> None:
        """Begin the release of everything that the member has acquired; their deliveries still count."""
        start = self._flight.start_offset
        for batch in self._flight.batches:
            whole = batch.whole
            if whole is not None and whole.member_id == self._member_id and batch.first_offset < start:
                if batch.last_offset < start:
                    self._begin(whole, DeliveryState.ARCHIVED, batch.first_offset, batch.last_offset)
                    continue
                batch.split(self._set_lock)
            if batch.whole is not None:
                if batch.whole.member_id == self._member_id:
                    self._begin(batch.whole, DeliveryState.AVAILABLE, batch.first_offset, batch.last_offset)
                continue
            for offset, delivery in batch.each.items():
                if delivery.member_id == self._member_id:
                    state = DeliveryState.ARCHIVED if offset < start else DeliveryState.AVAILABLE
                    self._begin(delivery, state, offset, offset)

    def _begin(self, delivery: Delivery, state: DeliveryState, first_offset: int, last_offset: int) -> None:
        """Begin a transition of records that the member has acquired, which are therefore not in another one."""
        delivery.begin(state, self._count_max)
        stored = StateBatch(first_offset, last_offset, delivery.count, delivery.state)
        self.pending.append(Pending(delivery, stored))
        if delivery.state in COMPLETE:
            self._flight.complete_count += self._flight.count_within(first_offset, last_offset)


def _refused(text: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_RECORD_STATE, text)
