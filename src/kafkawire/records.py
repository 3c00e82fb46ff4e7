"""Record batches: put them together, find them in bytes, read them, compress them.

batch = BatchBuilder(compression=Compression.LZ4)
batch.append(timestamp, b"key", b"value", (("name", b"content"),))
for found in walk(batch.seal()):
    found.records()
"""

from __future__ import annotations

from kafkawire.sdk.records import (
    Batch,
    BatchBuilder,
    Compression,
    MessageBatch,
    MessageSetBuilder,
    Record,
    RecordBatch,
    TimestampType,
    stamp,
    walk,
    walk_headers,
)

__all__ = [
    "Batch",
    "BatchBuilder",
    "Compression",
    "MessageBatch",
    "MessageSetBuilder",
    "Record",
    "RecordBatch",
    "TimestampType",
    "stamp",
    "walk",
    "walk_headers",
]
