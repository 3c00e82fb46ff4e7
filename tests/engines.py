"""The codec engines that a test run can use."""

from __future__ import annotations

from kafkawire.sdk.protocol.engines.selection import ENGINES, native

__all__ = ["AVAILABLE"]

#: The engines' names; `native` is missing if it is not built or another engine was requested.
AVAILABLE = [engine for engine in ENGINES if engine != "native" or native is not None]
