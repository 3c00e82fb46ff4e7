"""What is wrong with one file, told up to a limit."""

from __future__ import annotations

from kafkawire.commands.inspection.dumping.limits import PROBLEMS_MAX
from kafkawire.commands.inspection.dumping.output import Output
from kafkawire.sdk.storage.damage import DamagedContent

__all__ = ["Problems"]


class Problems:
    """Tells the problems of one file.

    Args:
        output: gets the lines.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._count = 0

    def tell(self, reason: str, position: int | None = None) -> None:
        """Tell one, as long as there are not too many.

        Args:
            reason: what is wrong.
            position: in the file, in bytes, if it is at one place.
        """
        self._count += 1
        if self._count <= PROBLEMS_MAX:
            self._output.damage(reason, position)

    def tell_damage(self, damage: DamagedContent) -> None:
        """Tell what a reader of the content says."""
        self.tell(damage.reason, damage.position)

    def end(self) -> None:
        """Say how many were not told."""
        if self._count > PROBLEMS_MAX:
            more = self._count - PROBLEMS_MAX
            self._output.damage(f"{more} more problems of this file, {PROBLEMS_MAX} are reported one by one")
