"""Durations in ISO 8601 format as Java reads them: days, hours, minutes and seconds, each with a sign of its own.

Source: `java.time.Duration.parse`.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["parse_duration_ns"]

_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?[0-9]+)D)?"
    r"(?:T(?=[-+0-9])(?:(?P<hours>[-+]?[0-9]+)H)?(?:(?P<minutes>[-+]?[0-9]+)M)?"
    r"(?:(?P<seconds>[-+]?[0-9]+)(?:[.,](?P<fraction>[0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)

#: The lengths of the units in seconds.
_UNITS_SECONDS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}

_NANOSECONDS: Final = 10**9

#: Java counts seconds in 64 bits.
_SECONDS_MAX: Final = 2**63

#: More characters than any duration needs; Python refuses to convert numbers of thousands of digits.
_LENGTH_MAX: Final = 200


def parse_duration_ns(text: str) -> int | None:
    """Return a duration in nanoseconds, which may be negative; None if the text is no duration, or too long a one."""
    found = _DURATION.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if found is None or not any(found[unit] for unit in _UNITS_SECONDS):
        return None
    seconds = sum(int(found[unit] or 0) * length for unit, length in _UNITS_SECONDS.items())
    fraction = int((found["fraction"] or "").ljust(9, "0"))
    if (found["seconds"] or "").startswith("-"):
        fraction = -fraction
    total = seconds * _NANOSECONDS + fraction
    if not -_SECONDS_MAX <= total // _NANOSECONDS < _SECONDS_MAX:
        return None
    return -total if found["sign"] == "-" else total
