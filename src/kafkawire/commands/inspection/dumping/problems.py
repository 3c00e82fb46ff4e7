"""Report the problems of one file, up to a limit."""

from __future__ import annotations

from kafkawire.commands.inspection.dumping.limits import PROBLEMS_MAX
from kafkawire.commands.inspection.dumping.output import Output
from kafkawire.sdk.storage.damage import DamagedContent

__all__ = ["Problems"]


class Problems:
    """Reports the problems of one file.

    Args:
        output: receives the lines.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._count = 0

    def tell(self, reason: str, position: int | None = None) -> None:
        """Report a problem, unless there have been too many.

        Args:
            reason: the fault.
            position: its position in the file in bytes, if it has one.
        """
        self._count += 1
        if self._count <= PROBLEMS_MAX:
            self._output.damage(reason, position)

    def tell_damage(self, damage: DamagedContent) -> None:
        """Report damage that was found while the content was read."""
        self.tell(damage.reason, damage.position)

    def end(self) -> None:
        """Report the number of problems that were not reported individually."""
        if self._count > PROBLEMS_MAX:
            more = self._count - PROBLEMS_MAX
            self._output.damage(f"{more} more problems in this file; only {PROBLEMS_MAX} are reported individually")
