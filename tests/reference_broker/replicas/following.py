"""Followers of scripted leaders: replicas with logs on in-memory disks, and a fetcher with its clock."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from kafkawire.reference_broker.config.topic_configs import LogConfig
from kafkawire.reference_broker.replicas.fetcher import (
    CURRENT_VERSIONS,
    Fetcher,
    FetcherOptions,
    FetcherVersions,
    Planned,
)
from kafkawire.reference_broker.replicas.followed import FollowedState
from kafkawire.reference_broker.replicas.replication_quota import ReplicationQuota
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.work.background import Background, at_once
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.replicas.scripted_leaders import ScriptedBroker, ScriptedLog
from tests.reference_broker.storage.replicated_logs import SMALL, Replica, batches_of

__all__ = [
    "ID",
    "OPTIONS",
    "SYNCED",
    "T0",
    "Following",
    "FollowingReplica",
    "error",
    "exchange",
    "followed",
    "many",
    "once",
]

ID = b"T" * 16
T0 = TopicPartition("t", 0)
OPTIONS = FetcherOptions(
    broker_id=2,
    wait_max_ms=500,
    min_bytes=1,
    max_bytes=2**20,
    response_max_bytes=10 * 2**20,
    backoff_ms=1_000,
    response_timeout_ms=30_000,
)
Change = Callable[[FetchResponse.PartitionData], None]
#: A configuration that makes every append wait for a sync.
SYNCED = dataclasses.replace(SMALL, flush_messages=1)


class FollowingReplica:
    """The replica of a partition on the follower; it owns its log.

    Args:
        log: the log of the replica.
        moved: called when the log's end or high watermark moves.
        topic_id: the id of the topic.
    """

    def __init__(self, log: PartitionLog, moved: Callable[[], None], topic_id: bytes = ID) -> None:
        self.log = log
        self.topic_id = topic_id
        self._moved = moved
        log.own(self)

    def followed(self, high_watermark: int, start_offset: int) -> None:
        self.log.set_high_watermark(high_watermark)
        self.log.begin_at(min(start_offset, self.log.high_watermark))

    def moved(self) -> None:
        self._moved()

    def transaction_begun(self, first_offset: int) -> None: ...
    def appended(self, end_offset: int, size_bytes: int) -> None: ...
    def trimmed(self) -> None: ...
    def truncated(self) -> None: ...
    def settled(self) -> None: ...
    def prepared(self) -> None: ...
    def ended(self, error: BrokerError) -> None: ...


class Following:
    """A fetcher of one partition and its leader.

    Args:
        config: the configuration of the log.
        background: see `Background`.
        disk: the disk of the follower.
        options: the options of the fetcher.
        versions: the versions of the fetcher's requests.

    Attributes:
        wakes: the number of times that the fetcher has asked for a turn.
        quota: the quota of the fetcher, which has no limit.
    """

    def __init__(
        self,
        config: LogConfig = SMALL,
        background: Background = at_once,
        disk: MemoryDisk | None = None,
        options: FetcherOptions = OPTIONS,
        versions: FetcherVersions = CURRENT_VERSIONS,
    ) -> None:
        self.now_ms = 1_000
        self.wakes = 0
        self.quota = ReplicationQuota(11, 1_000)
        self.broker = ScriptedBroker({"t": ID})
        self.leader = ScriptedLog()
        self.stored = Replica(config, disk, background)
        self.fetcher = Fetcher(1, options, lambda: 77, self._wake, self.quota, versions)
        self.replica = FollowingReplica(self.stored.log, self._moved)

    def _wake(self) -> None:
        self.wakes += 1

    def _moved(self) -> None:
        self.fetcher.moved(T0)

    @property
    def log(self) -> PartitionLog:
        return self.replica.log

    @property
    def leader(self) -> ScriptedLog:
        """The log of the leader."""
        return self.broker.logs[T0]

    @leader.setter
    def leader(self, log: ScriptedLog) -> None:
        self.broker.logs[T0] = log

    @property
    def state(self) -> FollowedState:
        return self.fetcher.partitions[T0].state

    def follow(self, leader_epoch: int | None = None) -> None:
        """Follow the leader, by default in the leader's epoch."""
        self.log.refuse_waiting(BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        self.fetcher.add(T0, self.replica, self.leader.epoch if leader_epoch is None else leader_epoch)

    def lead(self, epoch: int, *, upto: int | None = None) -> None:
        """Follow another leader, which has the former leader's records up to an offset."""
        self.leader = ScriptedLog(epoch, self.leader, upto)
        self.follow()

    def plan(self) -> Planned | None:
        return self.fetcher.plan(self.now_ms)

    def exchange(self) -> Any:
        """Send the request that is due, deliver its answer, and return the request."""
        planned = self.plan()
        assert planned is not None
        self.give(self.broker.answer(planned))
        return self.broker.last

    def give(self, outcome: Message | Exception) -> None:
        """Give the fetcher an outcome of the request in flight."""
        self.fetcher.answered(outcome, self.now_ms)

    def settle(self, requests: int = 20) -> None:
        """Exchange requests until the log equals what the leader has sent of its log."""
        for _ in range(requests):
            self.now_ms = self.fetcher.due_ms(self.now_ms) or self.now_ms
            if (planned := self.plan()) is not None:
                self.give(self.broker.answer(planned))

    @property
    def is_equal(self) -> bool:
        """Whether the follower has exactly the leader's batches."""
        leader = {base: data for base, _, _, data in self.leader.batches}
        own = batches_of(self.log)
        return own == leader or ({*own} >= {*leader} and all(own[base] == data for base, data in leader.items()))


def once(change: Change) -> Change:
    """Return a change that applies only to the next response."""
    left = [change]

    def apply(data: FetchResponse.PartitionData) -> None:
        if left:
            left.pop()(data)

    return apply


def error(code: ErrorCode) -> Change:
    """Return a change that turns a response into an error."""

    def apply(data: FetchResponse.PartitionData) -> None:
        data.error_code, data.records, data.high_watermark = code, b"", -1

    return apply


def followed(count: int = 3) -> Following:
    """Return a follower with a number of records, all committed by the leader."""
    following = Following()
    for number in range(count):
        following.leader.append(b"%d" % number, is_committed=True)
    following.follow()
    following.exchange()
    assert following.log.next_offset == count
    return following


def many(
    count: int,
    *,
    background: Background = at_once,
    config: LogConfig = SMALL,
    kind: type[FollowingReplica] = FollowingReplica,
    quota: ReplicationQuota | None = None,
) -> tuple[Fetcher, ScriptedBroker]:
    """Return a fetcher that follows many partitions, and their leader."""
    broker = ScriptedBroker({"t": ID})
    fetcher = Fetcher(1, OPTIONS, lambda: 77, lambda: None, quota or ReplicationQuota(11, 1_000))
    for number in range(count):
        key = TopicPartition("t", number)
        broker.logs[key] = ScriptedLog()
        fetcher.add(key, kind(Replica(config, None, background).log, partial(fetcher.moved, key)), 0)
    return fetcher, broker


def exchange(fetcher: Fetcher, broker: ScriptedBroker, now_ms: int) -> FetchRequest:
    """Send the request that is due, and deliver its answer."""
    planned = fetcher.plan(now_ms)
    assert planned is not None
    fetcher.answered(broker.answer(planned), now_ms)
    request = broker.last
    assert isinstance(request, FetchRequest)
    return request
