"""The engines of the codec that a run can test."""

from __future__ import annotations

from kafkawire.sdk.protocol.engines.selection import ENGINES, native

__all__ = ["AVAILABLE"]

#: Their names: without `native` where it is not built, or where another engine was asked for.
AVAILABLE = [engine for engine in ENGINES if engine != "native" or native is not None]
