"""The partitions of a coordinator's topic that this broker leads.

The coordinator is elected for a partition, loads and serves it, and resigns when another broker leads it.

Source: `CoordinatorRuntime` in Apache Kafka.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, TypeVar

from kafkawire.reference_broker.coordinators.loading import Loading, NewLoading
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
    """The partitions of one topic that this broker leads; the hash of a key determines where its state is.

    Args:
        topic: the name of the topic, for messages.
        timers: the broker's timers.
        new_shard: returns an empty shard, given the number of its partition and its timers.
        size_of: returns the number of partitions of the topic; 0 if it does not exist.
        new_loading: begins to load a shard from its log.
    """

    def __init__(
        self,
        topic: str,
        timers: Timers,
        new_shard: Callable[[int, ShardTimers], S],
        size_of: Callable[[], int],
        new_loading: NewLoading = Loading,
    ) -> None:
        self._topic = topic
        self._new_loading = new_loading
        self._timers = timers
        self._new_shard = new_shard
        self._size_of = size_of
        self._size = 0
        self._partitions: dict[int, CoordinatorPartition[S]] = {}
        #: The epoch of the latest election or resignation for each partition.
        self._epochs: dict[int, int] = {}
        #: Partitions waiting to be loaded, one at a time: fifty slices at once would hold up every request.
        self._loading: deque[CoordinatorPartition[S]] = deque()
        #: Partitions unloaded during an append.
        self._unloaded: dict[int, CoordinatorPartition[S]] = {}

    # The topic.

    @property
    def size(self) -> int:
        """The number of partitions of the topic; 0 if it does not exist.

        It stays the same while this broker is elected for any partition, so that no key moves to another partition.
        """
        return (self._size if self._partitions else 0) or self._size_of()

    def partition_of(self, key: str) -> int:
        """Return the number of the partition to which a key belongs; the topic must exist."""
        return partition_of(key, self.size)

    def submit(self, key: str, operation: Operation[S, R], done: Done[R], now_ms: int) -> None:
        """Run an operation on the partition to which a key belongs; see `submit_to`."""
        if self.size:
            self.submit_to(self.partition_of(key), operation, done, now_ms)
        else:
            done(self.no_topic())

    def no_topic(self) -> BrokerError:
        """Return the error for requests before the topic exists."""
        return BrokerError(ErrorCode.NOT_COORDINATOR, f"{self._topic} does not exist")

    # Elections.

    def elected(self, number: int, log: CoordinatorLog, leader_epoch: int, now_ms: int) -> bool:
        """Serve a partition: replay its log in slices, after the logs of earlier partitions.

        Loading first waits for any append that was unfinished when the partition was last unloaded. A partition that is
        already being served continues in the new epoch, since no other broker has written to its log.

        Args:
            number: the number of the partition, which this broker leads.
            log: its log.
            leader_epoch: the epoch in which this broker leads; the call has no effect if it has already been elected or
                has resigned in this epoch or a later one.
            now_ms: the current time.

        Returns:
            Whether the partition now has to be loaded.

        Source: `CoordinatorRuntime.scheduleLoadOperation`.
        """
        if leader_epoch <= self._epochs.get(number, leader_epoch - 1):
            return False
        self._epochs[number] = leader_epoch
        before = self._partitions.get(number)
        if before is not None and before.state is not PartitionState.CLOSED:
            return False
        self._size = self.size  # from now on
        self._unload(number)
        self._load(number, log, now_ms)
        return True

    def resigned(self, number: int, epoch: int | None = None) -> bool:
        """Stop serving a partition; all its waiting operations are answered with NOT_COORDINATOR.

        Args:
            number: number of the partition.
            epoch: the epoch in which another broker leads it, or in which this broker has stopped; the call has no
                effect if this broker has been elected in a later epoch. None if the partition is deleted, since the
                epochs of a new partition with this number begin at 0 again.

        Returns:
            Whether the resignation takes effect.

        Source: `CoordinatorRuntime.scheduleUnloadOperation`.
        """
        if epoch is None:
            self._epochs.pop(number, None)
        elif epoch < self._epochs.get(number, epoch):
            return False
        else:
            self._epochs[number] = epoch
        self._unload(number)
        return True

    def unload(self) -> None:
        """Stop serving all partitions, whatever their epochs."""
        for number in list(self._epochs):
            self.resigned(number)

    def leader_epoch(self, number: int) -> int:
        """Return the epoch in which this broker leads a partition that it serves."""
        return self._epochs[number]

    # Loading.

    def _load(self, number: int, log: CoordinatorLog, now_ms: int) -> None:
        new_shard = partial(self._new_shard, number)
        name = f"{self._topic}-{number}"
        partition = CoordinatorPartition(name, log, self._timers, new_shard, self._new_loading)
        self._partitions[number] = partition
        before = self._unloaded.get(number)
        if before is None:
            self._begin(number, partition, now_ms)
        else:
            before.when_appended(lambda: self._begin(number, partition, now_ms))

    def _begin(self, number: int, partition: CoordinatorPartition[S], now_ms: int) -> None:
        if self._partitions.get(number) is not partition:
            return  # it was unloaded in the meantime
        partition.load(now_ms)
        self._go_on(partition, now_ms)

    def _go_on(self, partition: CoordinatorPartition[S], now_ms: int) -> None:
        """Continue loading a partition, once earlier ones have been loaded."""
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

    def _unload(self, number: int) -> None:
        partition = self._partitions.pop(number, None)
        if partition is not None:
            partition.close()
            if partition.is_appending:
                self._unloaded[number] = partition
                partition.when_appended(lambda: self._forget(number, partition))

    def _forget(self, number: int, partition: CoordinatorPartition[S]) -> None:
        if self._unloaded.get(number) is partition:
            del self._unloaded[number]

    # Partitions.

    def submit_to(self, number: int, operation: Operation[S, R], done: Done[R], now_ms: int) -> None:
        """Run an operation on a partition.

        Args:
            number: number of the partition.
            operation: an operation on its shard.
            done: called once: with the reply, after its records have been committed, or with an error.
            now_ms: the current time.
        """
        partition = self._partitions.get(number)
        if partition is None:
            done(BrokerError(ErrorCode.NOT_COORDINATOR, f"this broker does not serve {self._topic}-{number}"))
        else:
            partition.submit(operation, done, now_ms)

    def shard(self, number: int) -> S | None:
        """Return the shard of a partition, even if it is loading or has failed; None if this broker has resigned."""
        partition = self._partitions.get(number)
        return None if partition is None else partition.shard

    def is_active(self, number: int) -> bool:
        """Return whether operations run on a partition now."""
        partition = self._partitions.get(number)
        return partition is not None and partition.state is PartitionState.ACTIVE

    def shards(self) -> Iterator[S]:
        """Yield the shards that are being served."""
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
