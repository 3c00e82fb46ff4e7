"""How long to wait before a retry.

Source: KIP-580 (exponential backoff): doubling, with a jitter of a fifth so that clients that failed together do not
return together.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Backoff"]

_JITTER = 0.2

#: Doublings after which every pause is the longest one; keeps the shift small.
_MAX_DOUBLINGS = 30


class Backoff(NamedTuple):
    """The pauses between attempts.

    Attributes:
        initial_ms: before the first retry.
        longest_ms: never more than this, jitter included.
    """

    initial_ms: int = 100
    longest_ms: int = 1_000

    def pause_ms(self, failures: int, fraction: float) -> float:
        """Return how long to wait.

        Args:
            failures: attempts that failed in a row, from 1.
            fraction: a random number from 0 up to 1.
        """
        doubled = self.initial_ms << min(failures - 1, _MAX_DOUBLINGS)
        return min(doubled * (1 - _JITTER + 2 * _JITTER * fraction), self.longest_ms)
