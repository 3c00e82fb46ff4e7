"""Whichever disk call fails, and whenever the power is cut, each record exists once, and each transaction is atomic.

Method: run a scripted workload of everything that the broker stores (`transaction_workload.py`) on an in-memory disk,
and cause a fault at a disk call (`transaction_failures.py`); then start a broker on the remaining files, and compare
its data with the responses that clients got. This module samples the calls, differently for each kind of fault; `python
-m tests.reference_broker.transaction_failures` tries every call with each kind.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.disk.memory import DiskCall
from tests.reference_broker.transaction_failures import CALLS, KINDS, prepared, run_case
from tests.thorough import sampled

#: The interval between the calls that are tried; each kind of fault begins with a different call.
EVERY = 101

#: Parts of the paths of files that the workload touches.
_PARTS = (
    ".cleaned",
    ".creating",
    ".deleted",
    ".deleting",
    ".snapshot",
    ".swap",
    ".txnindex",
    "__consumer_offsets-0",
    "__transaction_state-0",
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
)


def test_workload_has_all_of_it() -> None:
    disk, workload = prepared()
    calls: list[DiskCall] = []
    disk.plan = calls.append
    bench = workload.bench(disk)
    workload.shared.is_strict = True
    workload.run(bench)
    paths = {call.path for call in calls}
    for part in _PARTS:
        assert any(part in path for path in paths), part
    assert len(CALLS) > 2_000
    ends = [made.is_committed for transactor in workload.transactors for made in transactor.transactions]
    assert (ends.count(True), ends.count(False)) == (8, 6)
    workload.check_works_on(bench)
    again = workload.bench(disk.crash())
    numbers, aged, *transacted = workload.check(again)
    assert numbers > 5
    assert aged < numbers
    assert min(transacted) > 0


@pytest.mark.parametrize("kind", sampled(list(KINDS), 8))
def test_sample_of_calls(kind: str) -> None:
    first = 1 + list(KINDS).index(kind) * EVERY // len(KINDS)
    left = {run_case(kind, number) for number in range(first, len(CALLS) + 1, EVERY)}
    assert len(left) > 3, "faults at different places leave different files"
