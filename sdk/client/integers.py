"""Integers of applications, whatever their type: as plain ones, before anything is compared or written with them."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

__all__ = ["plain_integer"]


def plain_integer(given: object) -> int | None:
    """Return an integer as a plain `int`; None if it is a bool or no integer, or cannot say which number it is."""
    if type(given) is int:
        return given
    if isinstance(given, bool) or not isinstance(given, SupportsIndex):
        return None
    try:
        return index(given)
    except Exception:
        return None
