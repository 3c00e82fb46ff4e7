"""Which of many stored batches say what a log knows of its producers: their last ones, and where transactions are.

To note those alone is as good as to note all: a duplicate is recognised in the last batches, a transaction begins with
its first, and control batches end it. In the extension, the others make no object.
`engines/python_last_batches.py` documents it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.sdk.records.engines.python_last_batches import LastBatches, last_batches
from kafkawire.sdk.records.engines.selection import native

__all__ = ["LastBatches", "last_batches"]

if not TYPE_CHECKING and native is not None:
    last_batches = native.last_batches
