"""Event loops for kafkawire's own threads, whose timers follow the machine's clock.

An asyncio event loop reads `time.monotonic` whenever it looks for timers that are due. In a test that freezes time, for
example with freezegun, the loop's timers would never fire, and a blocking client would wait forever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kafkawire.sdk.clock import monotonic_seconds

__all__ = ["own_loop"]


def own_loop(
    make: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> asyncio.AbstractEventLoop:
    """Return a new event loop, for a thread that runs nothing but kafkawire.

    Args:
        make: creates the loop. A loop that is not written in Python, such as uvloop's, has its own clock.
    """
    loop = make()
    if isinstance(loop, asyncio.BaseEventLoop):
        vars(loop)["time"] = monotonic_seconds
    return loop
