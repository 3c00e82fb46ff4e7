"""A record that a broker has acquired for a share consumer, and that the application acknowledges.

The state of a delivery is not stored, because two sides decide it: the application acknowledges the record, and the I/O
side learns whether the broker has confirmed that or whether the lock is lost.

Source: KIP-932, KIP-1222 (renewals); Apache Kafka, `AcknowledgeType`, `ShareInFlightBatch`.
"""

from __future__ import annotations

from enum import Enum
from types import TracebackType
from typing import Final, Generic, Self

from kafkawire.sdk.consumer.sharing.acquisitions import Acknowledgement, Acquired
from kafkawire.sdk.errors import BrokerError, KafkaWireError, LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import Record
from kafkawire.sdk.records.type_variables import Key, Value
from kafkawire.sdk.states import Edges
from kafkawire.sdk.transport.promise import Promise

__all__ = ["DELIVERY_EDGES", "AcquiredRecord", "ShareDelivery", "ShareDeliveryState"]


class ShareDeliveryState(Enum):
    """The state of a delivery."""

    #: The broker holds the record for this consumer until its acquisition lock runs out.
    ACQUIRED = "acquired"
    #: The record was accepted, released or rejected, and the broker has not confirmed that yet.
    ACKNOWLEDGED = "acknowledged"
    #: The broker has confirmed the acknowledgement.
    CONFIRMED = "confirmed"
    #: The lock ran out or was lost before the acknowledgement was confirmed: another consumer may receive the record.
    LOST = "lost"


DELIVERY_EDGES: Final = Edges(
    "a delivery of a share consumer",
    (ShareDeliveryState.ACQUIRED,),
    {
        ShareDeliveryState.ACQUIRED: {
            ShareDeliveryState.ACKNOWLEDGED: "the application acknowledges the record, or reads again in implicit mode",
            ShareDeliveryState.LOST: "the lock runs out, a renewal fails, or the session with the broker is lost",
        },
        ShareDeliveryState.ACKNOWLEDGED: {
            ShareDeliveryState.CONFIRMED: "the broker confirms the acknowledgement",
            ShareDeliveryState.LOST: "the broker refuses the acknowledgement, or it could not be sent in time",
        },
    },
    is_derived=True,
)


class AcquiredRecord(Generic[Key, Value]):
    """A delivery, apart from the methods that await or block.

    Args:
        record: the record.
        delivery_count: how often it has been delivered, including this time.
        acquired: the acquisition to which it belongs.

    Attributes:
        record: as given; the deserializers are applied when it is handed out.
        delivery_count: as given.
    """

    __slots__ = ("_acquired", "_locked_until_ms", "_outcome", "_renewal", "_type", "delivery_count", "record")

    def __init__(self, record: Record[Key, Value], delivery_count: int, acquired: Acquired) -> None:
        self.record = record
        self.delivery_count = delivery_count
        self._acquired = acquired
        self._locked_until_ms = acquired.locked_until_ms
        self._type: AcknowledgeType | None = None
        self._renewal: Promise[None] | None = None
        self._outcome: ShareDeliveryState | None = None

    def __repr__(self) -> str:
        record, state = self.record, self.state.value
        where = f"{record.topic}-{record.partition}, offset {record.offset}"
        return f"<{type(self).__name__} of {where}, delivery {self.delivery_count}, {state}>"

    @property
    def state(self) -> ShareDeliveryState:
        """The state of the delivery now."""
        if self._outcome is not None:
            return self._outcome
        if self._acquired.is_lost:
            return ShareDeliveryState.LOST
        if self._type is not None:
            return ShareDeliveryState.ACKNOWLEDGED
        return ShareDeliveryState.ACQUIRED if self.lock_left_ms else ShareDeliveryState.LOST

    @property
    def lock_left_ms(self) -> int:
        """How long the acquisition lock still lasts, in ms; 0 if it has run out or was lost.

        While a renewal is on its way, the lock counts as held for at least another millisecond.
        """
        acquired = self._acquired
        if acquired.is_lost or self._outcome is not None:
            return 0
        return max(self._locked_until_ms - acquired.ledger.clock_ms(), 0 if self._renewal is None else 1)

    def accept(self) -> None:
        """Acknowledge that the record was processed; it is not delivered again.

        Like `release` and `reject`, this does not wait: the acknowledgement is sent with the next request to the
        broker, and its outcome is reported by `ShareConsumer.commit` and to `on_acknowledged`.

        Raises:
            LocalProtocolError: the record was already acknowledged, or `share_acknowledgement_mode` is "implicit".
        """
        self._acknowledge(AcknowledgeType.ACCEPT)

    def release(self) -> None:
        """Give the record back, to be delivered again to any consumer of the group, up to the group's limit.

        Raises:
            LocalProtocolError: the record was already acknowledged, or `share_acknowledgement_mode` is "implicit".
        """
        self._acknowledge(AcknowledgeType.RELEASE)

    def reject(self) -> None:
        """Refuse the record, because it can never be processed; it is not delivered again.

        Raises:
            LocalProtocolError: the record was already acknowledged, or `share_acknowledgement_mode` is "implicit".
        """
        self._acknowledge(AcknowledgeType.REJECT)

    # The reading side.

    def acknowledged(self, type: AcknowledgeType) -> None:
        """Acknowledge the record unless that was done, on behalf of the application."""
        if self._type is None:
            self._give(type)

    def _acknowledge(self, type: AcknowledgeType) -> None:
        self._check_explicit(type.name.lower())
        if self._type is not None:
            raise LocalProtocolError(f"{type.name.lower()}: {self!r} was already acknowledged ({self._type.name})")
        self._give(type)

    def _check_explicit(self, name: str) -> None:
        if not self._acquired.ledger.is_explicit:
            reason = "records are accepted by the next read or commit; set share_acknowledgement_mode='explicit'"
            raise LocalProtocolError(f"{name}: {reason}")

    def _give(self, type: AcknowledgeType) -> None:
        acquired, offset = self._acquired, self.record.offset
        if self.state is ShareDeliveryState.LOST:
            self._outcome = ShareDeliveryState.LOST
        self._type = type
        acquired.ledger.add(Acknowledgement(acquired, offset, offset, type, self))

    def _renew(self) -> Promise[None]:
        """Ask for a renewal of the lock, and return a promise of the outcome."""
        self._check_explicit("renew")
        if self._type is not None:
            raise LocalProtocolError(f"renew: {self!r} was already acknowledged")
        if self.state is ShareDeliveryState.LOST:
            raise BrokerError(ErrorCode.INVALID_RECORD_STATE, f"the acquisition lock of {self!r} has run out")
        renewal = self._renewal
        if renewal is None:
            renewal = self._renewal = Promise()
            acquired, offset = self._acquired, self.record.offset
            # From here on, the I/O thread may have the outcome, which forgets the renewal.
            acquired.ledger.add(Acknowledgement(acquired, offset, offset, AcknowledgeType.RENEW, self, renewal))
        return renewal

    def _leave(self, error: BaseException | None) -> None:
        """Acknowledge the record at the end of a `with` block, unless the block did."""
        rejects = error is not None and isinstance(error, self._acquired.ledger.reject_on)
        failed = AcknowledgeType.REJECT if rejects else AcknowledgeType.RELEASE
        self.acknowledged(AcknowledgeType.ACCEPT if error is None else failed)

    # The I/O side.

    @property
    def locked_until_ms(self) -> int:
        """When the acquisition lock runs out."""
        return self._locked_until_ms

    @property
    def is_lost(self) -> bool:
        """Whether the lock is known to be lost, apart from the other locks of its acquisition."""
        return self._outcome is ShareDeliveryState.LOST

    def renewed(self, locked_until_ms: int) -> None:
        """Extend the lock."""
        self._locked_until_ms = locked_until_ms
        self._renewal = None

    def settled(self, error: KafkaWireError | None) -> None:
        """Record the outcome of its acknowledgement, or that its renewal has failed."""
        self._renewal = None
        self._outcome = ShareDeliveryState.CONFIRMED if error is None else ShareDeliveryState.LOST


class ShareDelivery(AcquiredRecord[Key, Value]):
    """A record that this consumer has acquired, to be acknowledged before its acquisition lock runs out.

    `async with delivery` accepts the record at the end of the block. If an exception leaves the block, it releases the
    record, or rejects it if the exception is one of the consumer's `reject_on`. If the block has acknowledged the
    record itself, that counts. One task, or one thread, uses a delivery at a time.

    Attributes:
        record: the record.
        delivery_count: how often it has been delivered, including this time.
    """

    __slots__ = ()

    async def __aenter__(self) -> Self:
        self._check_explicit("async with delivery")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(error)

    async def renew(self) -> None:
        """Extend the acquisition lock by its full duration, because processing takes longer.

        Raises:
            BrokerError: INVALID_RECORD_STATE if the lock has run out; other codes if the broker refused to renew it.
                Another consumer may receive the record.
            UnsupportedVersion: the broker cannot renew locks, which needs Apache Kafka 4.2 or later.
            LocalProtocolError: the record was already acknowledged, or `share_acknowledgement_mode` is "implicit".
            Closed: the consumer was closed.
        """
        await self._renew()
