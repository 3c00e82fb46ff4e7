"""Which name somebody probably meant, for errors about one that there is not."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

__all__ = ["did_you_mean", "nearest"]

#: Characters of a name that are compared, also of those that it is compared with: the time grows with their square. No
#: option, message or field has as many, and topics that differ only after them are not confused by a slip.
_CHARACTERS_MAX: Final = 100

#: Names that one is compared with, each of which takes some 30 µs.
_NAMES_MAX: Final = 500


def nearest(given: str, names: Iterable[str], most: int = 1, likeness: float = 0.6) -> list[str]:
    """Return the names that are most like one that was given, in any case, the best first.

    Args:
        given: what somebody wrote.
        names: what could have been meant; only the first 500 are looked at.
        most: how many are returned at most.
        likeness: how much alike two names must be, from 0 to 1.
    """
    import difflib  # only needed for an error

    known = {each[:_CHARACTERS_MAX].lower(): each for each in islice(names, _NAMES_MAX)}
    wanted = given.strip()[:_CHARACTERS_MAX].lower()
    return [known[found] for found in difflib.get_close_matches(wanted, known, most, likeness)]


def did_you_mean(given: str, names: Iterable[str], most: int = 1, likeness: float = 0.6) -> str:
    """Return the end of an error about a name, `; did you mean …?`; empty if no name is like it. See `nearest`."""
    near = nearest(given, names, most, likeness)
    return f"; did you mean {', '.join(near)}?" if near else ""
