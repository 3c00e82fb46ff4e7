"""Keep an outage from filling the log: one line a second of each kind, which says how many were left out."""

from __future__ import annotations

from typing import Final

__all__ = ["LogLimit"]

#: An outage shows at once, and an hour of it is less than four thousand lines.
_PERIOD_MS: Final = 1_000


class LogLimit:
    """The lines of one kind."""

    def __init__(self) -> None:
        self._not_before_ms = 0
        self._left_out = 0

    def suffix(self, now_ms: int) -> str | None:
        """Return what to add to a line that is written now; None to leave it out."""
        if now_ms < self._not_before_ms:
            self._left_out += 1
            return None
        self._not_before_ms = now_ms + _PERIOD_MS
        left_out, self._left_out = self._left_out, 0
        return f" (and {left_out} more like it)" if left_out else ""
