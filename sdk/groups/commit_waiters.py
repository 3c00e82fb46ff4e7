"""The callers that wait for commits; each is called once, when its last partition is settled or at its deadline."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from heapq import heappop, heappush
from typing import Final

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.groups.commit_outcome import CommitWaiter, Outcome
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["MAX_COMMITS", "CommitWaiters"]

#: The maximum number of waiting commits: enough to commit every record for a while, yet a limit for a program that
#: outpaces its coordinator.
MAX_COMMITS: Final = 10_000

#: Deadlines of ended commits may stay in the heap until they outnumber those of open commits by this many.
_SPARE_DEADLINES: Final = 64


class CommitWaiters:
    """The waiting commits of one group."""

    def __init__(self) -> None:
        self._waiting: dict[CommitWaiter, None] = {}
        self._deadlines: list[tuple[int, int, CommitWaiter]] = []
        self._commits = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def due_ms(self) -> int | None:
        """When the first deadline passes."""
        return self._deadlines[0][0] if self._deadlines else None

    def add(self, waiter: CommitWaiter, deadline_ms: int) -> None:
        """Wait for a commit."""
        self._commits += 1
        self._waiting[waiter] = None
        heappush(self._deadlines, (deadline_ms, self._commits, waiter))

    def settle(self, waiter: CommitWaiter, partition: TopicPartition, now_ms: int) -> None:
        """Record that a partition of a commit is settled."""
        waiter.left.discard(partition)
        if not waiter.left:
            self.end(waiter, waiter.outcome(), now_ms)

    def refuse(
        self, waiters: Collection[CommitWaiter], partition: TopicPartition, error: KafkaWireError, now_ms: int
    ) -> None:
        """Tell everything that is waiting for an offset that it will not be committed."""
        for waiter in waiters:
            waiter.error = error
            self.settle(waiter, partition, now_ms)

    def give_up(
        self, waiters: Collection[CommitWaiter], partition: TopicPartition, cause: KafkaWireError | None, now_ms: int
    ) -> None:
        """Tell the waiters that a partition was given up or, if a cause is given, lost."""
        for waiter in waiters:
            waiter.rebalanced.add(partition)
            waiter.cause = waiter.cause or cause
            self.settle(waiter, partition, now_ms)

    def end(self, waiter: CommitWaiter, outcome: Outcome | KafkaWireError, now_ms: int) -> None:
        """End a commit, unless it has already ended."""
        if waiter not in self._waiting:
            return
        del self._waiting[waiter]
        waiter.left.clear()
        if len(self._deadlines) > 2 * len(self._waiting) + _SPARE_DEADLINES:
            self._deadlines = sorted(entry for entry in self._deadlines if entry[2] in self._waiting)  # is a heap
        waiter.on_done(outcome, now_ms)

    def end_all(self, error: KafkaWireError, now_ms: int) -> None:
        """End all commits with an error."""
        for waiter in list(self._waiting):
            self.end(waiter, error, now_ms)
        self._deadlines.clear()

    def late(self, now_ms: int) -> Iterator[CommitWaiter]:
        """Yield the commits whose deadline has passed; the caller ends each."""
        while self._deadlines and (self._deadlines[0][0] <= now_ms or self._deadlines[0][2] not in self._waiting):
            waiter = heappop(self._deadlines)[2]
            if waiter in self._waiting:
                yield waiter
