"""Keep the last record for each key: the current state, however often it was overwritten in the log.

Superseded records are never decoded, and the extension creates no objects for them, which lets a broker read ten
million commits of a few thousand partitions. `engines/python_latest.py` documents the class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.sdk.records.engines.python_latest import LatestRecords, Stored
from kafkawire.sdk.records.engines.selection import native

__all__ = ["LatestRecords", "Stored"]

if not TYPE_CHECKING and native is not None:
    LatestRecords = native.LatestRecords
