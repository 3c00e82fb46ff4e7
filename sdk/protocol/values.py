"""What field values are, below messages: buffers, unknown tagged fields, the mark of a default not yet made.

This module imports nothing of the package: the extension imports it, and `schema.py` needs the extension to make
message classes.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["DEFAULT", "Buffer", "UnknownTags", "equal", "hidden_slot"]

#: What a field of type `bytes` or `records` takes; `records` are decoded to views of the bytes received.
Buffer = bytes | bytearray | memoryview

#: Tagged fields that the schema does not know: (tag, content), in the order in which they were read.
UnknownTags = tuple[tuple[int, bytes], ...]

#: Marks an argument that was not given, where None is a value of its own.
DEFAULT: Final[Any] = object()


def hidden_slot(field: str) -> str:
    """Return the slot behind a field that defaults to a new structure."""
    return f"_{field}"


def equal(left: Any, right: Any) -> bool:
    """Compare field values: sequences by their elements, buffers by their bytes."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)
