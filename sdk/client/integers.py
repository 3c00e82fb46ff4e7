"""Convert applications' integers of any type to plain ones before they are compared or written."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

__all__ = ["plain_integer"]


def plain_integer(given: object) -> int | None:
    """Return an integer as a plain `int`; None if it is a bool, not an integer, or cannot be converted."""
    if type(given) is int:
        return given
    if isinstance(given, bool) or not isinstance(given, SupportsIndex):
        return None
    try:
        return index(given)
    except Exception:
        return None
