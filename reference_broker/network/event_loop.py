"""The choice of the event loop for a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module

from kafkawire.sdk.errors import ConfigurationError

__all__ = ["loop_factory"]


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return a factory for event loops.

    Args:
        name: `asyncio` or `uvloop`.

    Raises:
        ConfigurationError: the loop is not installed.
    """
    if name == "asyncio":
        return asyncio.new_event_loop
    try:
        made: Callable[[], asyncio.AbstractEventLoop] = import_module(name).new_event_loop
    except ImportError:
        raise ConfigurationError("event_loop", name, "uvloop is not installed; install it with pip") from None
    return made
