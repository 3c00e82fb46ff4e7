"""The share coordinator: the partitions of `__share_group_state` that this broker leads, and their upkeep.

Every few minutes, share partitions without writes get new snapshots, and records that later snapshots have replaced are
removed from the logs.

Every callback is called exactly once, with the outcome once it is committed, or with the error that prevented it.

Source: `ShareCoordinatorService` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kafkawire.reference_broker.coordinators.loading_in_order import LoadingInOrder
from kafkawire.reference_broker.coordinators.partition import ignore
from kafkawire.reference_broker.coordinators.runtime import CoordinatorRuntime
from kafkawire.reference_broker.coordinators.shard import CoordinatorLog, Done, Operation, Result, ShardTimers
from kafkawire.reference_broker.metadata.image import MetadataDelta
from kafkawire.reference_broker.shares.limits import ShareLimits
from kafkawire.reference_broker.shares.shard import COLD_INTERVAL_MS, ShareShard, Write
from kafkawire.reference_broker.shares.share_state import SharePartitionKey, ShareState
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import SHARE_GROUP_STATE_TOPIC

__all__ = ["PRUNE_INTERVAL_MS", "ShareCoordinator"]

R = TypeVar("R")

#: How often redundant records are removed: the default of Kafka's internal
#: `share.coordinator.state.topic.prune.interval.ms`.
PRUNE_INTERVAL_MS = 5 * 60_000


class ShareCoordinator:
    """The share partitions that this broker coordinates.

    Args:
        timers: the broker's timers.
        limits: see `ShareLimits`.
        size_of: returns the number of partitions of `__share_group_state`, or 0 if the topic does not exist.
        partitions_of: returns the number of partitions of the topic with a given id; 0 if it does not exist.
        prune: called with the number of a partition of the topic and the first offset that it still needs.
    """

    def __init__(
        self,
        timers: Timers,
        limits: ShareLimits,
        size_of: Callable[[], int],
        partitions_of: Callable[[bytes], int],
        prune: Callable[[int, int], None],
    ) -> None:
        self._timers = timers
        self._prune = prune
        #: The offset to which each partition has been pruned.
        self._pruned: dict[int, int] = {}
        self._is_kept_up = False

        def new_shard(number: int, timers: ShardTimers) -> ShareShard:
            return ShareShard(limits, partitions_of)

        self._runtime = CoordinatorRuntime(SHARE_GROUP_STATE_TOPIC, timers, new_shard, size_of, LoadingInOrder)

    # Partitions of the topic.

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return SHARE_GROUP_STATE_TOPIC

    def elected(self, number: int, log: CoordinatorLog, leader_epoch: int, now_ms: int) -> None:
        """Serve a partition of the topic; see `CoordinatorRuntime.elected`."""
        self._runtime.elected(number, log, leader_epoch, now_ms)
        if not self._is_kept_up:
            self._is_kept_up = True
            self._timers.at(now_ms + PRUNE_INTERVAL_MS, self._prune_all)
            self._timers.at(now_ms + COLD_INTERVAL_MS, self._snapshot_cold)

    def resigned(self, number: int, epoch: int | None = None) -> None:
        """Stop serving a partition of the topic; see `CoordinatorRuntime.resigned`."""
        if self._runtime.resigned(number, epoch):
            self._pruned.pop(number, None)

    def unload(self) -> None:
        """Stop serving, and answer all waiting operations with NOT_COORDINATOR."""
        self._runtime.unload()

    @property
    def is_loading(self) -> bool:
        """Whether a partition is being loaded."""
        return self._runtime.is_loading

    # Operations.

    def initialize(
        self, share: SharePartitionKey, state_epoch: int, start_offset: int, done: Done[None], now_ms: int
    ) -> None:
        """Begin a new state; see `ShareShard.initialize`."""
        self._submit(share, lambda shard: shard.initialize(share, state_epoch, start_offset, now_ms), done, now_ms)

    def read(self, share: SharePartitionKey, leader_epoch: int, done: Done[ShareState], now_ms: int) -> None:
        """Read a state as the leader of the partition; see `ShareShard.read`."""
        self._submit(share, lambda shard: shard.read(share, leader_epoch, now_ms), done, now_ms)

    def write(self, share: SharePartitionKey, write: Write, done: Done[None], now_ms: int) -> None:
        """Store a change as the leader of the partition; see `ShareShard.write`."""
        self._submit(share, lambda shard: shard.write(share, write, now_ms), done, now_ms)

    def delete(self, share: SharePartitionKey, done: Done[None], now_ms: int) -> None:
        """Delete a state; see `ShareShard.delete`."""
        self._submit(share, lambda shard: shard.delete(share), done, now_ms)

    def summary(self, share: SharePartitionKey, done: Done[ShareState | None], now_ms: int) -> None:
        """Read a state for an overview; see `ShareShard.summary`."""
        self._submit(share, lambda shard: shard.summary(share), done, now_ms)

    def _submit(
        self, share: SharePartitionKey, operation: Operation[ShareShard, R], done: Done[R], now_ms: int
    ) -> None:
        self._runtime.submit(share.coordinator_key, operation, done, now_ms)

    # Upkeep.

    def changed(self, delta: MetadataDelta) -> None:
        """Delete the states of deleted topics."""
        gone = frozenset(
            change.before.topic_id for change in delta.topics if change.is_deletion and change.before is not None
        )
        if gone:
            self._timers.soon(lambda now_ms: self._forget_topics(gone, now_ms))

    def _forget_topics(self, topic_ids: frozenset[bytes], now_ms: int) -> None:
        for number in self._runtime.numbers():
            # A partition that is being loaded keeps the states, which are harmless: no later topic has these ids.
            self._runtime.submit_to(number, lambda shard: shard.forget_topics(topic_ids), ignore, now_ms)

    def _prune_all(self, now_ms: int) -> None:
        for number in self._runtime.numbers():
            self._runtime.submit_to(number, _redundant_to, partial(self._prune_to, number), now_ms)
        self._timers.at(now_ms + PRUNE_INTERVAL_MS, self._prune_all)

    def _prune_to(self, number: int, offset: int | BrokerError | None) -> None:
        if isinstance(offset, int) and offset > self._pruned.get(number, 0):
            self._pruned[number] = offset
            self._prune(number, offset)

    def _snapshot_cold(self, now_ms: int) -> None:
        for number in self._runtime.numbers():
            self._runtime.submit_to(number, lambda shard: shard.snapshot_cold(now_ms), ignore, now_ms)
        self._timers.at(now_ms + COLD_INTERVAL_MS, self._snapshot_cold)


def _redundant_to(shard: ShareShard) -> Result[int | None]:
    return Result(shard.offsets.redundant_to)
