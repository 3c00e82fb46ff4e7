"""Run hundreds of thousands of seeded sequences from the command line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

__all__ = ["run_seeds"]

#: The number of sequences between progress lines.
_PROGRESS = 1_000


def run_seeds(run: Callable[[int], None]) -> None:
    """Run sequences; the program's arguments are the number of sequences and the first seed.

    Args:
        run: runs one sequence; raises AssertionError.
    """
    count = int(sys.argv[1])
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    began = time.monotonic()
    for number in range(count):
        run(first + number)
        if not (number + 1) % _PROGRESS:
            print(f"{number + 1} of {count} sequences in {time.monotonic() - began:.0f} s", flush=True)
    print(f"{count} sequences from seed {first}: every invariant held")
