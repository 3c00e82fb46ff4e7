"""Compute CRC-32C with the package `crc32c`, where the extension is not built."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

__all__ = ["crc32c"]


def crc32c(data: bytes, value: int = 0) -> int:
    """Return the CRC-32C of `data` after bytes with the checksum `value`."""
    return _library()(data, value)


@cache
def _library() -> Callable[[bytes, int], int]:
    # Loaded for the first checksum, not with the client: the package looks up its version by `importlib.metadata`,
    # and takes a fifth of the import time of the whole client.
    from crc32c import crc32c

    return crc32c
