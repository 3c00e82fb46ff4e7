"""Limits of record batches, and their reasons."""

from __future__ import annotations

__all__ = ["DEFAULT_BATCH_BYTES", "MAX_DECOMPRESSED_BYTES"]

#: Size of a batch before compression, unless told otherwise: below 64 KiB the cost of each request shows, above 256 KiB
#: that of touching fresh memory.
DEFAULT_BATCH_BYTES = 128 * 1024

#: Most bytes that the records of one batch may have after decompression. Kafka's brokers take requests of 100 MiB
#: (`socket.request.max.bytes`): what was not larger before compression fits; a bomb does not.
MAX_DECOMPRESSED_BYTES = 100 * 1024 * 1024
