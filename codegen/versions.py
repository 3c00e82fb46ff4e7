"""Ranges of message versions, and their algebra.

A range is written as in Kafka's definitions: `3`, `0-4`, `2+` (open: up to the newest version) or `none`. Everything in
a schema that depends on versions is such a range.

Source: KIP-482; the version syntax of Apache Kafka's message definitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["ALL", "NONE", "OPEN", "Versions"]

#: The end of an open range: the highest int16, because a version is an int16 on the wire.
OPEN = 32767

_FORM = re.compile(r"(?P<first>[0-9]+)(?:(?P<open>\+)|-(?P<last>[0-9]+))?")

#: Maximum number of digits to parse; a longer number is refused as too large without being parsed.
_DIGITS_MAX = 9

#: Maximum number of characters shown of an invalid version range.
_SHOWN_CHARACTERS_MAX = 40


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions; empty if `last < first`.

    Args:
        first: the lowest version.
        last: the highest version, `OPEN` for an open range.
    """

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read a range.

        Args:
            text: `3`, `0-4`, `2+` or `none`.

        Raises:
            ValueError: the text has none of these forms, its ends are in the wrong order, or an end is above `OPEN`.
        """
        if text == "none":
            return NONE
        match = _FORM.fullmatch(text)
        if match is None:
            shown = repr(text[:_SHOWN_CHARACTERS_MAX])
            raise ValueError(f"{shown} is not a version range such as 3, 0-4, 2+ or none")
        if max(map(len, filter(None, match.group("first", "last")))) > _DIGITS_MAX:
            raise ValueError(f"version range {text[:_SHOWN_CHARACTERS_MAX]} exceeds {OPEN}, the highest version")
        first = int(match["first"])
        last = OPEN if match["open"] else int(match["last"] or first)
        if max(first, last) > OPEN:
            raise ValueError(f"version range {text} exceeds {OPEN}, the highest version")
        if first > last:
            raise ValueError(f"version range {text} is reversed")
        return cls(first, last)

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.last == OPEN:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def __bool__(self) -> bool:
        return self.first <= self.last

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __and__(self, other: Versions) -> Versions:
        """Return the versions in both ranges."""
        both = Versions(max(self.first, other.first), min(self.last, other.last))
        return both or NONE

    def __le__(self, other: Versions) -> bool:
        """Return whether every version of this range is in `other`."""
        return not self or (other.first <= self.first and self.last <= other.last)


#: No version.
NONE = Versions(0, -1)
#: Every version.
ALL = Versions(0, OPEN)
