"""The result of an append to a log, and the interface of the log's owner, which is notified of appends."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kafkawire.reference_broker.storage.batches import BatchHeader
from kafkawire.sdk.errors import BrokerError

__all__ = ["Appended", "Done", "LogOwner", "WaitingAppend", "nobody"]


class Appended(NamedTuple):
    """The result of an append.

    Attributes:
        base_offset: the offset of the first record.
        last_offset: the offset of the last record.
        log_append_time_ms: the timestamp of all records; `NO_TIMESTAMP` if they keep the producer's timestamps.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int


#: Called once with the result or the error of an append.
Done = Callable[[Appended | BrokerError], None]


class WaitingAppend(NamedTuple):
    """An append that is waiting for a new segment.

    Attributes:
        batch: its header.
        now_ms: when the append was requested.
        done: see `PartitionLog.append`.
        make: performs the append.
    """

    batch: BatchHeader
    now_ms: int
    done: Done
    make: Callable[[], None]


class LogOwner(Protocol):
    """Decides how much of a log is committed, based on the notifications below."""

    def transaction_begun(self, first_offset: int) -> None:
        """Record the first batch of a transaction; called before `appended` for that batch."""

    def appended(self, end_offset: int, size_bytes: int) -> None:
        """Record an appended batch."""

    def moved(self) -> None:
        """Decide again, since the log has a new end, or a larger part of it can be acknowledged."""

    def trimmed(self) -> None:
        """Record that the log now begins at a later offset."""

    def truncated(self) -> None:
        """Record that the log was truncated: any of its offsets may be lower now, or all of its records gone."""

    def settled(self) -> None:
        """Record that no truncation is pending, so the log can lead. Waiting appends have not been made yet."""

    def prepared(self) -> None:
        """Record that more segments can now be searched."""

    def ended(self, error: BrokerError) -> None:
        """Record that the log has ended."""


def nobody() -> None:
    """Stand in for an owner: without one, all records on the log's own disk are committed."""
