"""Each state is of one kind, as far as the machine asks: it rests, it takes batches, or its end is under way."""

from __future__ import annotations

import pytest

from kafkawire.sdk.producer.transactions.states import ENDS, GOES_WELL, RESTS, UNDECIDED, State


@pytest.mark.parametrize(
    ("state", "rests", "goes_well", "ends", "is_undecided"),
    [
        (State.READY, True, False, False, False),
        (State.OPEN, False, True, False, True),
        (State.PREPARING, False, True, False, True),
        (State.PREPARED, True, False, False, True),
        (State.DOOMED, False, False, False, False),
        (State.COMMITTING, False, True, True, False),
        (State.ABORTING, False, False, True, False),
        (State.RENEWING, False, False, True, False),
        (State.FATAL, True, False, False, False),
    ],
)
def test_kinds(state: State, rests: bool, goes_well: bool, ends: bool, is_undecided: bool) -> None:
    found = [state in kind for kind in (RESTS, GOES_WELL, ENDS, UNDECIDED)]
    assert found == [rests, goes_well, ends, is_undecided]
