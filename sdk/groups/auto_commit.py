"""Commit finished positions at intervals: decide when the next commit is due, and run only one at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.groups.commit_outcome import OnDone, Outcome
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition

__all__ = ["AutoCommit", "Commit", "Positions"]

logger = logging.getLogger("kafkawire.group")

#: Commits offsets, given a deadline and the current time.
Commit = Callable[[Mapping[TopicPartition, OffsetAndMetadata], int, OnDone, int], None]


class Positions(Protocol):
    """The part of a `MemberReader` that commits need."""

    @property
    def assigned(self) -> frozenset[TopicPartition]: ...

    def to_commit(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]: ...

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None: ...


class AutoCommit:
    """The automatic commits of one group.

    Args:
        group_id: the group, for the log.
        positions: the finished positions.
        interval_ms: the time between commits; None disables them.
        timeout_ms: how long a commit may take.

    Attributes:
        due_ms: when the next commit is due; None if none will be due, or before the first call to `is_due`.
    """

    def __init__(self, group_id: str, positions: Positions, interval_ms: int | None, timeout_ms: int) -> None:
        self._group_id = group_id
        self._positions = positions
        self._interval_ms = interval_ms
        self._timeout_ms = timeout_ms
        self._lines = LogLimit(logger)
        self._runs = False
        self.due_ms: int | None = None

    def is_due(self, now_ms: int) -> bool:
        """Return whether a commit is due, once per interval; False while the previous commit is running."""
        if self._interval_ms is None:
            return False
        is_due = self.due_ms is not None and now_ms >= self.due_ms
        if is_due or self.due_ms is None:
            self.due_ms = now_ms + self._interval_ms
        return is_due and not self._runs

    def begin(self, commit: Commit, now_ms: int) -> None:
        """Commit the finished positions."""
        offsets = self._positions.to_commit(None)
        if not offsets:
            return

        def done(outcome: Outcome | KafkaWireError, now_ms: int) -> None:
            self._runs = False
            if isinstance(outcome, KafkaWireError):
                text = "group %s: the automatic commit failed: %s"
                self._lines.warning("automatic", now_ms, text, self._group_id, outcome)

        self._runs = True
        commit(offsets, now_ms + self._timeout_ms, done, now_ms)

    def end(self) -> None:
        """Stop committing."""
        self._interval_ms = self.due_ms = None
