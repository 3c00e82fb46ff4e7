"""Choose the stored batches from which a log rebuilds its producer states: recent ones and transaction bounds.

These suffice: duplicates are detected by comparing with the last batches, and a transaction begins with its first batch
and ends with a control batch. The extension creates no objects for other batches. `engines/python_last_batches.py`
documents the function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.sdk.records.engines.python_last_batches import LastBatches, last_batches
from kafkawire.sdk.records.engines.selection import native

__all__ = ["LastBatches", "last_batches"]

if not TYPE_CHECKING and native is not None:
    last_batches = native.last_batches
