"""Find the engine of `send`: the extension, or Python.

`KAFKAWIRE_ENGINE` chooses for the whole program, see `kafkawire.sdk.protocol.engines.selection`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from kafkawire.sdk.protocol.engines.selection import ENGINE

__all__ = ["native"]


def _load() -> ModuleType | None:
    if ENGINE != "native":
        return None
    try:
        return import_module("kafkawire.sdk.producer.engines.native")
    except ImportError:
        return None


#: The extension, or None where it was not built or not wanted.
native: ModuleType | None = _load()
