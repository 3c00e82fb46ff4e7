"""Field values: buffers, unknown tagged fields, and the marker for a default that does not exist yet.

This module also defines how values are shown in errors. It imports nothing from the package, because the extension
imports this module, and `schema.py` needs the extension to create message classes.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["DEFAULT", "NOT_SET", "Buffer", "UnknownTags", "digits", "equal", "hidden_slot", "quoted", "shown"]

#: The values that fields of type `bytes` or `records` accept; `records` are decoded to views of the received bytes.
Buffer = bytes | bytearray | memoryview

#: Tagged fields unknown to the schema: (tag, content), in the order in which they were read.
UnknownTags = tuple[tuple[int, bytes], ...]

#: Maximum number of bits in a number that is written out; no sensible number has more.
_WRITTEN_BITS_MAX = 256

#: Maximum number of characters that an error shows of a value.
_QUOTED_CHARACTERS_MAX = 60

#: Maximum number of characters that a repr shows of a value: enough for a short name or text in full.
_SHOWN_CHARACTERS = 60

#: The default of arguments that may be None: it shows that no argument was passed.
DEFAULT: Final[Any] = object()


class _NotSet:
    """The value of a deleted field, for code that only displays it."""

    def __repr__(self) -> str:
        return "<not set>"


NOT_SET: Final = _NotSet()


def hidden_slot(field: str) -> str:
    """Return the name of the slot behind a field that defaults to a new structure."""
    return f"_{field}"


def equal(left: Any, right: Any) -> bool:
    """Compare field values: sequences by their elements, buffers by their bytes."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)


def digits(number: int) -> str:
    """Return a number as text for errors; Python refuses to convert numbers of more than 4300 digits."""
    bits = int.bit_length(number)
    return int.__repr__(number) if bits <= _WRITTEN_BITS_MAX else f"a number of {bits} bits"


def quoted(value: object, limit: int | None = _QUOTED_CHARACTERS_MAX) -> str:
    """Return the repr of any value, for errors.

    Args:
        value: the value.
        limit: the maximum number of characters shown of text, bytes and containers; None for no limit.
    """
    if type(value) is int:
        return digits(value)
    if type(value) is str or type(value) is bytes or type(value) is bytearray:
        value = value[:limit]  # the repr of a long value would take a long time
    try:
        return repr(value)[:limit]
    except Exception:  # it contains a number with too many digits, or a third-party type's repr fails
        return f"<{type(value).__name__}>"


def shown(value: object, limit: int = _SHOWN_CHARACTERS) -> str:
    """Return the repr of a value for users; a long repr is truncated and followed by the length of the value.

    Args:
        value: any value; if its repr fails, its type is shown.
        limit: the maximum number of characters of text, or of bytes, to show; for any other value, three times as many
            characters.
    """
    if isinstance(value, str | bytes | bytearray | memoryview):
        if len(value) <= limit:
            return quoted(bytes(value) if isinstance(value, memoryview) else value, None)
        kind = "characters" if isinstance(value, str) else "bytes"
        start = bytes(value[:limit]) if isinstance(value, memoryview) else value[:limit]
        return f"{quoted(start, None)}… of {len(value)} {kind}"
    from reprlib import Repr  # rarely needed: nearly all displayed values are text or bytes

    brief = Repr()
    brief.maxstring, brief.maxother, brief.maxlevel = limit, 3 * limit, 3
    try:
        text = digits(value) if type(value) is int else brief.repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 3 * limit else f"{text[: 3 * limit]}…"
