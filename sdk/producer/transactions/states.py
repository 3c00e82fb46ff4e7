"""How far a producer's transaction is, and what that means for it."""

from __future__ import annotations

from enum import Enum
from typing import Final

__all__ = ["ENDS", "GOES_WELL", "RESTS", "UNDECIDED", "State"]


class State(Enum):
    """How far a producer's transaction is; the values end the sentence "a transaction is"."""

    READY = "ready"
    OPEN = "open"
    PREPARING = "being prepared"
    PREPARED = "prepared"
    DOOMED = "doomed"
    COMMITTING = "being committed"
    ABORTING = "being aborted"
    RENEWING = "ended, the coordinator raises the epoch"
    FATAL = "fatal"


#: Batches leave, and what goes wrong dooms the transaction.
GOES_WELL: Final = frozenset({State.OPEN, State.PREPARING, State.COMMITTING})
#: Nothing happens until the application asks for something.
RESTS: Final = frozenset({State.READY, State.PREPARED, State.FATAL})
#: The end is under way.
ENDS: Final = frozenset({State.COMMITTING, State.ABORTING, State.RENEWING})
#: It may yet be committed or aborted: nothing has gone wrong, and no end was asked for.
UNDECIDED: Final = frozenset({State.OPEN, State.PREPARING, State.PREPARED})
