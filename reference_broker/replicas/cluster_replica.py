"""A replica in a cluster, where several brokers hold the records of a partition.

As the leader, it knows its followers and the ISR, and commits the records that all potentially in-sync replicas have.
It requests an ISR change when a follower has caught up or fallen behind. As a follower, it adopts its leader's high
watermark. The log appends and reads in the same way in both roles.

A follower can join the ISR only when it fetches, so a follower that is gone never joins. Therefore, each fetch by a
follower that is not in sync reads the partition, even if there is nothing new.

Source: `Partition` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from kafkawire.reference_broker.replicas.awaited_offset import (
    COMPLETES_ANY_FETCH_BYTES,
    AwaitedOffset,
    Reached,
    Watcher,
    Watchers,
)
from kafkawire.reference_broker.replicas.follower_positions import (
    Follower,
    FollowerPosition,
    FollowerPositions,
    IdlePartition,
)
from kafkawire.reference_broker.replicas.in_sync import CommittedIsr, InSync, IsrState, ProposedIsr
from kafkawire.reference_broker.replicas.isr_requests import Answered, IsrChange
from kafkawire.reference_broker.replicas.preferred_readers import preferred_reader
from kafkawire.reference_broker.replicas.replica import Replica, RoleChanged
from kafkawire.reference_broker.replicas.replication_quota import ReplicationQuota
from kafkawire.reference_broker.replicas.roles import Role, Term
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["ClusterReplica", "IsrChanges", "IsrKeeper", "Surroundings"]

_log = logging.getLogger("kafkawire.broker")


class IsrKeeper(Protocol):
    """Submits ISR changes to the controller (see `AlterPartition`)."""

    def submit(self, change: IsrChange, done: Answered) -> None:
        """Request a change, replacing any earlier one for the partition; `done` is not called before this returns."""
        ...

    def withdraw(self, partition: Partition) -> None:
        """Withdraw the change for a partition."""
        ...


@dataclass(slots=True)
class IsrChanges:
    """Counts the changes to the ISRs of all partitions that a broker leads.

    Attributes:
        shrinks: how many have removed replicas.
        expands: how many have added replicas.
    """

    shrinks: int = 0
    expands: int = 0

    def count(self, before: Collection[int], after: Collection[int]) -> None:
        """Count a change."""
        self.shrinks += not set(before) <= set(after)
        self.expands += not set(after) <= set(before)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a broker's replicas know about their cluster.

    Attributes:
        broker_id: the id of this broker.
        lag_max_ms: how long a follower stays in sync after it was last caught up, `replica.lag.time.max.ms`.
        clock: returns the current time in milliseconds.
        is_alive: returns whether the broker with a given id is registered.
        isr_keeper: see `IsrKeeper`.
        rack_of: returns the rack of the live broker with a given id; None if all consumers read from the leader.
        follower_moved: called when more of a follower's log is durable, or the log's start offset has increased, since
            its next fetch may depend on that (see `Fetchers.moved`); None if nothing is fetched.
        quota: the quota on what this broker sends to followers; None for no quota.
        isr_changes: counts the changes that the controller has committed.
    """

    broker_id: int
    lag_max_ms: int
    clock: Callable[[], int]
    is_alive: Callable[[int], bool]
    isr_keeper: IsrKeeper
    rack_of: Callable[[int], str | None] | None = None
    follower_moved: Callable[[Partition], None] | None = None
    quota: ReplicationQuota | None = None
    isr_changes: IsrChanges = field(default_factory=IsrChanges)


class ClusterReplica(Replica):
    """One of several replicas of a partition.

    Args:
        partition: the topic and number of the partition.
        log: see `Replica`.
        surroundings: see `Surroundings`.
        on_role: see `Replica`.

    Attributes:
        partition: see above.
    """

    def __init__(
        self,
        partition: Partition,
        log: PartitionLog,
        surroundings: Surroundings,
        on_role: RoleChanged = lambda replica, before: None,
    ) -> None:
        self.partition = partition
        self._epoch_start = 0
        self._surroundings = surroundings
        self._positions = FollowerPositions()
        #: None unless this replica leads.
        self._in_sync: InSync | None = None
        #: The offsets for callbacks that wait only for this disk, and for callbacks that wait for all logs to begin at
        #: an offset.
        self._acknowledged = AwaitedOffset(log.acknowledged_to)
        self._low_watermark = AwaitedOffset(log.log_start_offset)
        self._end_watchers = Watchers()
        self._appended_bytes = 0
        super().__init__(log, on_role)

    @property
    def isr_changes(self) -> IsrChanges:
        """The changes to the ISRs of all partitions that this broker leads."""
        return self._surroundings.isr_changes

    @property
    def isr(self) -> tuple[int, ...]:
        """The in-sync replicas that the controller has confirmed; empty unless this replica leads."""
        return () if self._in_sync is None else self._in_sync.isr

    @property
    def maximal_isr(self) -> frozenset[int]:
        """All replicas that may be in sync (see `InSync`); empty unless this replica leads."""
        return frozenset() if self._in_sync is None else self._in_sync.maximal

    @property
    def epoch_start(self) -> int:
        return self._epoch_start

    def position(self, broker_id: int) -> FollowerPosition | None:
        """Return the known position of a follower; None if there is no such follower, or this replica does not lead."""
        return self._positions.get(broker_id)

    def preferred_reader(self, rack: str, offset: int) -> int | None:
        rack_of, in_sync = self._surroundings.rack_of, self._in_sync
        if rack_of is None or in_sync is None:
            return None
        able = [
            each
            for each in self._positions
            if each.broker_id in in_sync.isr and each.start_offset <= offset <= each.end_offset
        ]
        return preferred_reader(rack, self._surroundings.broker_id, able, rack_of)

    # Throttled replication.

    def holds_back(self, broker_id: int) -> bool:
        quota = self._surroundings.quota
        return (
            quota is not None
            and quota.is_throttled(self.partition)
            and broker_id not in self.isr
            and quota.is_exceeded(self._surroundings.clock())
        )

    def sent(self, size_bytes: int) -> None:
        quota = self._surroundings.quota
        if quota is not None and quota.is_throttled(self.partition):
            quota.record(size_bytes, self._surroundings.clock())

    # Acknowledgement.

    def check_acks(self, acks: int) -> None:
        """Check that this replica leads and, if all replicas have to acknowledge, that enough of them are in sync.

        Args:
            acks: see `Acks`.

        Raises:
            BrokerError: an error from `check`, or NOT_ENOUGH_REPLICAS.
        """
        self.check()
        if acks == Acks.ALL and len(self.isr) < self._required():
            reason = f"the in-sync replicas are {list(self.isr)}, but min.insync.replicas requires {self._required()}"
            raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, reason)

    def when_acknowledged(self, acks: int, end_offset: int, callback: Reached) -> None:
        """Call back once a batch has been acknowledged, or with the error that prevents this.

        Args:
            acks: `Acks.ALL` to wait for all replicas that may be in sync; anything else to wait for this one.
            end_offset: the end of the batch.
            callback: called once; the error may be NOT_ENOUGH_REPLICAS_AFTER_APPEND, or the error with which the role
                ends.
        """
        if acks == Acks.ALL:
            self._high_watermark.when_reached(end_offset, partial(self._reached, callback))
        else:
            self._acknowledged.when_reached(end_offset, callback)

    def _reached(self, callback: Reached, error: BrokerError | None) -> None:
        if error is None and len(self.maximal_isr) < self._required():
            reason = (
                f"only {sorted(self.maximal_isr)} may be in sync, but min.insync.replicas requires {self._required()}"
            )
            error = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, reason)
        callback(error)

    def _required(self) -> int:
        """Return how many replicas have to be in sync, which is at most the number of replicas."""
        return min(self.log.config.min_insync_replicas, len(self._positions) + 1)

    # The followers.

    def fetched(
        self,
        follower: Follower,
        end_offset: int,
        start_offset: int,
        now_ms: int,
        session: IdlePartition | None = None,
    ) -> None:
        """Record the arrival of a follower's fetch from an offset within this log.

        Args:
            follower: a broker to which the partition is assigned.
            end_offset, start_offset, now_ms: see `FollowerPosition.fetched`.
            session: the partition in the fetch session.
        """
        position, in_sync = self._positions.get(follower.broker_id), self._in_sync
        if position is None or in_sync is None:
            return
        has_moved = position.end_offset != end_offset
        has_trimmed = position.start_offset != start_offset
        position.fetched(end_offset, start_offset, self.log.next_offset, now_ms, follower.broker_epoch, session)
        if has_trimmed:
            self._low_watermark.advance(self.low_watermark)
        if self._may_join(in_sync, position):
            self._submit(in_sync.expand(follower.broker_id))
        if has_moved:
            self.moved()

    def _may_join(self, in_sync: InSync, position: FollowerPosition) -> bool:
        """Return whether to request adding a follower: it has all records that are committed or predate this epoch."""
        return (
            in_sync.state is IsrState.COMMITTED
            and position.broker_id not in in_sync.isr
            and position.end_offset >= self.log.high_watermark
            and position.end_offset >= self.epoch_start
            and self._surroundings.is_alive(position.broker_id)
        )

    def check_in_sync(self, now_ms: int) -> None:
        """Request the removal of followers that have fallen behind; call this every `lag_max_ms / 2`."""
        self._low_watermark.advance(self.low_watermark)
        if self.log.high_watermark < self.log.acknowledged_to:
            self.moved()  # a follower that has not joined and no longer fetches holds nothing back
        in_sync = self._in_sync
        if in_sync is None or in_sync.state is not IsrState.COMMITTED:
            return
        out = [
            each for each in in_sync.isr if each != self._surroundings.broker_id and not self._keeps_up(each, now_ms)
        ]
        if out:
            self._submit(in_sync.shrink(out))

    def _keeps_up(self, broker_id: int, now_ms: int) -> bool:
        position = self._positions.get(broker_id)
        lag_max_ms = self._surroundings.lag_max_ms
        return position is not None and position.is_caught_up(self.log.next_offset, now_ms, lag_max_ms)

    def _submit(self, proposed: ProposedIsr) -> None:
        epochs = {each.broker_id: each.broker_epoch for each in self._positions}
        change = IsrChange(self.partition, self.topic_id, proposed, epochs)
        self._surroundings.isr_keeper.submit(change, partial(self._answered, proposed))

    def _answered(self, proposed: ProposedIsr, answer: CommittedIsr | ErrorCode) -> None:
        in_sync = self._in_sync
        if in_sync is None:
            return
        before = in_sync.isr
        if in_sync.answered(proposed, answer):
            self._submit(proposed)
        if self.term is not None:
            self.term = self.term._replace(isr=in_sync.isr, partition_epoch=in_sync.partition_epoch)
        if in_sync.isr != before:
            self._surroundings.isr_changes.count(before, in_sync.isr)
            _log.info(
                "%s: the in-sync replicas are %s; they were %s before", self.log.folder, list(in_sync.isr), list(before)
            )
            for position in self._positions:
                if position.broker_id not in in_sync.isr:
                    position.read_again()  # it may have caught up while the answer was pending
        elif in_sync.state is IsrState.UNKNOWN:
            _log.info("%s: the controller did not set the ISR to %s: %s", self.log.folder, list(proposed.isr), answer)
        self.moved()

    # The start and the end of the committed records.

    def moved(self) -> None:
        """Move the high watermark to the end of the records that all potentially in-sync replicas have."""
        size_bytes, self._appended_bytes = self._appended_bytes, 0
        if self.role is not Role.LEADER:
            self._tell_fetchers()
            return
        acknowledged_to = self.log.acknowledged_to
        self._acknowledged.advance(acknowledged_to)
        offset = self._committed_to(acknowledged_to)
        if offset > self.log.high_watermark:
            self._committed(self.log.commit_to(offset))
        if size_bytes:
            self._end_watchers.tell(size_bytes)

    def _tell_fetchers(self) -> None:
        follower_moved = self._surroundings.follower_moved
        if self.role is Role.FOLLOWER and follower_moved is not None:
            follower_moved(self.partition)

    def _committed(self, decided: list[int]) -> None:
        """Adapt to the log's new high watermark.

        Args:
            decided: see `PartitionLog.commit_to`.
        """
        for first_offset in decided:
            self._last_stable_offset.decided(first_offset)
        self._high_watermark.advance(self.log.high_watermark)
        self._last_stable_offset.advance(self.log.producers.first_unstable_offset)

    def _committed_to(self, acknowledged_to: int) -> int:
        """Return the end of the committed records, which may be lower than before.

        This includes a follower that has caught up and is about to join. Otherwise, a partition whose other replicas
        have failed would keep moving its high watermark ahead of the follower that is catching up.
        """
        in_sync = self._in_sync
        if in_sync is None or len(in_sync.isr) < self._required():
            return self.log.high_watermark
        surroundings, end_offset = self._surroundings, self.log.next_offset
        offset = acknowledged_to
        for position in self._positions:
            if position.end_offset < offset and (
                position.broker_id in in_sync.maximal
                or (
                    position.is_caught_up(end_offset, surroundings.clock(), surroundings.lag_max_ms)
                    and surroundings.is_alive(position.broker_id)
                )
            ):
                offset = position.end_offset
        return offset

    def followed(self, high_watermark: int, start_offset: int) -> None:
        """Adopt the offsets that the leader sent in its response to a fetch, if this replica is a follower.

        Args:
            high_watermark: the leader's high watermark, which may be beyond the end of this log, or lower than before.
            start_offset: the start of the leader's log; only committed records are removed.
        """
        if self.role is not Role.FOLLOWER:
            return
        log = self.log
        decided = log.set_high_watermark(high_watermark)
        if log.high_watermark < self._high_watermark.offset:
            self._high_watermark.move_back(log.high_watermark)
            self._last_stable_offset.truncate(log.next_offset, log.producers.first_unstable_offset)
        self._committed(decided)
        log.begin_at(min(start_offset, log.high_watermark))

    @property
    def low_watermark(self) -> int:
        """The lowest start offset among the replicas whose brokers are alive."""
        lowest = self.log.log_start_offset
        for position in self._positions:
            if position.start_offset < lowest and self._surroundings.is_alive(position.broker_id):
                lowest = position.start_offset
        return lowest

    def when_low_watermark(self, offset: int, callback: Reached) -> None:
        """Call back once the logs of all live replicas begin at `offset` or later, or with an error."""
        self._low_watermark.move_back(self.low_watermark)  # a broker may have returned
        self._low_watermark.advance(self.low_watermark)
        self._low_watermark.when_reached(offset, callback)

    # The role.

    def _begin(self, term: Term) -> None:
        """As the leader, adopt the ISR and the assignment of a term.

        If the state in a term is already known, for example because only a topic id was added, a pending ISR change is
        not affected.
        """
        log, own_id = self.log, self._surroundings.broker_id
        # Another broker may have led in between, and a follower may have truncated its log.
        is_new_leader = self._in_sync is None or term.leader_epoch > self.leader_epoch + 1
        is_new_epoch = is_new_leader or term.leader_epoch != self.leader_epoch
        self._positions.assign([each for each in term.replicas if each != own_id])
        if self._in_sync is None:
            self._in_sync = InSync(term.isr, term.leader_epoch, term.partition_epoch)
            self._acknowledged = AwaitedOffset(log.acknowledged_to)
            self._low_watermark = AwaitedOffset(log.log_start_offset)
        elif is_new_epoch or term.partition_epoch != self._in_sync.partition_epoch:
            self._in_sync.begin(term.isr, term.leader_epoch, term.partition_epoch)
            self._surroundings.isr_keeper.withdraw(self.partition)
        if is_new_epoch:
            self._epoch_start, now_ms = log.next_offset, self._surroundings.clock()
            for position in self._positions:
                is_in_sync = position.broker_id in term.isr
                position.begin(self.epoch_start, now_ms, is_in_sync=is_in_sync, is_new_leader=is_new_leader)
        else:
            for position in self._positions:
                position.read_again()

    def _step(self, role: Role) -> None:
        if role is not Role.LEADER and self._in_sync is not None:
            self._in_sync, self._epoch_start = None, 0
            self._positions.clear()
            self._surroundings.isr_keeper.withdraw(self.partition)
        super()._step(role)

    def _leave(self, role: Role, error: BrokerError) -> None:
        super()._leave(role, error)
        self._end_waiting(error)

    def _end_waiting(self, error: BrokerError) -> None:
        self._acknowledged.refuse(error)
        self._low_watermark.refuse(error)
        self._end_watchers.tell(COMPLETES_ANY_FETCH_BYTES)

    # Waiting.

    def watch(self, watcher: Watcher, *, is_committed: bool = False, is_follower: bool = False) -> None:
        if is_follower:
            self._end_watchers.add(watcher)
        else:
            super().watch(watcher, is_committed=is_committed)

    def unwatch(self, watcher: Watcher) -> None:
        super().unwatch(watcher)
        self._end_watchers.remove(watcher)

    # Called by the log (see `LogOwner`).

    def appended(self, end_offset: int, size_bytes: int) -> None:
        super().appended(end_offset, size_bytes)
        self._appended_bytes += size_bytes

    def trimmed(self) -> None:
        super().trimmed()
        self._low_watermark.advance(self.low_watermark)
        self._tell_fetchers()

    def truncated(self) -> None:
        super().truncated()
        self._end_watchers.tell(COMPLETES_ANY_FETCH_BYTES)

    def prepared(self) -> None:
        super().prepared()
        self._end_watchers.tell(COMPLETES_ANY_FETCH_BYTES)

    def ended(self, error: BrokerError) -> None:
        super().ended(error)
        self._end_waiting(error)
