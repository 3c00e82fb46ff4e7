"""Limits of `kafkawire dump`: by default it uses less than 200 MB of memory, whatever a file contains."""

from __future__ import annotations

from typing import Final

__all__ = [
    "BATCH_BYTES_MAX",
    "COMPRESSED_PART",
    "PROBLEMS_MAX",
    "PRODUCERS_BYTES_MAX",
    "SMALL_FILE_BYTES_MAX",
    "WINDOW_BYTES",
]

#: Number of bytes read at a time.
WINDOW_BYTES: Final = 1024 * 1024

#: Largest batch that is opened, both as stored and decompressed. Brokers store at most 1 MiB unless configured
#: otherwise (`message.max.bytes`); `--max-batch-bytes` raises this limit, and the memory used with it.
BATCH_BYTES_MAX: Final = 32 * 1024 * 1024

#: Fraction of that limit that a compressed batch may reach: some codecs take 16 times the size of their input
#: (docs/limits.md).
COMPRESSED_PART: Final = 4

#: How many problems of one index or small file are reported individually; after a damaged entry, all the others can be
#: wrong.
PROBLEMS_MAX: Final = 1000

#: Largest checkpoint that is read: 7,000 partitions with the longest names, and 50 times as much memory for short ones.
SMALL_FILE_BYTES_MAX: Final = 2 * 1024 * 1024

#: Largest producer snapshot that is read: 182,000 producers of 46 bytes, each of which takes about 400 bytes of memory.
PRODUCERS_BYTES_MAX: Final = 8 * 1024 * 1024
