"""What one step of a groups' shard writes: collected while it runs, handed to the runtime at its end.

A step may move several groups and members (a timer that ends three sessions), so their transitions do not return
records but put them here.
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
    """Records and callbacks of the step that is running."""

    def __init__(self) -> None:
        self._records: list[CoordinatorRecord] = []
        self._committed: list[Committed] = []

    def add(self, record: CoordinatorRecord, committed: Committed | None = None) -> None:
        """Add a record; `committed` is called as in `Result`."""
        self._records.append(record)
        if committed is not None:
            self._committed.append(committed)

    def add_all(self, records: Iterable[CoordinatorRecord]) -> None:
        """Add records."""
        self._records.extend(records)

    def on_committed(self, committed: Committed) -> None:
        """Call back as in `Result`, whether there are records or not."""
        self._committed.append(committed)

    def clear(self) -> None:
        """Drop what a failed step has left behind."""
        self._records, self._committed = [], []

    def take(self, reply: R) -> Result[R]:
        """Return the result of the step."""
        records, self._records = self._records, []
        callbacks, self._committed = self._committed, []
        if not callbacks:
            return Result(reply, records)

        def committed(error: BrokerError | None) -> None:
            # All of them, even if one fails: they are of different groups and members.
            with ExitStack() as stack:
                for callback in reversed(callbacks):
                    stack.callback(callback, error)

        return Result(reply, records, committed)
