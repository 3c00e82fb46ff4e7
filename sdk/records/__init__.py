"""Record batches and message sets: append, seal, walk, stamp, compress.

Columns and control records, which few programs need, must be imported from `columns.py` and `control.py`.
"""

from kafkawire.sdk.protocol.tables.record_formats import TimestampType
from kafkawire.sdk.records.batch import empty_batch, place, recompress, rewrite, set_max_timestamp, stamp
from kafkawire.sdk.records.compression import Compression, compress, decompress
from kafkawire.sdk.records.crc import crc32, crc32c
from kafkawire.sdk.records.engine import BatchBuilder, RecordBatch, batch_builder_class, record_batch_class
from kafkawire.sdk.records.limits import DEFAULT_BATCH_BYTES, MAX_DECOMPRESSED_BYTES
from kafkawire.sdk.records.message_set import MessageBatch
from kafkawire.sdk.records.message_set_builder import MessageSetBuilder
from kafkawire.sdk.records.record import BinaryColumn, Headers, HeadersLike, Record
from kafkawire.sdk.records.walk import Batch, read_records, walk, walk_headers

__all__ = [
    "DEFAULT_BATCH_BYTES",
    "MAX_DECOMPRESSED_BYTES",
    "Batch",
    "BatchBuilder",
    "BinaryColumn",
    "Compression",
    "Headers",
    "HeadersLike",
    "MessageBatch",
    "MessageSetBuilder",
    "Record",
    "RecordBatch",
    "TimestampType",
    "batch_builder_class",
    "compress",
    "crc32",
    "crc32c",
    "decompress",
    "empty_batch",
    "place",
    "read_records",
    "recompress",
    "record_batch_class",
    "rewrite",
    "set_max_timestamp",
    "stamp",
    "walk",
    "walk_headers",
]
