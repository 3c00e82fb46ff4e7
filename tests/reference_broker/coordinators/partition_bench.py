"""A partition with a shard that adds numbers, an in-memory log, and the partition's replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kafkawire.reference_broker.coordinators.partition import CoordinatorPartition, PartitionState
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord, Result
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from tests.reference_broker.coordinators.counting_shard import CountingShard, MemoryLog

__all__ = ["Bench", "load", "written"]


class Bench:
    """A partition that is being served.

    Args:
        log: the log; None for a new, empty one.

    Attributes:
        replies: the partition's replies; an error is represented by its code.
    """

    def __init__(self, log: MemoryLog | None = None) -> None:
        self.log = log or MemoryLog()
        self.timers = Timers()
        self.partition = CoordinatorPartition("topic-0", self.log, self.timers, CountingShard)
        self.replies: list[Any] = []
        self.partition.load(0)

    @property
    def shard(self) -> CountingShard:
        """The partition's shard."""
        return self.partition.shard

    def ask(self, operation: Callable[[CountingShard], Result[Any]], now: int = 0) -> None:
        """Submit an operation."""

        def done(reply: object) -> None:
            self.replies.append(reply.code if isinstance(reply, BrokerError) else reply)

        self.partition.submit(operation, done, now)

    def add(self, number: int, name: str = "a", now: int = 0) -> None:
        """Add to a number."""
        self.ask(lambda shard: shard.add(name, number), now)

    def get(self, name: str = "a", now: int = 0) -> None:
        """Read a number."""
        self.ask(lambda shard: shard.get(name), now)


def load(bench: Bench) -> int:
    """Load a partition completely; return the number of slices that it took."""
    slices = 0
    while bench.partition.state is PartitionState.LOADING:
        bench.partition.load_slice(0)
        slices += 1
    return slices


def written(*batches: Sequence[CoordinatorRecord]) -> MemoryLog:
    """Return a log that contains these batches."""
    log = MemoryLog()
    bench = Bench(log)
    for records in batches:
        bench.ask(lambda shard, records=records: Result(None, records))  # type: ignore[misc]  # mypy cannot infer it
    return log
