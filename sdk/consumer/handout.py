"""What hands out records, in C where the extension is built."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kafkawire.sdk.protocol.engines.selection import ENGINE

__all__ = ["Handout", "RecordStream"]

if TYPE_CHECKING:
    from kafkawire.sdk.consumer.python_handout import Handout, RecordStream
else:
    try:
        _engine = import_module(
            "kafkawire.sdk.consumer." + ("native_handout" if ENGINE == "native" else "python_handout")
        )
    except ImportError:
        _engine = import_module("kafkawire.sdk.consumer.python_handout")
    Handout = _engine.Handout
    RecordStream = _engine.RecordStream
