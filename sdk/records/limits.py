"""Limits of record batches, and their reasons."""

from __future__ import annotations

__all__ = ["DEFAULT_BATCH_BYTES", "MAX_DECOMPRESSED_BYTES"]

#: Default size of a batch before compression: smaller than 64 KiB, the cost of each request shows; larger than 256 KiB,
#: that of touching fresh memory.
DEFAULT_BATCH_BYTES = 128 * 1024

#: Most bytes that the records of one batch may have after decompression. Kafka's brokers take requests of 100 MiB
#: (`socket.request.max.bytes`): records that fit into one uncompressed are within the limit; a bomb is not.
MAX_DECOMPRESSED_BYTES = 100 * 1024 * 1024
