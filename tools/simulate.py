"""Run a cluster in virtual time with one seed after another, and show how a seed fails.

`python -m tools.simulate --seeds FROM:TO [--processes N] [--plant NAME] [--trace]` stops at the first seed that fails,
unless `--all` is given. It then removes the parts of the plan that the failure does not need, and prints the rest with
its trace. A planted fault is one from `tests/reference_broker/simulation/plants.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import get_context

from kafkawire.reference_broker.simulation.plan import plan_of
from kafkawire.reference_broker.simulation.shrinking import shrink
from kafkawire.reference_broker.simulation.simulation import simulate
from tests.reference_broker.simulation.plants import PLANTS, planted

__all__ = ["main"]


def _range(text: str) -> range:
    first, _, end = text.partition(":")
    return range(int(first), int(end) if end else int(first) + 1)


def _with(plant: str | None) -> contextlib.AbstractContextManager[None]:
    return planted(plant) if plant else contextlib.nullcontext()


def _violation(seed: int, plant: str | None = None) -> str:
    with _with(plant):
        return simulate(plan_of(seed)).violation


def _violations(seeds: range, plant: str | None, processes: int) -> Iterator[str]:
    """Yield the violation of each seed, in the order of the seeds."""
    violation = partial(_violation, plant=plant)
    if processes == 1:
        yield from map(violation, seeds)
    else:
        with get_context("spawn").Pool(processes) as pool:
            yield from pool.imap(violation, seeds)


def main(arguments: Sequence[str]) -> int:
    """Run the seeds, and return the exit status, which is 1 if any seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.simulate", description=__doc__)
    parser.add_argument(
        "--seeds", type=_range, default=range(20), metavar="FROM:TO", help="the seeds to run; TO is excluded"
    )
    parser.add_argument("--plant", choices=sorted(PLANTS), help="the fault to plant")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="how many seeds run at a time")
    parser.add_argument("--trace", action="store_true", help="print what happens in every seed")
    parser.add_argument("--all", action="store_true", help="continue after a failure, without minimizing it")
    options = parser.parse_args(arguments)
    failed = tried = 0
    began = time.perf_counter()
    for seed, violation in zip(
        options.seeds, _violations(options.seeds, options.plant, options.processes), strict=True
    ):
        tried += 1
        with _with(options.plant):
            if options.trace:
                outcome = simulate(plan_of(seed))
                print("\n".join(outcome.trace))
                print(f"seed {seed}: {outcome.steps} steps, digest {outcome.digest:08x}")
            if not violation:
                continue
            failed += 1
            print(f"seed {seed} fails: {violation}", flush=True)
            if not options.all:
                plan, outcome = shrink(plan_of(seed))
                print("\n".join(outcome.trace))
                print(f"seed {seed} needs these parts of its plan (synced: {plan.is_synced}):")
                print("\n".join(f"  {step}" for step in plan.steps) or "  nothing")
                break
    seconds = time.perf_counter() - began
    print(f"{tried} seeds, {failed} failed, {tried / seconds:.1f} seeds/s")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
