"""Which event loops the tests run on: those of asyncio, of uvloop, or asyncio's with eager tasks.

`KAFKAWIRE_TEST_LOOP=asyncio|uvloop|eager` chooses for a whole run (`make test-loops`). Every `asyncio.run`, every
runner, I/O thread and broker of the run then makes loops of that kind, as after `uvloop.install()`.
"""

from __future__ import annotations

import asyncio
import os
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["LOOP", "LOOPS", "makes_loops", "new_loop"]

#: The kinds of event loops.
LOOPS = ("asyncio", "uvloop", "eager")

#: That of this run.
LOOP = os.environ.get("KAFKAWIRE_TEST_LOOP", LOOPS[0])

_new_event_loop = asyncio.new_event_loop


def new_loop(kind: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes event loops of a kind.

    Raises:
        ValueError: there is no such kind.
        ImportError, AttributeError: this Python has no uvloop, or no eager tasks.
    """
    if kind == "asyncio":
        return _new_event_loop
    if kind == "uvloop":
        import uvloop  # an extra

        return uvloop.new_event_loop
    if kind == "eager":
        factory = asyncio.eager_task_factory  # type: ignore[attr-defined]  # since Python 3.12

        def eager() -> asyncio.AbstractEventLoop:
            loop = _new_event_loop()
            loop.set_task_factory(factory)
            return loop

        return eager
    raise ValueError(f"KAFKAWIRE_TEST_LOOP={kind!r} is none of {', '.join(LOOPS)}")


@contextmanager
def makes_loops(kind: str) -> Iterator[None]:
    """Have asyncio make event loops of a kind, wherever it makes one."""
    before = asyncio.new_event_loop
    asyncio.new_event_loop = events.new_event_loop = new_loop(kind)
    try:
        yield
    finally:
        asyncio.new_event_loop = events.new_event_loop = before
