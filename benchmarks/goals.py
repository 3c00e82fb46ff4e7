"""What the measurements are held to: a least ratio over a peer, in the worst case or in the geometric mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.timing import geometric_mean

__all__ = ["Goal", "goal_table"]


class Goal(NamedTuple):
    """A ratio that is wanted, and those that were measured.

    Attributes:
        what: whose time over whose.
        wanted: least ratio; "how many times as fast".
        ratios: measured, by the name of the case; none if the peer was left out.
        of_mean: whether the geometric mean counts, not the worst case.
    """

    what: str
    wanted: float
    ratios: dict[str, float]
    of_mean: bool = False

    @property
    def reached(self) -> float:
        """What counts of the ratios."""
        return geometric_mean(self.ratios.values()) if self.of_mean else min(self.ratios.values())

    @property
    def worst(self) -> str:
        """The case with the least ratio."""
        return min(self.ratios, key=lambda case: self.ratios[case])


def goal_table(goals: Iterable[Goal]) -> str:
    """Return the goals as a table in Markdown."""
    lines = ["| goal | wanted | least ratio | where | geometric mean | |", "|---|--:|--:|---|--:|---|"]
    for goal in goals:
        wanted = f"{goal.wanted:g}x" + (" in the mean" if goal.of_mean else "")
        if not goal.ratios:
            lines.append(f"| {goal.what} | {wanted} | - | - | - | not measured |")
            continue
        verdict = "met" if goal.reached >= goal.wanted else f"missed by {1 - goal.reached / goal.wanted:.0%}"
        mean = geometric_mean(goal.ratios.values())
        least = min(goal.ratios.values())
        lines.append(f"| {goal.what} | {wanted} | {least:.2f}x | {goal.worst} | {mean:.2f}x | {verdict} |")
    return "\n".join(lines)
