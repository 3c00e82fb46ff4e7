"""Select the engine of `send`: the extension, or Python.

`KAFKAWIRE_ENGINE` chooses for the whole program (see `kafkawire.sdk.protocol.engines.selection`).
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from kafkawire.sdk.protocol.engines.selection import ENGINE

__all__ = ["built", "native"]


def _load() -> ModuleType | None:
    try:
        return import_module("kafkawire.sdk.producer.engines.native")
    except ImportError:
        return None


#: The extension, or None if it was not built.
built: ModuleType | None = _load()

#: The extension, or None if it was not built or is not wanted.
native: ModuleType | None = built if ENGINE == "native" else None
