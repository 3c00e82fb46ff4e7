"""The in-sync replicas of a partition, as known to its leader, and the change that the leader has requested.

Only the controller changes the ISR, so a leader keeps two: the committed ISR, which the controller has confirmed, and
the maximal ISR, with every replica that is in the ISR before or after the pending change. Records are committed once
the entire maximal ISR has them, so no acknowledged record is lost, whichever ISR the controller has stored. A replica
that joins is therefore included as soon as the change is requested, and one that leaves is included until the answer.
Only one change is pending at a time.

Source: `PartitionState`, `Partition.handleAlterPartitionUpdate`, `handleAlterPartitionError` in Apache Kafka; KIP-497.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto
from typing import Final, NamedTuple

from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.states import Edges

__all__ = ["ISR_EDGES", "CommittedIsr", "InSync", "IsrState", "ProposedIsr"]


class IsrState(Enum):
    """Whether the leader knows the ISR."""

    #: The ISR is that of the last term or answer.
    COMMITTED = auto()
    #: The controller has been asked to add a replica.
    EXPANDING = auto()
    #: The controller has been asked to remove replicas.
    SHRINKING = auto()
    #: The controller has a newer state than this leader; the next term will contain it.
    UNKNOWN = auto()


_NEW_TERM: Final = "a new term"
_AGAIN: Final = "after any other error, the same change is requested again"
_ANSWERED: Final = "the answer, INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED, or a new term"
_OUTDATED: Final = "an error that shows that this leader's state is outdated, or an answer for another state"

#: The steps of an ISR.
ISR_EDGES: Final = Edges(
    "the ISR of a partition",
    (IsrState.COMMITTED,),
    {
        IsrState.COMMITTED: {
            IsrState.EXPANDING: "a follower has caught up",
            IsrState.SHRINKING: "followers have fallen behind",
            IsrState.COMMITTED: _NEW_TERM,
        },
        IsrState.EXPANDING: {
            IsrState.COMMITTED: _ANSWERED,
            IsrState.EXPANDING: _AGAIN,
            IsrState.UNKNOWN: _OUTDATED,
        },
        IsrState.SHRINKING: {
            IsrState.COMMITTED: _ANSWERED,
            IsrState.SHRINKING: _AGAIN,
            IsrState.UNKNOWN: _OUTDATED,
        },
        IsrState.UNKNOWN: {IsrState.COMMITTED: _NEW_TERM},
    },
)

#: Errors after which the change has certainly not been made, and the state known to the leader is current.
_REJECTIONS: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})

#: Errors after which a retry would fail in the same way, or after which an earlier attempt, whose answer was lost, has
#: made the change.
_OUTDATED_STATE: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class ProposedIsr(NamedTuple):
    """A change that the leader requests.

    Attributes:
        isr: the in-sync replicas after the change, including the leader.
        leader_epoch: the epoch of the leader.
        partition_epoch: the epoch of the partition state to change.
    """

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


class CommittedIsr(NamedTuple):
    """The state of a partition in the controller's answer. See `ProposedIsr` for the fields."""

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


class InSync:
    """The in-sync replicas of a partition that this broker leads.

    Attributes:
        state: see `IsrState`.
        isr: the committed ISR, in the controller's order.
        maximal: all replicas that may be in the ISR.
        leader_epoch: see `ProposedIsr`.
        partition_epoch: the partition epoch of the committed ISR.
        proposed: the pending change, or None; in `UNKNOWN` there is none.
    """

    __slots__ = ("isr", "leader_epoch", "maximal", "partition_epoch", "proposed", "state")

    def __init__(self, isr: Collection[int], leader_epoch: int, partition_epoch: int) -> None:
        self.state = IsrState.COMMITTED
        self.isr: tuple[int, ...] = ()
        self.maximal: frozenset[int] = frozenset()
        self.proposed: ProposedIsr | None = None
        self._commit(isr, leader_epoch, partition_epoch)

    def begin(self, isr: Collection[int], leader_epoch: int, partition_epoch: int) -> None:
        """Adopt the state that the controller has sent, and drop any pending change.

        Args:
            isr: the in-sync replicas.
            leader_epoch: the epoch of this broker as leader.
            partition_epoch: the epoch of the state, not lower than the current one.
        """
        self._become(IsrState.COMMITTED)
        self._commit(isr, leader_epoch, partition_epoch)

    def expand(self, broker_id: int) -> ProposedIsr:
        """Return the change that adds a replica, which is treated as in sync from now on; only in `COMMITTED`.

        Args:
            broker_id: a replica that is not in the ISR.
        """
        self._become(IsrState.EXPANDING)
        self.maximal |= {broker_id}
        return self._propose((*self.isr, broker_id))

    def shrink(self, broker_ids: Collection[int]) -> ProposedIsr:
        """Return the change that removes replicas, treated as in sync until the answer; only in `COMMITTED`.

        Args:
            broker_ids: replicas in the ISR other than the leader.
        """
        self._become(IsrState.SHRINKING)
        return self._propose(tuple(each for each in self.isr if each not in broker_ids))

    def answered(self, proposed: ProposedIsr, answer: CommittedIsr | ErrorCode) -> bool:
        """Handle the answer to a change; it has no effect if the change is no longer pending.

        Args:
            proposed: the change.
            answer: the resulting state of the partition, or the error.

        Returns:
            Whether to request the same change again.
        """
        if proposed is not self.proposed:
            return False  # a new term arrived before the answer
        if isinstance(answer, CommittedIsr):
            is_for_another = answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch
            if is_for_another:
                self._forget()
            else:
                self._become(IsrState.COMMITTED)
                self._commit(answer.isr, answer.leader_epoch, answer.partition_epoch)
            return False
        if answer in _REJECTIONS:
            self._become(IsrState.COMMITTED)
            self._commit(self.isr, self.leader_epoch, self.partition_epoch)
            return False
        if answer in _OUTDATED_STATE:
            self._forget()
            return False
        self._become(self.state)
        return True

    def _propose(self, isr: tuple[int, ...]) -> ProposedIsr:
        self.proposed = ProposedIsr(isr, self.leader_epoch, self.partition_epoch)
        return self.proposed

    def _forget(self) -> None:
        """Wait for a new term; the maximal ISR stays as it is."""
        self._become(IsrState.UNKNOWN)
        self.proposed = None

    def _commit(self, isr: Collection[int], leader_epoch: int, partition_epoch: int) -> None:
        self.isr = tuple(dict.fromkeys(isr))  # a broker named twice is still one replica
        self.maximal = frozenset(self.isr)
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.proposed = None

    def _become(self, state: IsrState) -> None:
        self.state = ISR_EDGES.follow(self.state, state)
