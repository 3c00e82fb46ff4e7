"""Check the byte buffers and positions that callers pass; all engines accept and refuse the same ones."""

from __future__ import annotations

from operator import index
from typing import Any

from kafkawire.sdk.protocol.primitives import as_bytes

__all__ = ["bytes_of", "not_bytes", "size_of"]


def bytes_of(buffer: object) -> memoryview:
    """Return a view of a buffer as bytes, exporting the buffer only once.

    Raises:
        TypeError: the value is not a contiguous buffer.
    """
    if type(buffer) is bytes:  # the usual case
        return memoryview(buffer)
    try:
        return as_bytes(buffer)
    except (TypeError, BufferError, ValueError) as error:  # different packages raise different errors
        raise not_bytes(buffer) from error


def not_bytes(value: object) -> TypeError:
    """Return the error for a value that is not a contiguous buffer."""
    return TypeError(f"expected bytes or another contiguous buffer, got {type(value).__name__}")


def size_of(value: Any) -> int:
    """Return a number of bytes, within the range of the extension's 64-bit `Py_ssize_t`.

    Raises:
        TypeError: the value is not an integer.
        OverflowError: the number does not fit.
    """
    size = value if type(value) is int else int.__int__(index(value))
    if not -(2**63) <= size < 2**63:
        raise OverflowError("Python int too large to convert to C ssize_t")
    return size
