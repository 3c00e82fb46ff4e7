"""CRC-32C by the package `crc32c`, where the extension is not built."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

__all__ = ["crc32c"]


def crc32c(data: bytes, value: int = 0) -> int:
    """Return the CRC-32C of `data` that comes after bytes with the checksum `value`."""
    return _library()(data, value)


@cache
def _library() -> Callable[[bytes, int], int]:
    # Loaded for the first checksum, not with the client: the package looks for its own version by `importlib.metadata`,
    # and its import takes a fifth of the time that importing the whole client takes.
    from crc32c import crc32c

    return crc32c
