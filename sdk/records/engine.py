"""Find the engine of the records: the extension, the Python twin, or the construct form for decoding.

`KAFKAWIRE_ENGINE` chooses for the whole program, see `kafkawire.sdk.protocol.engine`.
"""

from __future__ import annotations

from types import ModuleType

from kafkawire.sdk.protocol.engine import ENGINE

__all__ = ["native"]

#: The extension, or None where it was not built.
built: ModuleType | None
try:
    from kafkawire.sdk.records import _native as built
except ImportError:
    built = None

#: The extension, or None where it was not built or not wanted.
native: ModuleType | None = built if ENGINE == "native" else None
