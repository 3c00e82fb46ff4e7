"""Find the names that a user probably meant, for errors about unknown names and about objects in place of names."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

__all__ = ["did_you_mean", "nearest", "pass_its"]

#: The number of characters of each name that are compared: the time grows with its square. No option, message or field
#: has a name this long, and topic names that differ only after that many characters are unlikely to be typos.
_CHARACTERS_MAX: Final = 100

#: The maximum number of names to compare with; each comparison takes about 30 µs.
_NAMES_MAX: Final = 500


def nearest(given: str, names: Iterable[str], most: int = 1, likeness: float = 0.6) -> list[str]:
    """Return the names most similar to a given one, ignoring case, with the best match first.

    Args:
        given: the unknown name.
        names: the possible names; only the first 500 are considered.
        most: the maximum number of names to return.
        likeness: how similar two names must be, from 0 to 1.
    """
    import difflib  # only needed for an error

    known = {each[:_CHARACTERS_MAX].lower(): each for each in islice(names, _NAMES_MAX)}
    wanted = given.strip()[:_CHARACTERS_MAX].lower()
    return [known[found] for found in difflib.get_close_matches(wanted, known, most, likeness)]


def did_you_mean(given: str, names: Iterable[str], most: int = 1, likeness: float = 0.6) -> str:
    """Return the end of an error about a name, `; did you mean …?`, or "" if no name is similar. See `nearest`."""
    near = nearest(given, names, most, likeness)
    return f"; did you mean {', '.join(near)}?" if near else ""


def pass_its(given: object, names: Iterable[str]) -> str:
    """Return the end of an error about an object in place of a name, `; pass its …`; "" if it has no such attribute.

    Args:
        given: the object.
        names: the attributes that may hold the name, with the likeliest first.
    """
    found = (name for name in names if name.isidentifier() and isinstance(getattr(given, name, None), str))
    name = next(found, None)
    return "" if name is None else f"; pass its {name}"
