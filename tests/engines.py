"""The codec engines that a run can test."""

from __future__ import annotations

from kafkawire.sdk.protocol.engines.selection import ENGINES, native

__all__ = ["AVAILABLE"]

#: Their names, without `native` if it is not built or if another engine was requested.
AVAILABLE = [engine for engine in ENGINES if engine != "native" or native is not None]
