"""Time functions in one process; they take turns, and the best of several rounds is reported.

Machines are shared and their clock rates drift, so only ratios between functions measured in turn are meaningful, and
the shortest time is the least disturbed."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable
from time import perf_counter

__all__ = ["best_seconds", "geometric_mean"]


def best_seconds(
    functions: dict[str, Callable[[], object]], seconds: float = 0.2, rounds: int = 15
) -> dict[str, float]:
    """Return the seconds that one call of each function takes.

    Args:
        functions: the functions, keyed by name; they take turns.
        seconds: the time per function, over all rounds.
        rounds: how many turns each function gets.
    """
    best = {}
    counts = {}
    for name, function in functions.items():
        function()
        start = perf_counter()
        function()
        best[name] = perf_counter() - start
        counts[name] = max(1, int(seconds / rounds / max(best[name], 1e-7)))
    for _ in range(rounds):
        for name, function in functions.items():
            gc.collect()
            calls = range(counts[name])
            start = perf_counter()
            for _ in calls:
                function()
            best[name] = min(best[name], (perf_counter() - start) / counts[name])
    return best


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean, which is the right mean for ratios."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))
