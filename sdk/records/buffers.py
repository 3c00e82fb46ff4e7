"""What callers give as bytes: every engine takes the same buffers, and says the same of what is none."""

from __future__ import annotations

from kafkawire.sdk.protocol.primitives import as_bytes

__all__ = ["bytes_of", "not_bytes"]


def bytes_of(buffer: object) -> memoryview:
    """Return a view of a buffer as bytes, after one look at it.

    Raises:
        TypeError: it is not a contiguous buffer.
    """
    try:
        return as_bytes(buffer)
    except (TypeError, BufferError, ValueError) as error:  # packages differ in what they raise
        raise not_bytes(buffer) from error


def not_bytes(value: object) -> TypeError:
    """Return the error for what is not a contiguous buffer."""
    return TypeError(f"expected bytes or another contiguous buffer, got {type(value).__name__}")
