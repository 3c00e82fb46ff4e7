"""Limits on record batches, and the reasons for them."""

from __future__ import annotations

__all__ = ["DEFAULT_BATCH_BYTES", "MAX_DECOMPRESSED_BYTES"]

#: Default size of a batch before compression. Below 64 KiB, the cost of each request becomes noticeable; above 256 KiB,
#: the cost of touching fresh memory does.
DEFAULT_BATCH_BYTES = 128 * 1024

#: Maximum size of the decompressed records of one batch. Kafka's brokers accept requests of up to 100 MiB
#: (`socket.request.max.bytes`): records that would fit into such a request uncompressed are within this limit; a
#: decompression bomb is not.
MAX_DECOMPRESSED_BYTES = 100 * 1024 * 1024
