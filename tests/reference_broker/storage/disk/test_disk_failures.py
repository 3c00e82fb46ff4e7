"""Acknowledged and synced records survive, no matter which disk call fails or when the power is cut.

Method: run a scripted workload (`disk_workload.py`) on an in-memory disk once for each disk call; let that call fail,
or cut the power during it. Then start a broker on the remaining files, as after a crash of the process and after power
cuts with several seeds, and compare its data with the acknowledged, refused and deleted records.
"""

from __future__ import annotations

import contextlib
import errno
import random

import pytest

from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk, PowerCut, cut_power_at, fail_at
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.storage.disk.disk_workload import Ledger, run
from tests.reference_broker.storage.held_work import HeldWork
from tests.thorough import sampled

#: The number of power cuts to try at each call.
SEEDS = range(2)

#: Each case takes every n-th call, so together the cases cover all calls; `make test` runs one case.
SHARES = 16

#: The same for random seeds.
SEED_SHARES = 8

#: The number of pieces of background work that run at a time.
PIECES = (0, 0, 1, 3)


def calls_of_the_workload() -> list[DiskCall]:
    disk, calls = MemoryDisk(), []
    disk.plan = calls.append
    run(BrokerBench(disk), Ledger())
    return calls


CALLS = calls_of_the_workload()


def test_workload_meets_every_kind_of_call():
    names = {call.name for call in CALLS}
    assert {"create", "open", "append", "truncate", "sync", "sync_folder", "rename", "remove", "remove_folder"} <= names
    assert {"make_folder", "names", "size_of", "read", "lock"} <= names
    assert len(CALLS) > 400


def test_nothing_fails():
    disk, ledger = MemoryDisk(), Ledger()
    run(BrokerBench(disk), ledger)
    assert not ledger.refused
    assert len(ledger.acknowledged) == len(ledger.sent) == 43
    assert len(ledger.topics) == 4
    assert len(ledger.deleted) == 2
    assert ledger.check(disk.crash(), loses_unsynced=False) == 22
    for seed in range(20):
        ledger.check(disk.crash(seed), loses_unsynced=True)


@pytest.mark.parametrize("share", sampled(range(SHARES), SHARES))
def test_power_goes_at_every_call(share):
    kept = set()
    for number in range(1 + share, len(CALLS) + 1, SHARES):
        disk, ledger = MemoryDisk(), Ledger()
        disk.plan = cut_power_at(number)
        with pytest.raises(PowerCut):
            run(BrokerBench(disk), ledger)
        kept.add(ledger.check(disk.crash(), loses_unsynced=False))
        for seed in SEEDS:
            kept.add(ledger.check(disk.crash(1000 * number + seed), loses_unsynced=True))
    assert len(kept) > 10, "cuts at different places leave different results"


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("share", sampled(range(SHARES), SHARES))
def test_every_call_fails(share, code):
    refused = 0
    for number in range(1 + share, len(CALLS) + 1, SHARES):
        disk, ledger = MemoryDisk(), Ledger()
        disk.plan = fail_at(number, code)
        try:
            bench = BrokerBench(disk)
        except OSError:
            # The broker does not start, and the operator tries again.
            disk = disk.crash()
            bench = BrokerBench(disk)
        run(bench, ledger)
        refused += len(ledger.refused)
        failed = CALLS[number - 1]
        may_keep_refused = failed.name in ("sync", "sync_folder")
        ledger.check(disk.crash(), loses_unsynced=False, may_keep_refused=may_keep_refused)
        for seed in SEEDS:
            ledger.check(disk.crash(seed), loses_unsynced=True, may_keep_refused=may_keep_refused)
    assert refused > 25


@pytest.mark.parametrize("share", sampled(range(SEED_SHARES), SEED_SHARES))
def test_power_goes_while_much_is_in_flight(share):
    """The guarantees also hold when background work is randomly late: appends share syncs or wait for new segments."""
    for seed in range(share, 160, SEED_SHARES):
        chance = random.Random(seed)
        disk, ledger, work = MemoryDisk(), Ledger(), HeldWork()

        disk.plan = cut_power_at(chance.randint(1, len(CALLS)))
        with contextlib.suppress(PowerCut):
            run(BrokerBench(disk, work), ledger, work.by_chance(chance, PIECES))
        ledger.check(disk.crash(), loses_unsynced=False)
        ledger.check(disk.crash(seed), loses_unsynced=True)


@pytest.mark.parametrize("share", sampled(range(SEED_SHARES), SEED_SHARES))
def test_disk_fails_now_and_then_while_much_is_in_flight(share):
    refused = acknowledged = 0
    for seed in range(share, 160, SEED_SHARES):
        chance = random.Random(seed)
        disk, ledger, work = MemoryDisk(), Ledger(), HeldWork()

        bench = BrokerBench(disk, work)
        disk.plan = fail_at(disk.calls + chance.randint(1, len(CALLS)))
        run(bench, ledger, work.by_chance(chance, PIECES))
        refused += len(ledger.refused)
        acknowledged += len(ledger.acknowledged)
        ledger.check(disk.crash(), loses_unsynced=False, may_keep_refused=True)
        ledger.check(disk.crash(seed), loses_unsynced=True, may_keep_refused=True)
    assert refused > 5
    assert acknowledged > 500


@pytest.mark.parametrize("capacity_bytes", sampled(range(1500, 12_000, 293), 6))
def test_disk_runs_full(capacity_bytes):
    disk, ledger = MemoryDisk(capacity_bytes), Ledger()
    run(BrokerBench(disk), ledger)
    larger = disk.crash()
    larger.capacity_bytes = None
    ledger.check(larger, loses_unsynced=False)
    for seed in SEEDS:
        larger = disk.crash(seed)
        larger.capacity_bytes = None
        ledger.check(larger, loses_unsynced=True)
