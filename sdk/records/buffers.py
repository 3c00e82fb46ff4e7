"""What callers give as bytes, and as places in them: every engine takes the same, and says the same of the rest."""

from __future__ import annotations

from operator import index
from typing import Any

from kafkawire.sdk.protocol.primitives import as_bytes

__all__ = ["bytes_of", "not_bytes", "size_of"]


def bytes_of(buffer: object) -> memoryview:
    """Return a view of a buffer as bytes, after one look at it.

    Raises:
        TypeError: it is not a contiguous buffer.
    """
    if type(buffer) is bytes:  # which most are
        return memoryview(buffer)
    try:
        return as_bytes(buffer)
    except (TypeError, BufferError, ValueError) as error:  # packages differ in what they raise
        raise not_bytes(buffer) from error


def not_bytes(value: object) -> TypeError:
    """Return the error for what is not a contiguous buffer."""
    return TypeError(f"expected bytes or another contiguous buffer, got {type(value).__name__}")


def size_of(value: Any) -> int:
    """Return a number of bytes as the extension takes it, whose `Py_ssize_t` has 64 bits.

    Raises:
        TypeError: it is no integer.
        OverflowError: it does not fit.
    """
    size = value if type(value) is int else int.__int__(index(value))
    if not -(2**63) <= size < 2**63:
        raise OverflowError("Python int too large to convert to C ssize_t")
    return size
