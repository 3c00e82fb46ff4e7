"""Faults at the disk calls of the transaction workload, one after another: `python -m … [KIND …] [--every N]`.

A fault depends only on its kind and the number of the call, so each case can be repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import errno
import logging
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk, Plan, PowerCut, cut_power_at, fail_at
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.transaction_workload import TransactionWorkload

__all__ = ["CALLS", "KINDS", "main", "run_case"]

Settle = Callable[[bool], None]


def _prepared() -> tuple[MemoryDisk, TransactionWorkload]:
    disk, workload = MemoryDisk(), TransactionWorkload()
    bench = workload.bench(disk)
    workload.prepare(bench)
    bench.core.close()
    return disk, workload


_DISK, _WORKLOAD = _prepared()


def prepared() -> tuple[MemoryDisk, TransactionWorkload]:
    """Return a disk with topics, and a workload that has begun."""
    return _DISK.crash(), copy.deepcopy(_WORKLOAD)


def _calls_of_the_workload() -> list[DiskCall]:
    calls: list[DiskCall] = []
    disk, workload = prepared()
    disk.plan = calls.append
    workload.shared.is_strict = True
    workload.run(workload.bench(disk))
    return calls


#: The number of calls in a run without faults.
CALLS = _calls_of_the_workload()


def _started(disk: MemoryDisk, workload: TransactionWorkload, *arguments: Any) -> tuple[MemoryDisk, BrokerBench]:
    """Start a broker; if it does not start, try again as an operator would."""
    try:
        return disk, workload.bench(disk, *arguments)
    except OSError:
        disk = disk.crash()
        return disk, workload.bench(disk, *arguments)


def _checked(workload: TransactionWorkload, left: MemoryDisk) -> tuple[int, ...]:
    bench = workload.bench(left)
    found = workload.check(bench)
    bench.core.directory.abandon()
    return found


def _cut(number: int, is_lossy: bool) -> tuple[int, ...]:
    """Cut the power, or kill the process, during a call."""
    disk, workload = prepared()
    disk.plan = cut_power_at(number)
    with contextlib.suppress(PowerCut):
        workload.run(workload.bench(disk))
    return _checked(workload, disk.crash(number if is_lossy else None))


def _cut_twice(number: int) -> tuple[int, ...]:
    """Cut the power, and cut it again while the broker starts or its clients recover."""
    chance = random.Random(number)
    disk, workload = prepared()
    disk.plan = cut_power_at(number)
    with contextlib.suppress(PowerCut):
        workload.run(workload.bench(disk))
    for _ in range(2):
        disk = disk.crash(chance.choice((None, chance.randint(0, 10**9))))
        disk.plan = cut_power_at(chance.randint(1, 400))
        with contextlib.suppress(PowerCut):
            workload.check(workload.bench(disk))
        workload.shared.is_strict = False
    return _checked(workload, disk.crash(chance.randint(0, 10**9)))


def _fail(number: int, code: int) -> tuple[int, ...]:
    """Let a call fail; the broker continues, and is restarted both during the workload and after it."""
    disk, workload = prepared()
    disk.plan = fail_at(number, code)
    disk, bench = _started(disk, workload)
    workload.run(bench)
    workload.check_works_on(bench)
    return _checked(workload, disk.crash(number if number % 2 else None))


def _fail_and_cut(number: int) -> tuple[int, ...]:
    """Let a call fail, and cut the power later."""
    chance = random.Random(number)
    disk, workload = prepared()
    disk.plan = _first_then(fail_at(number, chance.choice((errno.EIO, errno.ENOSPC))), number + chance.randint(1, 600))
    with contextlib.suppress(PowerCut):
        disk, bench = _started(disk, workload)
        workload.run(bench)
    return _checked(workload, disk.crash(chance.choice((None, number))))


def _first_then(first: Plan, cut_at: int) -> Plan:
    cut = cut_power_at(cut_at)

    def plan(call: DiskCall) -> None:
        first(call)
        cut(call)

    return plan


def _behind(number: int, *, is_cut: bool) -> tuple[int, ...]:
    """Like `_fail`, but background work is randomly delayed: appends share syncs, and wait for new segments."""
    chance, work = random.Random(number), HeldWork()
    disk, workload = prepared()

    def settle(is_all: bool) -> None:
        work.run(None if is_all else chance.choice((0, 1, 3, 10)))

    disk.plan = cut_power_at(number) if is_cut else fail_at(number, chance.choice((errno.EIO, errno.ENOSPC)))
    with contextlib.suppress(PowerCut):
        disk, bench = _started(disk, workload, work)
        workload.run(bench, settle)
        work.run()
    return _checked(workload, disk.crash(chance.choice((None, number))))


#: The faults that can happen at a call.
KINDS: Mapping[str, Callable[[int], tuple[int, ...]]] = {
    "kill": lambda number: _cut(number, is_lossy=False),
    "power": lambda number: _cut(number, is_lossy=True),
    "EIO": lambda number: _fail(number, errno.EIO),
    "ENOSPC": lambda number: _fail(number, errno.ENOSPC),
    "fail+power": _fail_and_cut,
    "power+power": _cut_twice,
    "behind+power": lambda number: _behind(number, is_cut=True),
    "behind+fail": lambda number: _behind(number, is_cut=False),
}


def run_case(kind: str, number: int) -> tuple[int, ...]:
    """Cause one fault at one call, check the remaining data, and return the number of records.

    Raises:
        AssertionError: the broker has broken a promise.
    """
    return KINDS[kind](number)


def main(arguments: list[str]) -> int:
    """Run cases, print the results, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.reference_broker.transaction_failures")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"one of {', '.join(KINDS)}; all by default")
    parser.add_argument("--every", type=int, default=1, help="try every n-th call")
    parser.add_argument("--first", type=int, default=1, help="begin with this call")
    parser.add_argument("--only", type=int, help="try only this call, and show what happens")
    given = parser.parse_args(arguments)
    if given.only is None:
        logging.disable(logging.CRITICAL)
    else:
        logging.basicConfig()
    failed = 0
    for kind in given.kinds or KINDS:
        begun = time.monotonic()
        outcomes: Counter[str] = Counter()
        numbers = range(given.first, len(CALLS) + 1, given.every) if given.only is None else [given.only]
        for number in numbers:
            try:
                run_case(kind, number)
            except Exception as error:
                failed += 1
                what = str(error).splitlines()[0] if str(error) else ""
                outcomes[what] += 1
                if given.only is not None:
                    traceback.print_exc()
                elif outcomes[what] <= 3:
                    print(f"{kind} at {number}, {CALLS[number - 1][1:]}: {type(error).__name__}: {what}", flush=True)
        seconds = time.monotonic() - begun
        print(
            f"{kind}: {len(numbers):,} of {len(CALLS):,} calls, {outcomes.total()} failures, {seconds:.0f} s",
            flush=True,
        )
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
