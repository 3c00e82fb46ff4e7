"""Limits of `kafkawire dump`, which by default uses less than 200 MB of memory, whatever a file contains."""

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
#: otherwise (`message.max.bytes`); `--max-batch-bytes` raises this limit, and thus the memory use.
BATCH_BYTES_MAX: Final = 32 * 1024 * 1024

#: A compressed batch may have this fraction of that limit, since some codecs need 16 times the size of their input
#: (docs/limits.md).
COMPRESSED_PART: Final = 4

#: How many problems in one index or small file are reported individually; after a damaged entry, all others may be
#: wrong.
PROBLEMS_MAX: Final = 1000

#: Largest checkpoint that is read, enough for 7,000 partitions with the longest names; with short names, it takes 50
#: times its size in memory.
SMALL_FILE_BYTES_MAX: Final = 2 * 1024 * 1024

#: Largest producer snapshot that is read: 182,000 producers of 46 bytes, each of which needs about 400 bytes of memory.
PRODUCERS_BYTES_MAX: Final = 8 * 1024 * 1024
