"""Limits of `kafkawire dump`: by default it stays below 200 MB of memory, whatever a file says."""

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

#: Read at a time.
WINDOW_BYTES: Final = 1024 * 1024

#: The largest batch that is opened, as it is stored and when it is decompressed. Brokers store 1 MiB at most unless
#: `message.max.bytes` says otherwise; `--max-batch-bytes` raises this limit, and the memory with it.
BATCH_BYTES_MAX: Final = 32 * 1024 * 1024

#: A compressed batch may have this part of it: some codecs take 16 times the size of their input (docs/limits.md).
COMPRESSED_PART: Final = 4

#: Problems of one index or small file that are reported one by one: all entries after a damaged one may be wrong.
PROBLEMS_MAX: Final = 1000

#: Largest checkpoint that is read: 7,000 partitions with the longest names, and 50 times as much memory for short ones.
SMALL_FILE_BYTES_MAX: Final = 2 * 1024 * 1024

#: Largest producer snapshot that is read: 182,000 producers of 46 bytes, each of which takes about 400.
PRODUCERS_BYTES_MAX: Final = 8 * 1024 * 1024
