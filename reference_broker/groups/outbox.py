"""The records written by one step of a group shard, collected while it runs and passed to the runtime when it ends.

A step may change several groups and members (one timer may end three sessions), so transitions add their records to the
outbox instead of returning them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TypeVar

from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord, Result
from kafkawire.sdk.errors import BrokerError

__all__ = ["Outbox"]

R = TypeVar("R")

Committed = Callable[[BrokerError | None], None]


class Outbox:
    """The records and callbacks of the current step."""

    def __init__(self) -> None:
        self._records: list[CoordinatorRecord] = []
        self._committed: list[Committed] = []

    def add(self, record: CoordinatorRecord, committed: Committed | None = None) -> None:
        """Add a record; `committed` is called as described in `Result`."""
        self._records.append(record)
        if committed is not None:
            self._committed.append(committed)

    def add_all(self, records: Iterable[CoordinatorRecord]) -> None:
        """Add records."""
        self._records.extend(records)

    def on_committed(self, committed: Committed) -> None:
        """Add a callback as described in `Result`, with or without records."""
        self._committed.append(committed)

    def clear(self) -> None:
        """Drop the records and callbacks of a failed step."""
        self._records, self._committed = [], []

    def take(self, reply: R) -> Result[R]:
        """Return the result of the step."""
        records, self._records = self._records, []
        callbacks, self._committed = self._committed, []
        if not callbacks:
            return Result(reply, records)

        def committed(error: BrokerError | None) -> None:
            # Call every callback even if one fails, since they belong to different groups and members.
            with ExitStack() as stack:
                for callback in reversed(callbacks):
                    stack.callback(callback, error)

        return Result(reply, records, committed)
