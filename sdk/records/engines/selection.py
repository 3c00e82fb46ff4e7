"""Choose the engine for records: the extension, Python, or construct for decoding.

`KAFKAWIRE_ENGINE` sets the engine for the whole program (see `kafkawire.sdk.protocol.engines.selection`).
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from kafkawire.sdk.protocol.engines.selection import ENGINE

__all__ = ["built", "native"]


def _load() -> ModuleType | None:
    try:
        return import_module("kafkawire.sdk.records.engines.native")
    except ImportError:
        return None


#: The extension, or None if it was not built.
built: ModuleType | None = _load()

#: The extension, or None if it was not built or another engine was selected.
native: ModuleType | None = built if ENGINE == "native" else None
