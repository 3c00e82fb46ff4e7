"""The engine that hands out records, in C if the extension is built."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kafkawire.sdk.protocol.engines.selection import ENGINE

__all__ = ["Handout", "RecordIterator", "RecordStream"]

if TYPE_CHECKING:
    from kafkawire.sdk.consumer.reading.engines.python import Handout, RecordIterator, RecordStream
else:
    try:
        _engine = import_module(
            "kafkawire.sdk.consumer.reading.engines." + ("native" if ENGINE == "native" else "python")
        )
    except ImportError:
        _engine = import_module("kafkawire.sdk.consumer.reading.engines.python")
    Handout = _engine.Handout
    RecordIterator = _engine.RecordIterator
    RecordStream = _engine.RecordStream
