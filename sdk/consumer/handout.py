"""What hands out records, in C where the extension is built."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kafkawire.sdk.protocol.engines.selection import ENGINE

__all__ = ["Handout", "RecordIterator", "RecordStream"]

if TYPE_CHECKING:
    from kafkawire.sdk.consumer.python_handout import Handout, RecordIterator, RecordStream
else:
    try:
        _engine = import_module(
            "kafkawire.sdk.consumer." + ("native_handout" if ENGINE == "native" else "python_handout")
        )
    except ImportError:
        _engine = import_module("kafkawire.sdk.consumer.python_handout")
    Handout = _engine.Handout
    RecordIterator = _engine.RecordIterator
    RecordStream = _engine.RecordStream
