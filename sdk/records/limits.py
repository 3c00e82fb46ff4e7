"""Limits of record batches, and their reasons."""

from __future__ import annotations

__all__ = ["DEFAULT_BATCH_BYTES", "MAX_DECOMPRESSED_BYTES"]

#: Default size of a batch before compression. Below 64 KiB, the cost of each request shows; above 256 KiB, the cost of
#: touching fresh memory does.
DEFAULT_BATCH_BYTES = 128 * 1024

#: Maximum size of the decompressed records of one batch. Kafka's brokers accept requests of up to 100 MiB
#: (`socket.request.max.bytes`): records that fit into such a request uncompressed are within the limit; a bomb is not.
MAX_DECOMPRESSED_BYTES = 100 * 1024 * 1024
