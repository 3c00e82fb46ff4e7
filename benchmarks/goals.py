"""What the measurements are held to: a least ratio over a peer."""

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
        ratios: measured, by the name of the case; none if the peer was left out. The least of them counts.
    """

    what: str
    wanted: float
    ratios: dict[str, float]

    @property
    def reached(self) -> float:
        """The least ratio, which the goal is held to."""
        return min(self.ratios.values())

    @property
    def worst(self) -> str:
        """The case with the least ratio."""
        return min(self.ratios, key=lambda case: self.ratios[case])


def goal_table(goals: Iterable[Goal]) -> str:
    """Return the goals as a table in Markdown."""
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
