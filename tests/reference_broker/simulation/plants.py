"""Named faults, each of which breaks one behaviour of the broker; the simulation has to find them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from kafkawire.reference_broker.cluster.controller import isr_changes, leader_elections, partition_states
from kafkawire.reference_broker.cluster.controller.context import Context
from kafkawire.reference_broker.coordinators.partition import CoordinatorPartition
from kafkawire.reference_broker.groups.classic.members import ClassicMembers
from kafkawire.reference_broker.groups.shard import GroupShard
from kafkawire.reference_broker.replicas import control_requests, followed, follower_reads
from kafkawire.reference_broker.replicas.cluster_replica import ClusterReplica
from kafkawire.reference_broker.replicas.in_sync import InSync, IsrState
from kafkawire.reference_broker.storage.disk.memory import _MemoryFile
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.producers.producers import Producers
from kafkawire.reference_broker.transactions.shard import TransactionShard
from kafkawire.reference_broker.transactions.transaction import Transaction
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.protocol.tables.znodes import CONTROLLER_EPOCH
from kafkawire.sdk.registry.registry import Check

__all__ = ["PLANTS", "planted"]

#: The faults, keyed by name; each is a context manager.
PLANTS: dict[str, Callable[[], contextlib.AbstractContextManager[object]]] = {}


def _plant(make: Callable[[], contextlib.AbstractContextManager[object]]) -> None:
    PLANTS[make.__name__.removeprefix("_")] = make


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a fault for a while."""
    with PLANTS[name]():
        yield


@_plant
def _acknowledged_before_the_high_watermark() -> Any:
    real = ClusterReplica.when_acknowledged

    def when_acknowledged(self: ClusterReplica, acks: int, end_offset: int, callback: Any) -> None:
        real(self, Acks.LEADER, end_offset, callback)

    return patch.object(ClusterReplica, "when_acknowledged", when_acknowledged)


@_plant
def _high_watermark_of_the_fastest_follower() -> Any:
    def committed_to(self: Any, acknowledged_to: int) -> int:
        if self._in_sync is None or len(self._in_sync.isr) < self._required():
            return int(self.log.high_watermark)
        ends = [each.end_offset for each in self._positions if each.broker_id in self._in_sync.maximal]
        return min(acknowledged_to, max(ends, default=acknowledged_to))

    return patch.object(ClusterReplica, "_committed_to", committed_to)


@_plant
def _no_check_of_the_last_fetched_epoch() -> Any:
    """Followers never truncate, so logs may differ where only one of them has the right records."""
    return patch.object(follower_reads, "divergence", lambda log, wanted: None)


@_plant
def _truncation_to_the_high_watermark() -> Any:
    """As before KIP-101, a follower begins by truncating its log to its high watermark."""

    def begin(self: Any) -> None:
        self._truncate(min(self.replica.log.high_watermark, self.replica.log.next_offset))

    return patch.multiple(followed.Followed, begin=begin)


@_plant
def _isr_never_grows() -> Any:
    return patch.object(ClusterReplica, "_may_join", lambda self, in_sync, position: False)


@_plant
def _election_outside_the_isr() -> Any:
    real = leader_elections.elect_offline

    def elect_offline(current: Any, replicas: Any, is_online: Any, *, is_unclean_allowed: bool) -> Any:
        online = tuple(filter(is_online, replicas))
        if online and online[0] not in current.isr:
            return leader_elections.Elected(current.led_by(online[0], online), online)
        return real(current, replicas, is_online, is_unclean_allowed=is_unclean_allowed)

    return patch.object(partition_states, "elect_offline", elect_offline)


@_plant
def _same_leader_epoch_after_an_election() -> Any:
    from kafkawire.reference_broker.cluster.controller.context import Leadership

    real = Leadership.led_by

    def led_by(self: Any, *arguments: Any) -> Any:
        return real(self, *arguments)._replace(leader_epoch=self.leader_epoch)

    return patch.object(Leadership, "led_by", led_by)


@_plant
def _consumers_read_to_the_end() -> Any:
    def readable_to(self: Any, *, is_committed: bool) -> int:
        return int(self.next_offset)

    return patch.object(PartitionLog, "readable_to", readable_to)


@_plant
def _uncommitted_transactions_are_read() -> Any:
    def readable_to(self: Any, *, is_committed: bool) -> int:
        return int(self.high_watermark)

    return patch.object(PartitionLog, "readable_to", readable_to)


@_plant
def _replies_of_coordinators_before_replication() -> Any:
    """A coordinator reports that an offset is committed when only its own log has it."""

    def await_commit(self: Any, pending: Any) -> None:
        self._reply(pending, None)

    return patch.object(CoordinatorPartition, "_await_commit", await_commit)


@_plant
def _markers_lost_with_their_coordinator() -> Any:
    """The next coordinator does not end a transaction whose outcome has been decided."""
    real = TransactionShard.loaded

    def loaded(self: Any, now_ms: int) -> None:
        kept = self.transactions
        self.transactions = {key: each for key, each in kept.items() if not each.is_prepared}
        try:
            real(self, now_ms)
        finally:
            self.transactions = kept

    return patch.object(TransactionShard, "loaded", loaded)


@_plant
def _no_new_epoch_for_a_producer() -> Any:
    """A restarted transactional producer does not fence its predecessor."""
    real = Transaction.initialized

    def initialized(self: Any, *arguments: Any) -> Any:
        begun = real(self, *arguments)
        return replace(begun, epoch=max(self.epoch, 0))

    return patch.object(Transaction, "initialized", initialized)


@_plant
def _producers_forgotten_by_new_leaders() -> Any:
    """A follower that becomes the leader loses everything that it has learned about producers."""
    real = PartitionLog.lead

    def lead(self: Any, leader_epoch: int) -> None:
        if leader_epoch > self.leader_epoch:
            self.producers.restore([], self.next_offset)
        real(self, leader_epoch)

    return patch.object(PartitionLog, "lead", lead)


@_plant
def _no_repeated_sequences_noticed() -> Any:
    """A resent batch is appended again."""
    from kafkawire.reference_broker.storage.producers import producers

    stack = contextlib.ExitStack()
    stack.enter_context(patch.object(producers, "_duplicate", lambda producer, batch: None))
    stack.enter_context(patch.object(Producers, "_check_sequence", lambda self, producer, batch: None))
    return stack


@_plant
def _syncs_that_do_nothing() -> Any:
    def sync(self: Any) -> None:
        self._disk.call("sync", self._path)

    return patch.object(_MemoryFile, "sync", sync)


@_plant
def _followers_without_a_leader_epoch() -> Any:
    """A leader also answers followers that follow another leader, or an earlier epoch of it."""
    real = followed.Followed.to_fetch

    def to_fetch(self: Any) -> Any:
        self.sent = real(self)
        self.sent.current_leader_epoch = -1
        return self.sent

    return patch.object(followed.Followed, "to_fetch", to_fetch)


@_plant
def _smaller_isr_before_the_response() -> Any:
    """A leader commits without the followers that it has only asked to remove."""
    real = InSync.shrink

    def shrink(self: Any, broker_ids: Any) -> Any:
        proposed = real(self, broker_ids)
        self.maximal = frozenset(proposed.isr)
        return proposed

    return patch.object(InSync, "shrink", shrink)


@_plant
def _isr_changes_without_a_partition_epoch() -> Any:
    """A request that was sent before another one, but arrives after it, is carried out."""
    real = isr_changes.IsrChanges._wanted

    def wanted(self: Any, *arguments: Any) -> Any:
        known = self._context.leaderships
        return {
            partition: each._replace(partition_epoch=known[partition].partition_epoch) if partition in known else each
            for partition, each in real(self, *arguments).items()
        }

    return patch.object(isr_changes.IsrChanges, "_wanted", wanted)


@_plant
def _controllers_that_never_stop_writing() -> Any:
    """A controller does not notice that another one has been elected."""
    return patch.object(Context, "check", property(lambda self: Check(CONTROLLER_EPOCH.path(), -1)))


@_plant
def _followers_that_join_too_early() -> Any:
    """A follower joins the ISR at its first fetch, even without all committed records."""

    def may_join(self: Any, in_sync: Any, position: Any) -> bool:
        return in_sync.state is IsrState.COMMITTED and position.broker_id not in in_sync.isr

    return patch.object(ClusterReplica, "_may_join", may_join)


@_plant
def _commits_of_removed_members() -> Any:
    """A member that has been replaced still commits offsets."""
    return patch.object(ClassicMembers, "check_commit", lambda self, commit, now_ms: None)


@_plant
def _groups_lost_with_their_coordinator() -> Any:
    """The next coordinator knows the offsets of a group, but not its generation."""
    real = GroupShard.loaded

    def loaded(self: Any, now_ms: int) -> None:
        self.classic_groups.clear()
        real(self, now_ms)

    return patch.object(GroupShard, "loaded", loaded)


@_plant
def _only_the_last_batch_of_a_producer() -> Any:
    """An older batch that is resent is taken for a new one."""
    from kafkawire.reference_broker.storage.producers import producers

    real = producers._duplicate

    def duplicate(producer: Any, batch: Any) -> Any:
        found = real(producer, batch)
        return found if producer.batches and found is producer.batches[-1] else None

    stack = contextlib.ExitStack()
    stack.enter_context(patch.object(producers, "_duplicate", duplicate))
    stack.enter_context(patch.object(Producers, "_check_sequence", lambda self, producer, batch: None))
    return stack


@_plant
def _requests_for_the_former_process() -> Any:
    """A broker that has not registered yet takes requests that were meant for its former process."""
    return patch.object(control_requests, "_NOT_REGISTERED", -2)
