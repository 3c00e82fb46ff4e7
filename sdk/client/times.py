"""Convert points in time given by applications: milliseconds since the epoch, or datetimes with a time zone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from kafkawire.sdk.client.integers import plain_integer
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.values import digits, quoted

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from typing import TypeGuard

__all__ = ["is_datetime", "is_timedelta", "to_ms"]

#: The latest time; times take 8 bytes on the wire.
_MAX_MS: Final = (1 << 63) - 1


def is_datetime(given: object) -> TypeGuard[datetime]:
    """Return whether a value is a datetime, without importing `datetime` unless the program has done so."""
    return "datetime" in sys.modules and isinstance(given, sys.modules["datetime"].datetime)


def is_timedelta(given: object) -> TypeGuard[timedelta]:
    """Return whether a value is a timedelta; see `is_datetime`."""
    return "datetime" in sys.modules and isinstance(given, sys.modules["datetime"].timedelta)


def to_ms(time: object, otherwise: str = "or a datetime") -> int:
    """Return a time in milliseconds since the epoch.

    Args:
        time: milliseconds since the epoch, or a datetime with a time zone.
        otherwise: the alternatives to a number, for the error message.

    Raises:
        LocalProtocolError: the time is before 1970, is a datetime without a time zone, which is ambiguous, or has
            another type.
    """
    if is_datetime(time):
        from datetime import UTC, datetime, timedelta

        if time.tzinfo is None:
            raise LocalProtocolError(f"time {time}: expected a time zone, as in datetime.now(UTC)")
        time_ms = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        shown = str(time)
    elif (number := plain_integer(time)) is None:
        raise LocalProtocolError(f"time {quoted(time, 100)}: expected milliseconds since the epoch, {otherwise}")
    else:
        time_ms, shown = number, digits(number)
    if time_ms < 0:
        raise LocalProtocolError(f"time {shown}: expected 1970 or later")
    if time_ms > _MAX_MS:
        raise LocalProtocolError(f"time {shown}: expected at most {_MAX_MS} ms")
    return time_ms
