"""Record batches: build them, find them in bytes, read them.

    builder = BatchBuilder(compression=Compression.LZ4)
    builder.append(1_700_000_000_000, b"key", b"value", (("name", b"content"),))
    for batch in walk(builder.build()):
        for record in batch.records():
            assert (record.offset, record.key, record.value) == (0, b"key", b"value")

`walk` also reads message sets, the formats before record batches, and `MessageSetBuilder` writes them. `decode_record`
decodes the records of Kafka's internal topics, such as `__consumer_offsets`.
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
from kafkawire.sdk.records.internal_records import INTERNAL_TOPICS, InternalRecord, decode_record

__all__ = [
    "INTERNAL_TOPICS",
    "Batch",
    "BatchBuilder",
    "Compression",
    "InternalRecord",
    "MessageBatch",
    "MessageSetBuilder",
    "Record",
    "RecordBatch",
    "TimestampType",
    "decode_record",
    "read_records",
    "stamp",
    "walk",
    "walk_headers",
]
