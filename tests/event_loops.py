"""The kinds of event loops that tests use: asyncio's, uvloop's, and asyncio's with eager tasks.

`KAFKAWIRE_TEST_LOOP=asyncio|uvloop|eager` chooses the kind for a whole run (`make test-loops`). Every `asyncio.run`,
runner, I/O thread and broker in the run then creates loops of that kind, as after `uvloop.install()`.
"""

from __future__ import annotations

import asyncio
import os
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["LOOP_KIND", "LOOP_KINDS", "loops_of_kind"]

#: The kinds of event loops.
LOOP_KINDS = ("asyncio", "uvloop", "eager")

#: The kind of event loop that this run tests.
LOOP_KIND = os.environ.get("KAFKAWIRE_TEST_LOOP", LOOP_KINDS[0])

_new_event_loop = asyncio.new_event_loop


@contextmanager
def loops_of_kind(kind: str) -> Iterator[None]:
    """Make asyncio create only event loops of this kind.

    Raises:
        ValueError: there is no such kind.
        ImportError, AttributeError: this Python has no uvloop, or no eager tasks.
    """
    before = asyncio.new_event_loop
    asyncio.new_event_loop = events.new_event_loop = _loop_factory(kind)
    try:
        yield
    finally:
        asyncio.new_event_loop = events.new_event_loop = before


def _loop_factory(kind: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return a function that creates event loops of one kind."""
    if kind == "asyncio":
        return _new_event_loop
    if kind == "uvloop":
        import uvloop  # uvloop is an extra

        return uvloop.new_event_loop
    if kind == "eager":
        factory = asyncio.eager_task_factory  # type: ignore[attr-defined]  # since Python 3.12

        def eager() -> asyncio.AbstractEventLoop:
            loop = _new_event_loop()
            loop.set_task_factory(factory)
            return loop

        return eager
    raise ValueError(f"KAFKAWIRE_TEST_LOOP={kind!r} must be one of {', '.join(LOOP_KINDS)}")
