"""The goals, each of which is the lowest ratio to a peer that is allowed in any case."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.timing import geometric_mean

__all__ = ["Goal", "goal_table"]


class Goal(NamedTuple):
    """A goal, and the ratios that were measured.

    Attributes:
        what: a description of the two times whose ratio is taken.
        wanted: the lowest ratio allowed, that is, how many times as fast we must be.
        ratios: the measured ratios, keyed by case; empty if the peer was skipped. The lowest one decides.
    """

    what: str
    wanted: float
    ratios: dict[str, float]

    @property
    def reached(self) -> float:
        """The lowest ratio, which must reach the goal."""
        return min(self.ratios.values())

    @property
    def worst(self) -> str:
        """The case with the lowest ratio."""
        return min(self.ratios, key=lambda case: self.ratios[case])


def goal_table(goals: Iterable[Goal]) -> str:
    """Return the goals as a Markdown table."""
    lines = ["| goal | wanted | least ratio | where | geometric mean | |", "|---|--:|--:|---|--:|---|"]
    for goal in goals:
        if not goal.ratios:
            lines.append(f"| {goal.what} | {goal.wanted:g}x | - | - | - | not measured |")
            continue
        verdict = "met" if goal.reached >= goal.wanted else f"missed by {1 - goal.reached / goal.wanted:.0%}"
        mean = geometric_mean(goal.ratios.values())
        found = f"{goal.reached:.2f}x | {goal.worst} | {mean:.2f}x"
        lines.append(f"| {goal.what} | {goal.wanted:g}x | {found} | {verdict} |")
    return "\n".join(lines)
