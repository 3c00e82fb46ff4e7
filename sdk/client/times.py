"""Points in time, as applications give them: milliseconds since the epoch, or a datetime with a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from kafkawire.sdk.errors import LocalProtocolError

__all__ = ["to_ms"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def to_ms(time: int | datetime) -> int:
    """Return a time in milliseconds since the epoch.

    Raises:
        LocalProtocolError: it is before 1970, or a datetime without a time zone, which names no point in time.
    """
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise LocalProtocolError(f"time {time}: expected a time zone, as in datetime.now(UTC)")
        time_ms = (time - _EPOCH) // timedelta(milliseconds=1)
    else:
        time_ms = time
    if time_ms < 0:
        raise LocalProtocolError(f"time {time}: expected 1970 or later")
    return time_ms
