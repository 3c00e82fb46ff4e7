"""A range of versions, used by field tables, APIs and negotiation."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["VersionRange"]


class VersionRange(NamedTuple):
    """The versions from `first` to `last` inclusive; empty if `last` is below `first`.

    `version in versions` tests membership, `ours & theirs` is the intersection, `bool(versions)` is False for an
    empty range, and `low, high = versions` unpacks it.

    Attributes:
        first: the lowest version.
        last: the highest version.
    """

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __and__(self, other: tuple[int, int]) -> VersionRange:
        first, last = other
        return VersionRange(max(self.first, first), min(self.last, last))

    def __bool__(self) -> bool:
        return self.first <= self.last

    def __str__(self) -> str:
        if not self:
            return "none"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def numbers(self) -> range:
        """Return the individual versions in ascending order."""
        return range(self.first, self.last + 1)
