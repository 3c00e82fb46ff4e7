"""The states of a producer's transaction, what they mean, and the transitions between them."""

from __future__ import annotations

from enum import Enum
from typing import Final

from kafkawire.sdk.states import Edges

__all__ = ["ABORTABLE", "ENDS", "GOES_WELL", "RESTS", "TRANSACTION_EDGES", "State"]


class State(Enum):
    """The state of a producer's transaction; the values complete the sentence "a transaction is"."""

    #: No transaction is open.
    READY = "ready"
    #: Batches, partitions and groups are being added.
    OPEN = "open"
    #: Its records and offsets are being sent, and no more are added.
    PREPARING = "being prepared"
    #: All its data is stored, and it may outlive its producer.
    PREPARED = "prepared"
    #: A step has failed: the transaction can only be aborted.
    DOOMED = "doomed"
    #: Its records and offsets are being sent; then the coordinator is asked to commit.
    COMMITTING = "being committed"
    #: Requests in flight end first; then the coordinator is asked to abort.
    ABORTING = "being aborted"
    #: The next transaction needs another epoch.
    RENEWING = "ended, and the coordinator is raising the epoch"
    #: The producer is permanently unusable.
    FATAL = "fatal"


#: In these states, batches are sent, and an error dooms the transaction.
GOES_WELL: Final = frozenset({State.OPEN, State.PREPARING, State.COMMITTING})
#: In these states, nothing happens until the application calls a method.
RESTS: Final = frozenset({State.READY, State.PREPARED, State.FATAL})
#: In these states, the transaction is being ended.
ENDS: Final = frozenset({State.COMMITTING, State.ABORTING, State.RENEWING})
#: In these states, the application may abort the transaction, since no end has been requested yet.
ABORTABLE: Final = frozenset({State.OPEN, State.PREPARING, State.PREPARED, State.DOOMED})

TRANSACTION_EDGES: Final = Edges(
    "a transaction of a producer",
    (State.READY,),
    {
        State.READY: {State.OPEN: "begin"},
        State.OPEN: {
            State.PREPARING: "prepare",
            State.COMMITTING: "commit",
            State.ABORTING: "abort",
            State.DOOMED: "a delivery or an addition fails",
        },
        State.PREPARING: {
            State.PREPARED: "all that was added is stored",
            State.ABORTING: "abort",
            State.DOOMED: "a delivery or an addition fails",
        },
        State.PREPARED: {State.COMMITTING: "commit", State.ABORTING: "abort"},
        State.DOOMED: {State.ABORTING: "commit or abort"},
        State.COMMITTING: {
            State.ABORTING: "a delivery fails, or the coordinator cannot commit",
            State.READY: "the coordinator has committed, or nothing had joined",
            State.RENEWING: "the same, and the next one needs another epoch",
        },
        State.ABORTING: {
            State.READY: "the coordinator has aborted, or nothing had joined",
            State.RENEWING: "the same, and the next one needs another epoch",
        },
        State.RENEWING: {State.READY: "the coordinator has raised the epoch"},
    },
    from_any={State.FATAL: "the producer is fenced or refused, or its client has ended"},
)
