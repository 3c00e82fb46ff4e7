"""How long to wait before a retry.

Source: KIP-580 (exponential backoff): the pause doubles, with a jitter of 20 % so that clients that failed together do
not retry together.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Backoff"]

_JITTER = 0.2

#: More doublings than any pause needs; keeps the shift small.
_MAX_DOUBLINGS = 30


class Backoff(NamedTuple):
    """The pauses between attempts.

    Attributes:
        initial_ms: pause before the first retry.
        longest_ms: upper bound, jitter included.
    """

    initial_ms: int = 100
    longest_ms: int = 1_000

    def pause_ms(self, failures: int, fraction: float) -> float:
        """Return how long to wait before the next attempt.

        Args:
            failures: failed attempts in a row, from 1.
            fraction: a random number in [0, 1).
        """
        doubled = self.initial_ms << min(failures - 1, _MAX_DOUBLINGS)
        return min(doubled * (1 - _JITTER + 2 * _JITTER * fraction), self.longest_ms)
