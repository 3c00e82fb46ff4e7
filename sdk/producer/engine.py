"""The engine of `send` in use, and both engines by name."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.producer.engines import selection as engines

__all__ = ["Appender", "Batch", "Delivery", "Topic", "engine_module"]

if TYPE_CHECKING or engines.native is None:
    from kafkawire.sdk.producer.engines.python import Appender, Batch, Delivery, Topic
else:
    Appender = engines.native.Appender
    Batch = engines.native.Batch
    Delivery = engines.native.Delivery
    Topic = engines.native.Topic


def engine_module(name: str) -> ModuleType:
    """Return an engine.

    Args:
        name: `native` or `python`.

    Raises:
        LocalProtocolError: it is not available here.
    """
    if name == "native" and engines.built is not None:
        return engines.built
    if name == "python":
        from kafkawire.sdk.producer.engines import python

        return python
    raise LocalProtocolError(f"engine {name!r} is not available here")
