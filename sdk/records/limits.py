"""Limits on record batches, and the reasons for them."""

from __future__ import annotations

__all__ = ["DEFAULT_BATCH_BYTES", "MAX_DECOMPRESSED_BYTES"]

#: Default size of a batch before compression. Below 64 KiB, the cost per request becomes noticeable; above 256 KiB, so
#: does the cost of touching fresh memory.
DEFAULT_BATCH_BYTES = 128 * 1024

#: Maximum size of the decompressed records of one batch. Kafka's brokers accept requests of up to 100 MiB
#: (`socket.request.max.bytes`): records that would fit into such a request uncompressed are within this limit, and a
#: decompression bomb is not.
MAX_DECOMPRESSED_BYTES = 100 * 1024 * 1024
