"""The partitions of a coordinator's topic that this broker serves.

Source: `CoordinatorRuntime` in Apache Kafka.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Generic, TypeVar

from kafkawire.reference_broker.coordinators.partition import CoordinatorPartition, PartitionState
from kafkawire.reference_broker.coordinators.placement import partition_of
from kafkawire.reference_broker.coordinators.shard import CoordinatorLog, Done, Operation, Shard, ShardTimers
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["CoordinatorRuntime"]

S = TypeVar("S", bound=Shard)
R = TypeVar("R")


class CoordinatorRuntime(Generic[S]):
    """The partitions of one topic, by number: the hash of a key determines the partition of its state.

    Args:
        topic: its name, for messages.
        timers: the broker's timers.
        new_shard: returns an empty shard that uses the given timers.
        find_logs: returns the logs of the topic's partitions; empty if it does not exist yet.
    """

    def __init__(
        self,
        topic: str,
        timers: Timers,
        new_shard: Callable[[ShardTimers], S],
        find_logs: Callable[[], Sequence[CoordinatorLog]],
    ) -> None:
        self._topic = topic
        self._timers = timers
        self._new_shard = new_shard
        self._find_logs = find_logs
        #: The number of partitions of the topic, 0 if unknown.
        self._logs: Sequence[CoordinatorLog] = ()
        self._partitions: dict[int, CoordinatorPartition[S]] = {}
        #: Partitions waiting to load one after another: fifty slices at once would hold up every request.
        self._loading: deque[CoordinatorPartition[S]] = deque()
        #: Partitions unloaded during an append.
        self._unloaded: dict[int, CoordinatorPartition[S]] = {}

    # The topic.

    def load(self, now_ms: int) -> bool:
        """Begin to serve the partitions of the topic, unless already begun; return whether the topic exists."""
        if not self._logs:
            self._logs = tuple(self._find_logs())
            for number, log in enumerate(self._logs):
                self.load_partition(number, log, now_ms)
        return bool(self._logs)

    def unload(self) -> None:
        """Stop serving; all waiting operations are answered with NOT_COORDINATOR."""
        self._logs = ()
        for number in self.numbers():
            self.unload_partition(number)

    def partition_of(self, key: str) -> int:
        """Return the number of the partition that a key belongs to; the topic must exist."""
        return partition_of(key, len(self._logs))

    def leader_epoch(self, key: str) -> int:
        """Return the epoch in which this broker leads the partition that a key belongs to; the topic must exist."""
        return self._logs[self.partition_of(key)].leader_epoch

    def submit(self, key: str, operation: Operation[S, R], done: Done[R], now_ms: int) -> None:
        """Run an operation on the partition that a key belongs to; see `submit_to`."""
        if self.load(now_ms):
            self.submit_to(self.partition_of(key), operation, done, now_ms)
        else:
            done(self.no_topic())

    def no_topic(self) -> BrokerError:
        """Return the error for requests before the topic exists."""
        return BrokerError(ErrorCode.NOT_COORDINATOR, f"{self._topic} does not exist")

    # Its partitions.

    def load_partition(self, number: int, log: CoordinatorLog, now_ms: int) -> None:
        """Begin to serve a partition: its log is replayed in slices, after the logs of earlier partitions.

        The load first waits for an append that was under way when the partition was last unloaded.
        """
        self.unload_partition(number)
        partition = CoordinatorPartition(f"{self._topic}-{number}", log, self._timers, self._new_shard)
        self._partitions[number] = partition
        before = self._unloaded.get(number)
        if before is None:
            self._begin(number, partition, now_ms)
        else:
            before.when_appended(lambda: self._begin(number, partition, now_ms))

    def _begin(self, number: int, partition: CoordinatorPartition[S], now_ms: int) -> None:
        if self._partitions.get(number) is not partition:
            return  # it was unloaded in the meantime
        self._unloaded.pop(number, None)
        partition.load(now_ms)
        self._go_on(partition, now_ms)

    def _go_on(self, partition: CoordinatorPartition[S], now_ms: int) -> None:
        """Continue the load of a partition, once earlier ones are loaded."""
        if partition.state is PartitionState.LOADING:
            self._loading.append(partition)
            if len(self._loading) == 1:
                self._timers.at(now_ms, self._load_slice)

    def _load_slice(self, now_ms: int) -> None:
        partition = self._loading[0]
        pause_ms = 0
        try:
            pause_ms = partition.load_slice(now_ms)
        finally:
            if pause_ms or partition.state is not PartitionState.LOADING:
                self._loading.popleft()
            if pause_ms:
                self._timers.at(now_ms + pause_ms, partial(self._go_on, partition))
            if self._loading:
                self._timers.at(now_ms, self._load_slice)

    def unload_partition(self, number: int) -> None:
        """Stop serving a partition; all its waiting operations are answered with NOT_COORDINATOR."""
        partition = self._partitions.pop(number, None)
        if partition is not None:
            partition.close()
            if partition.is_appending:
                self._unloaded[number] = partition

    def submit_to(self, number: int, operation: Operation[S, R], done: Done[R], now_ms: int) -> None:
        """Run an operation on a partition.

        Args:
            number: number of the partition.
            operation: an operation on its shard.
            done: called once with the reply, after its records are committed, or with the error.
            now_ms: the current time.
        """
        partition = self._partitions.get(number)
        if partition is None:
            done(BrokerError(ErrorCode.NOT_COORDINATOR, f"{self._topic}-{number} is not served here"))
        else:
            partition.submit(operation, done, now_ms)

    def shards(self) -> Iterator[S]:
        """Yield the shards that are served."""
        for partition in self._partitions.values():
            if partition.state is PartitionState.ACTIVE:
                yield partition.shard

    def numbers(self) -> list[int]:
        """Return the numbers of the partitions that are loaded or being loaded."""
        return [
            number for number, partition in self._partitions.items() if partition.state is not PartitionState.CLOSED
        ]

    @property
    def is_loading(self) -> bool:
        """Whether a partition is being loaded."""
        return any(partition.state is PartitionState.LOADING for partition in self._partitions.values())
