"""Event loops of kafkawire's own threads, whose timers follow the machine's clock.

An event loop of asyncio reads `time.monotonic` whenever it looks for timers that are due. In a test that freezes the
time, for example with freezegun, its timers would never fire, and a blocking client would wait for ever.
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
        make: how to make it. A loop that is not written in Python, such as uvloop's, has a clock of its own.
    """
    loop = make()
    if isinstance(loop, asyncio.BaseEventLoop):
        vars(loop)["time"] = monotonic_seconds
    return loop
