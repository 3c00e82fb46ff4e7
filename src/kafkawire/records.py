"""Record batches: build them, find them in bytes, read them.

    builder = BatchBuilder(compression=Compression.LZ4)
    builder.append(1_700_000_000_000, b"key", b"value", (("name", b"content"),))
    for batch in walk(builder.build()):
        for record in batch.records():
            assert (record.offset, record.key, record.value) == (0, b"key", b"value")

Message sets, the formats before record batches, are read by `walk` too and written by `MessageSetBuilder`.
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
    read_records,
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
    "read_records",
    "stamp",
    "walk",
    "walk_headers",
]
