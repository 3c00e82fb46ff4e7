"""Find the engine of the records: the extension, Python, or construct for decoding.

`KAFKAWIRE_ENGINE` chooses for the whole program, see `kafkawire.sdk.protocol.engines.selection`.
"""

from __future__ import annotations

from types import ModuleType

from kafkawire.sdk.protocol.engines.selection import ENGINE, load

__all__ = ["built", "native"]

#: The extension, or None where it was not built, or not wanted and a free-threaded Python has its lock off.
built: ModuleType | None = load("kafkawire.sdk.records.engines.native", wanted=ENGINE == "native")

#: The extension, or None where it was not built or not wanted.
native: ModuleType | None = built if ENGINE == "native" else None
