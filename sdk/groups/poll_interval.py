"""Check whether the application is still reading: a member that has not read for too long gives up its partitions.

Source: KIP-62 (max.poll.interval.ms); here, the interval runs from the last record handed out, not from the last batch.
"""

from __future__ import annotations

import logging

from kafkawire.sdk.errors import RequestTimedOut
from kafkawire.sdk.groups.protocol import GroupSettings, Reads

__all__ = ["PollInterval"]

logger = logging.getLogger("kafkawire.group")


class PollInterval:
    """The time since the application last read.

    Args:
        reader: reports when the application last read.
        settings: the settings, which define the limit.
    """

    def __init__(self, reader: Reads, settings: GroupSettings) -> None:
        self._reader = reader
        self._group_id = settings.group_id
        self._limit_ms = settings.max_poll_interval_ms

    def due_ms(self) -> int | None:
        """Return when the interval ends; None while a read is waiting."""
        handed_out_ms = self._reader.last_handed_out_ms
        return None if handed_out_ms is None else handed_out_ms + self._limit_ms

    def has_passed(self, now_ms: int) -> bool:
        """Return whether the interval has passed."""
        due_ms = self.due_ms()
        return due_ms is not None and now_ms >= due_ms

    def error(self) -> RequestTimedOut:
        """Log and return the reason why the member leaves."""
        text = f"no record was read for max_poll_interval_ms={self._limit_ms}"
        logger.warning("group %s: %s: leaving until the next read", self._group_id, text)
        return RequestTimedOut(text)
