"""Upkeep never removes data that must stay, no matter which disk call fails or when the power is cut.

Method: as in `test_disk_failures.py`, run a scripted workload (`upkeep_workload.py`) on an in-memory disk once for each
disk call; let that call fail, or cut the power during it, and then start a broker on the remaining files.
"""

from __future__ import annotations

import contextlib
import errno
import random
from itertools import product

import pytest

from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk, PowerCut, cut_power_at, fail_at
from tests.reference_broker.storage.cleaning.upkeep_workload import UpkeepWorkload
from tests.reference_broker.storage.held_work import HeldWork
from tests.thorough import sampled

#: Each case takes every n-th call, so together the cases cover all calls; `make test` runs one case.
SHARES = 16

#: The number of pieces of background work that run at a time.
PIECES = (0, 1, 3, 10)


def with_topics() -> MemoryDisk:
    disk = MemoryDisk()
    UpkeepWorkload.prepare(disk)
    return disk


TOPICS = with_topics()


def prepared() -> MemoryDisk:
    """Return a disk with the topics, as after a restart of the machine."""
    return TOPICS.crash()


def calls_of_the_workload() -> list[DiskCall]:
    disk, calls = prepared(), []
    disk.plan = calls.append
    UpkeepWorkload().run(UpkeepWorkload.bench(disk))
    return calls


CALLS = calls_of_the_workload()


def test_workload_has_all_of_it():
    paths = [call.path for call in CALLS]
    for part in (".cleaned", ".swap", ".deleted", "cleaner-offset-checkpoint", "log-start-offset-checkpoint"):
        assert any(part in path for path in paths), part
    disk, workload = prepared(), UpkeepWorkload()
    workload.run(UpkeepWorkload.bench(disk))
    assert workload.refused == set()
    assert workload.deleted_to == 7
    assert [len(entries) for entries in workload.acknowledged.values()] == [14, 14, 14]
    aged, cut, compacted = workload.check(disk.crash())
    assert (aged, cut) == (0, 7)
    assert compacted < 8
    for seed in range(20):
        workload.check(disk.crash(seed))


@pytest.mark.parametrize("share", sampled(range(SHARES), SHARES))
def test_power_goes_at_every_call(share):
    kept = set()
    for number in range(1 + share, len(CALLS) + 1, SHARES):
        disk, workload = prepared(), UpkeepWorkload()
        disk.plan = cut_power_at(number)
        with pytest.raises(PowerCut):
            workload.run(UpkeepWorkload.bench(disk))
        for seed in (None, number):
            kept.add(workload.check(disk.crash(seed)))
    assert len(kept) > 10, "cuts at different places leave different results"


@pytest.mark.parametrize(("code", "share"), sampled(product((errno.EIO, errno.ENOSPC), range(SHARES)), 2 * SHARES))
def test_every_call_fails(code, share):
    for number in range(1 + share, len(CALLS) + 1, SHARES):
        disk, workload = prepared(), UpkeepWorkload()
        disk.plan = fail_at(number, code)
        try:
            bench = UpkeepWorkload.bench(disk)
        except OSError:
            disk = disk.crash()
            bench = UpkeepWorkload.bench(disk)
        workload.run(bench)
        may_keep_refused = CALLS[number - 1].name in ("sync", "sync_folder")
        workload.check(disk.crash(number if number % 2 else None), may_keep_refused=may_keep_refused)


@pytest.mark.parametrize("share", sampled(range(SHARES), SHARES))
def test_power_goes_while_much_is_in_flight(share):
    """The guarantees also hold when background work is randomly delayed."""
    for seed in range(share, 120, SHARES):
        chance = random.Random(seed)
        disk, workload, work = prepared(), UpkeepWorkload(), HeldWork()

        disk.plan = cut_power_at(chance.randint(1, len(CALLS)))
        with contextlib.suppress(PowerCut):
            workload.run(UpkeepWorkload.bench(disk, work), work.by_chance(chance, PIECES))
        for crash in (None, seed):
            workload.check(disk.crash(crash), may_keep_refused=True)
