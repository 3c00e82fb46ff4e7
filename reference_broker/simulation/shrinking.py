"""Shrink a failing plan: leave out as many faults and operations as possible while it still fails."""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.simulation.plan import Plan
from kafkawire.reference_broker.simulation.simulation import Outcome, simulate

__all__ = ["shrink"]


def shrink(plan: Plan, run: Callable[[Plan], Outcome] = simulate) -> tuple[Plan, Outcome]:
    """Return a minimal plan that fails, and how it fails.

    As in delta debugging, halves of the steps are left out first, then quarters, down to single steps. The failure may
    differ from the original one.

    Args:
        plan: a plan that fails.
        run: carries out a plan.
    """
    outcome = run(plan)
    size = max(len(plan.steps) // 2, 1)
    while plan.steps:
        has_shrunk = False
        start = 0
        while start < len(plan.steps):
            smaller = plan.without(frozenset(plan.steps[start : start + size]))
            tried = run(smaller)
            if tried.violation:
                plan, outcome, has_shrunk = smaller, tried, True
            else:
                start += size
        if size == 1 and not has_shrunk:
            break
        size = max(size // 2, 1)
    return plan, outcome
