"""The groups and offsets of one partition of `__consumer_offsets`: a state machine for the coordinator's runtime.

Each operation returns a `Result`. Committed offsets change when their records are replayed. A classic group changes
immediately; its record is written when a generation gets its assignment, and when the group becomes empty.

Source: `GroupCoordinatorShard` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kafkawire.reference_broker.coordinators.shard import (
    CoordinatorRecord,
    InTransaction,
    LastMarker,
    Result,
    ShardTimers,
)
from kafkawire.reference_broker.groups.classic.group import ClassicGroup, GroupState, JoinReply, SyncReply
from kafkawire.reference_broker.groups.classic.members import ClassicMembers
from kafkawire.reference_broker.groups.consumer.changes import Changes
from kafkawire.reference_broker.groups.consumer.classic_protocol import ClassicProtocolMembers
from kafkawire.reference_broker.groups.consumer.group import ConsumerGroup
from kafkawire.reference_broker.groups.consumer.heartbeats import Heartbeats, check_heartbeat
from kafkawire.reference_broker.groups.consumer.records import group_tombstones
from kafkawire.reference_broker.groups.consumer.records import replay as replay_consumer
from kafkawire.reference_broker.groups.expiry import Expiry, is_empty
from kafkawire.reference_broker.groups.migration import Migration
from kafkawire.reference_broker.groups.offsets import Offsets
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.groups.pending_offsets import PendingOffset, PendingOffsets
from kafkawire.reference_broker.groups.records import (
    Committed,
    group_tombstone,
    offset_record,
    offset_tombstone,
    stored_group,
)
from kafkawire.reference_broker.groups.refusals import missing_group, other_type
from kafkawire.reference_broker.groups.requests import Commit, ConsumerHeartbeat, Fetched, GroupLimits, Join, Sync
from kafkawire.reference_broker.groups.share.group import ShareGroup
from kafkawire.reference_broker.groups.share.operations import ShareOperations
from kafkawire.reference_broker.groups.share.records import SHARE_GROUP_RECORD_TYPES
from kafkawire.reference_broker.groups.stored_records import decode_stored
from kafkawire.reference_broker.groups.streams.group import StreamsGroup
from kafkawire.reference_broker.groups.streams.limits import StreamsLimits
from kafkawire.reference_broker.groups.streams.operations import StreamsOperations
from kafkawire.reference_broker.groups.streams.records import STREAMS_GROUP_RECORD_TYPES
from kafkawire.reference_broker.groups.topics import Topics
from kafkawire.reference_broker.shares.limits import ShareLimits
from kafkawire.reference_broker.work.computations import Computations
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkawire.sdk.protocol.messages.join_group import JoinGroupResponse
from kafkawire.sdk.protocol.tables.enums import JOIN_GROUP_MEMBER_EPOCH, NO_PRODUCER_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["GroupShard"]

R = TypeVar("R")

#: A group of any type.
Group = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup

G = TypeVar("G", ClassicGroup, ConsumerGroup, StreamsGroup)


class GroupShard:
    """The groups whose ids belong to one partition.

    Args:
        timers: timers for deadlines.
        new_id: returns the random part of a member id.
        limits: see `GroupLimits`.
        topics: see `Topics`.
        computations: runs long computations.
        share_limits: see `ShareLimits`.
        streams_limits: see `StreamsLimits`.

    Attributes:
        classic_groups: classic groups, keyed by id.
        consumer_groups: KIP-848 groups, keyed by id.
        share: the share groups.
        streams: the streams groups; each id is in only one of the mappings.
        offsets: the committed offsets.
        pending: the offsets of open transactions.
    """

    def __init__(
        self,
        timers: ShardTimers,
        new_id: Callable[[], str],
        limits: GroupLimits,
        topics: Topics,
        computations: Computations,
        share_limits: ShareLimits,
        streams_limits: StreamsLimits,
    ) -> None:
        self._topics = topics
        self._outbox = Outbox()
        self.share = ShareOperations(timers, self._outbox, share_limits, topics, self._has_other_than_share)
        self.streams = StreamsOperations(timers, self._outbox, streams_limits, topics, self._is_taken)
        self.classic_groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()
        self.pending = PendingOffsets()
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self._migration = Migration(self._outbox, limits, topics)
        self._changes = Changes(
            self.consumer_groups, timers, self._outbox, limits, topics, self._migration, computations
        )
        self._heartbeats = Heartbeats(self._changes, self._outbox, new_id, limits)
        self._classic_protocol = ClassicProtocolMembers(self._changes, self._migration, self._outbox, new_id, topics)
        self._members = ClassicMembers(
            self.classic_groups,
            timers,
            self._outbox,
            new_id,
            limits,
            lambda group_id: bool(self.offsets.of_group(group_id) or self.pending.of_group(group_id)),
            self._endings_of_other,
        )
        self._expiry = Expiry(
            self.classic_groups,
            self.consumer_groups,
            self.streams.groups,
            self.offsets,
            self.pending,
            timers,
            self._outbox,
            limits,
            self._end,
        )

    # Called by the runtime (see `Shard`).

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        return decode_stored(key, value)

    def replay(self, record: CoordinatorRecord, offset: int = 0, producer_id: int = NO_PRODUCER_ID) -> None:
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            partition = key.topic, key.partition
            if not isinstance(value, OffsetCommitValue):
                self.offsets.remove(key.group, partition)
                self.pending.remove(key.group, partition)
                return
            if producer_id == NO_PRODUCER_ID:
                self._put(key.group, partition, _committed(value), offset)
            else:
                self.pending.put(producer_id, PendingOffset(key.group, partition, _committed(value), offset))
            if self._find(key.group) is None:
                self.classic_groups[key.group] = ClassicGroup(key.group, state_changed_ms=value.commit_timestamp)
        elif isinstance(key, GroupMetadataKey):
            if not isinstance(value, GroupMetadataValue):
                self._members.forget(key.group)
            elif (made := self._migration.take_downgraded(key.group, record)) is not None:
                self._members.adopt(made.group, made.now_ms, is_rebalancing=made.is_rebalancing)
            else:
                self.classic_groups[key.group] = stored_group(key.group, value)
        else:
            if key.SCHEMA.key in SHARE_GROUP_RECORD_TYPES:
                group_id = self.share.replay(record)
            elif key.SCHEMA.key in STREAMS_GROUP_RECORD_TYPES:
                group_id = self.streams.replay(record)
            else:
                group_id = replay_consumer(self.consumer_groups, record)
            if value is None and isinstance(key, ConsumerGroupMemberMetadataKey):
                self._changes.deadlines.forget(group_id, key.member_id)
            if group_id not in self.consumer_groups:
                self._migration.forget(group_id)
                self._changes.resolution.forget(group_id)
            if value is not None:
                # Offsets replayed earlier may have created a group without members.
                self._members.forget(group_id)

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        for group_id, partition, entry, offset in self.pending.end(producer_id, is_commit):
            self._put(group_id, partition, entry, offset)

    def _put(self, group_id: str, partition: Partition, entry: Committed, record_offset: int) -> None:
        self.offsets.put(group_id, partition, entry)
        self.pending.committed(group_id, partition, record_offset)

    def loaded(self, now_ms: int) -> None:
        self._members.loaded(now_ms)
        for group in self.consumer_groups.values():
            self._changes.expect_all(group, now_ms)
        self._changes.resolution.loaded()
        self.share.loaded(now_ms)
        self.streams.loaded(now_ms)
        self._expiry.check_later(now_ms)

    def unloaded(self) -> None:
        self._expiry.cancel()
        self._members.unloaded()
        self._changes.deadlines.cancel()
        self.share.unloaded()
        self.streams.unloaded()
        self._changes.resolution.cancel()

    def fire(self, action: Callable[[int], None], now_ms: int) -> Result[None]:
        return self._step(lambda: action(now_ms))

    def _step(self, step: Callable[[], R]) -> Result[R]:
        """Run a step; if it fails, discard its records so they do not become part of the next step."""
        try:
            return self._outbox.take(step())
        except BaseException:
            self._outbox.clear()
            raise

    # Members.

    def join(self, request: Join, reply: JoinReply, now_ms: int) -> Result[Join | None]:
        """Add a member; see `ClassicMembers.join` and `ClassicProtocolMembers.join`."""
        group = self.consumer_groups.get(request.group_id)
        if group is not None and group.members:
            try:
                return self._step(lambda: self._classic_protocol.join(group, request, reply, now_ms))
            except BrokerError as error:
                # As in Kafka, the response lacks the member's id.
                reply(JoinGroupResponse(error_code=error.code))
                return Result(None)
        streams = self.streams.groups.get(request.group_id)
        if request.group_id in self.share.groups or (streams is not None and streams.members):
            reply(JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return Result(None)
        return self._step(lambda: self._members.join(request, reply, now_ms))

    def sync(self, request: Sync, reply: SyncReply, now_ms: int) -> Result[None]:
        """Return a member's assignment; see `ClassicMembers.sync` and `ClassicProtocolMembers.sync`."""
        group = self.consumer_groups.get(request.group_id)
        if group is not None:
            return self._step(lambda: self._classic_protocol.sync(group, request, reply, now_ms))
        return self._step(lambda: self._members.sync(request, reply, now_ms))

    def heartbeat(
        self, group_id: str, generation_id: int, member_id: str, instance_id: str | None, now_ms: int
    ) -> Result[None]:
        """Extend a member's session; see `ClassicMembers.heartbeat` and `ClassicProtocolMembers.heartbeat`."""
        beat = (generation_id, member_id, instance_id, now_ms)
        group = self.consumer_groups.get(group_id)
        if group is not None:
            return self._step(lambda: self._classic_protocol.heartbeat(group, *beat))
        return self._step(lambda: self._members.heartbeat(group_id, *beat))

    def leave(self, group_id: str, members: Sequence[tuple[str, str | None]], now_ms: int) -> Result[list[ErrorCode]]:
        """Remove members; see `ClassicMembers.leave` and `ClassicProtocolMembers.leave`."""
        group = self.consumer_groups.get(group_id)
        if group is not None:
            return self._step(lambda: self._classic_protocol.leave(group, members, now_ms))
        return self._step(lambda: self._members.leave(group_id, members, now_ms))

    def beat(self, request: ConsumerHeartbeat, now_ms: int) -> Result[ConsumerGroupHeartbeatResponse]:
        """Handle a KIP-848 heartbeat; see `Heartbeats.beat`.

        Raises:
            BrokerError: see `Heartbeats.beat`; also if the consumer group does not exist and this heartbeat does not
                create it.
        """
        check_heartbeat(request)
        return self._step(lambda: self._beat(request, now_ms))

    def _beat(self, request: ConsumerHeartbeat, now_ms: int) -> ConsumerGroupHeartbeatResponse:
        group_id = request.group_id
        group = self.consumer_groups.get(group_id)
        classic = self.classic_groups.get(group_id)
        if group is not None:
            return self._heartbeats.beat(group, request, now_ms)
        is_other = group_id in self.share.groups or group_id in self.streams.groups
        if is_other or (request.epoch != JOIN_GROUP_MEMBER_EPOCH and classic is not None):
            raise other_type(group_id, "consumer")
        if request.epoch != JOIN_GROUP_MEMBER_EPOCH:
            raise missing_group(group_id, "Consumer group" if request.epoch > JOIN_GROUP_MEMBER_EPOCH else "Group")
        if classic is None:
            return self._heartbeats.beat(ConsumerGroup(group_id), request, now_ms)
        if classic.state is GroupState.EMPTY:
            self._end(classic)
            return self._heartbeats.beat(ConsumerGroup(group_id), request, now_ms)
        group = self._migration.upgrade(classic)
        is_assigned = classic.state is GroupState.STABLE
        response = self._heartbeats.beat(group, request, now_ms, is_assigned=is_assigned)
        for member in group.members.values():
            if member.member_id != response.member_id:
                self._changes.expect_heard(group_id, member, now_ms)
        return response

    # Offsets.

    def commit(self, commit: Commit, offsets: Mapping[Partition, Committed], now_ms: int) -> Result[None]:
        """Commit offsets.

        Raises:
            BrokerError: the committer is not a member, or no longer one.
        """
        self._check_may_commit(commit.group_id)
        group = self.consumer_groups.get(commit.group_id)
        streams = self.streams.groups.get(commit.group_id)
        if streams is not None:
            streams.check_commit(commit.member_id, commit.generation_id, offsets, knows_epochs=commit.knows_epochs)
        elif group is None:
            self._members.check_commit(commit, now_ms)
        else:
            partitions = [(entry.topic_id, number) for (_, number), entry in offsets.items()]
            group.check_commit(commit.member_id, commit.generation_id, partitions, knows_epochs=commit.knows_epochs)
        return Result(None, [offset_record(commit.group_id, *partition, entry) for partition, entry in offsets.items()])

    def commit_in_transaction(
        self, commit: Commit, offsets: Mapping[Partition, Committed], transaction: InTransaction
    ) -> Result[None]:
        """Commit offsets in a transaction; unlike other offsets, they have no topic id.

        Raises:
            BrokerError: the committer is not a member, or no longer one.
        """
        self._check_may_commit(commit.group_id)
        group = self.consumer_groups.get(commit.group_id)
        streams = self.streams.groups.get(commit.group_id)
        if streams is not None:
            streams.check_commit_in_transaction(commit, offsets)
        elif group is None:
            self._members.check_commit_in_transaction(commit)
        else:
            partitions = [(self._topic_id(name), number) for name, number in offsets]
            group.check_commit_in_transaction(commit, partitions)
        records = [offset_record(commit.group_id, *partition, entry) for partition, entry in offsets.items()]
        return Result(None, records, transaction=transaction)

    def _check_may_commit(self, group_id: str) -> None:
        """Check that a group is not a share group, which commits no offsets.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND.
        """
        if group_id in self.share.groups:
            raise other_type(group_id, "consumer")

    def _topic_id(self, name: str) -> bytes:
        return self._topics[name].topic_id if name in self._topics else ZERO_UUID

    def end_transaction_by(self, marker: LastMarker) -> Result[None]:
        """Write the marker that ends a producer's transaction; its offsets then take effect or are dropped."""
        return Result(None, marker=marker)

    def fetch(self, group_id: str, member_id: str | None = None, epoch: int = -1) -> Result[Fetched]:
        """Return the committed offsets of a group, and the partitions with pending offsets.

        Raises:
            BrokerError: the KIP-848 member is unknown, or has a different epoch.
        """
        group = self.consumer_groups.get(group_id) or self.streams.groups.get(group_id)
        if group is not None and (member_id is not None or epoch >= 0):
            group.check_fetch(member_id or "", epoch)
        return Result(Fetched(dict(self.offsets.of_group(group_id)), frozenset(self.pending.of_group(group_id))))

    def delete_offsets(self, group_id: str, partitions: Sequence[Partition]) -> Result[list[ErrorCode]]:
        """Delete committed offsets for topics to which the group is not subscribed; return a code for each partition.

        Raises:
            BrokerError: the group does not exist, or its subscriptions are unknown.
        """
        group = self._group(group_id)
        if isinstance(group, ShareGroup):
            raise other_type(group_id, "consumer")
        topics: set[str] | None = set()
        if isinstance(group, ClassicGroup) and group.state is not GroupState.EMPTY:
            if not group.uses_consumer_protocol:
                raise BrokerError(ErrorCode.NON_EMPTY_GROUP, f"state {group.state}")
            topics = group.subscribed_topics()
        known = self._partitions(group_id)
        codes, records = [], []
        for partition in partitions:
            is_read = not isinstance(group, ClassicGroup) and group.is_subscribed_to(partition[0])
            if is_read or topics is None or partition[0] in topics:
                codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            codes.append(ErrorCode.NONE)
            if partition in known:
                records.append(offset_tombstone(group_id, *partition))
        return Result(codes, records)

    def forget_topic(self, topic: str, topic_id: bytes) -> Result[bool]:
        """Delete offsets of a deleted topic; see `Expiry.forget_topic`."""
        return self._step(lambda: self._expiry.forget_topic(topic, topic_id))

    # Groups.

    def find(self, group_id: str) -> Result[ClassicGroup]:
        """Return a classic group.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND.
        """
        return self._of_type(group_id, ClassicGroup, "classic")

    def find_consumer(self, group_id: str) -> Result[ConsumerGroup]:
        """Return a KIP-848 group.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND.
        """
        return self._of_type(group_id, ConsumerGroup, "consumer")

    def find_streams(self, group_id: str) -> Result[StreamsGroup]:
        """Return a streams group.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND.
        """
        return self._of_type(group_id, StreamsGroup, "streams")

    def _of_type(self, group_id: str, kind: type[G], name: str) -> Result[G]:
        group = self._group(group_id)
        if not isinstance(group, kind):
            raise other_type(group_id, name)
        return Result(group)

    def step_of_shares(self, step: Callable[[ShareOperations], R]) -> Result[R]:
        """Run a step on the share groups, with the records that it writes."""
        return self._step(lambda: step(self.share))

    def step_of_streams(self, step: Callable[[StreamsOperations], R]) -> Result[R]:
        """Run a step on the streams groups, with the records that it writes."""
        return self._step(lambda: step(self.streams))

    def delete(self, group_id: str) -> Result[None]:
        """Delete an empty group and its offsets.

        Raises:
            BrokerError: the group does not exist, or has members.
        """
        group = self._group(group_id)
        if group.members if isinstance(group, ShareGroup | StreamsGroup) else not is_empty(group):
            raise BrokerError(ErrorCode.NON_EMPTY_GROUP, f"state {group.state}")
        for partition in self._partitions(group_id):
            self._outbox.add(offset_tombstone(group_id, *partition))
        self._end(group)
        return self._outbox.take(None)

    def _partitions(self, group_id: str) -> list[Partition]:
        """Return the partitions for which a group has a committed or pending offset."""
        return list(dict.fromkeys([*self.offsets.of_group(group_id), *self.pending.of_group(group_id)]))

    def _end(self, group: Group) -> None:
        """Write the removal of an empty group."""
        if isinstance(group, ClassicGroup):
            self._outbox.add(group_tombstone(group.group_id))
        elif isinstance(group, ShareGroup):
            self.share.end(group)
        else:
            self._outbox.add_all(self._endings_of_other(group.group_id))

    def _endings_of_other(self, group_id: str) -> list[CoordinatorRecord]:
        """Return the records that remove an empty group of a type other than classic."""
        group = self.consumer_groups.get(group_id)
        if group_id in self.streams.groups:
            return self.streams.tombstones(group_id)
        return [] if group is None else group_tombstones(group_id, group.members, group.resolved)

    def _find(self, group_id: str) -> Group | None:
        return (
            self.classic_groups.get(group_id)
            or self.consumer_groups.get(group_id)
            or self.share.groups.get(group_id)
            or self.streams.groups.get(group_id)
        )

    def _has_other_than_share(self, group_id: str) -> bool:
        """Return whether a group that is not a share group has an id."""
        return self._find(group_id) is not None and group_id not in self.share.groups

    def _is_taken(self, group_id: str, may_replace: bool) -> bool:
        """Return whether another group has the id of a new streams group, which may replace an empty classic group."""
        group = self._find(group_id)
        if may_replace and isinstance(group, ClassicGroup) and group.state is GroupState.EMPTY:
            self._end(group)
            return False
        return group is not None

    def _group(self, group_id: str) -> Group:
        group = self._find(group_id)
        if group is None:
            raise missing_group(group_id)
        return group


def _committed(value: OffsetCommitValue) -> Committed:
    return Committed(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.topic_id,
        value.expire_timestamp,
    )
