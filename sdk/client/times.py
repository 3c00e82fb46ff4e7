"""Points in time, as applications give them: milliseconds since the epoch, or a datetime with a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import index
from typing import Final, SupportsIndex

from kafkawire.sdk.errors import LocalProtocolError

__all__ = ["to_ms"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: The latest time, of 8 bytes on the wire.
_MAX_MS: Final = (1 << 63) - 1


def to_ms(time: object) -> int:
    """Return a time in milliseconds since the epoch.

    Args:
        time: such a number, or a datetime with a time zone.

    Raises:
        LocalProtocolError: it is before 1970, or a datetime without a time zone, which names no point in time; or it is
            neither.
    """
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise LocalProtocolError(f"time {time}: expected a time zone, as in datetime.now(UTC)")
        time_ms = (time - _EPOCH) // timedelta(milliseconds=1)
    elif isinstance(time, bool) or not isinstance(time, SupportsIndex):
        raise LocalProtocolError(f"time {time!r:.100}: expected milliseconds since the epoch, or a datetime")
    else:
        time_ms = index(time)
    if time_ms < 0:
        raise LocalProtocolError(f"time {time}: expected 1970 or later")
    if time_ms > _MAX_MS:
        raise LocalProtocolError(f"time {time}: expected at most {_MAX_MS} ms")
    return time_ms
