"""Compute CRC-32C using the package `crc32c` where the extension is not built."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

__all__ = ["crc32c"]


def crc32c(data: bytes, value: int = 0) -> int:
    """Return the CRC-32C of `data`, continuing from the checksum `value`."""
    return _library()(data, value)


@cache
def _library() -> Callable[[bytes, int], int]:
    # The package is loaded for the first checksum rather than with the client: it looks up its version through
    # `importlib.metadata`, which takes a fifth of the client's entire import time.
    from crc32c import crc32c

    return crc32c
