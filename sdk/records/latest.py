"""The last record of each key: what is left of a log of states, however often each was written.

Superseded records are never decoded, and in the extension they make no object: a broker reads ten million commits of a
few thousand partitions so. `engines/python_latest.py` documents it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.sdk.records.engines.python_latest import LatestRecords, Stored
from kafkawire.sdk.records.engines.selection import native

__all__ = ["LatestRecords", "Stored"]

if not TYPE_CHECKING and native is not None:
    LatestRecords = native.LatestRecords
