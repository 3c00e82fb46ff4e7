"""The group coordinator, as the handlers in `apis/` use it. It finds a group's shard and turns errors into responses.

Every callback is called exactly once, with the outcome once it is committed, or with the error that prevented it.

Source: `GroupCoordinatorService` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple, Protocol, TypeVar

from kafkawire.reference_broker.coordinators.runtime import CoordinatorRuntime
from kafkawire.reference_broker.coordinators.shard import (
    CoordinatorLog,
    Done,
    InTransaction,
    LastMarker,
    Operation,
    Result,
    ShardTimers,
)
from kafkawire.reference_broker.groups.classic.group import ClassicGroup, JoinReply, SyncReply
from kafkawire.reference_broker.groups.consumer.group import ConsumerGroup
from kafkawire.reference_broker.groups.migration import StaysConsumerGroup
from kafkawire.reference_broker.groups.records import Committed
from kafkawire.reference_broker.groups.requests import (
    PROTOCOLS_MAX,
    Commit,
    ConsumerHeartbeat,
    Fetched,
    GroupLimits,
    Join,
    Sync,
    TransactionalCommit,
)
from kafkawire.reference_broker.groups.shard import GroupShard
from kafkawire.reference_broker.groups.share.group import ShareGroup
from kafkawire.reference_broker.groups.share.operations import ShareOperations
from kafkawire.reference_broker.groups.streams.group import StreamsGroup
from kafkawire.reference_broker.groups.streams.limits import StreamsLimits
from kafkawire.reference_broker.groups.streams.operations import StreamsOperations
from kafkawire.reference_broker.groups.topics import Topics
from kafkawire.reference_broker.shares.limits import ShareLimits
from kafkawire.reference_broker.storage.producers.producers import Marker, Verification
from kafkawire.reference_broker.work.computations import Computations
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafkawire.sdk.protocol.messages.join_group import JoinGroupResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupResponse
from kafkawire.sdk.protocol.tables.enums import CONSUMER_OFFSETS_TOPIC
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["GroupCoordinator", "VerifyCommit"]

M = TypeVar("M")
R = TypeVar("R")

#: Pause before retrying to forget a topic in a shard that is loading or whose log is slow.
_RETRY_MS = 100
_PASSING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class VerifyCommit(Protocol):
    """Ensures that a partition of the offsets topic is in a transaction."""

    def __call__(
        self,
        partition: Partition,
        transaction: TransactionalCommit,
        verified: Callable[[Verification | None], None],
        refused: Callable[[BrokerError], None],
        now_ms: int,
        /,
    ) -> None:
        """Call `verified` with the verification to use for the append, or `refused` with the error.

        The verification comes from `Producers.begin_verification`; it is None if the transaction is already open in the
        log.
        """


class _Forgotten(NamedTuple):
    """A deleted topic, the offsets partitions that may hold its offsets, and the completion callback."""

    topic: str
    topic_id: bytes
    left: set[int]
    done: Callable[[], None]


class GroupCoordinator:
    """The groups that this broker coordinates.

    Args:
        timers: the broker's timers.
        new_id: returns the random part of a member id.
        limits: see `GroupLimits`.
        size_of: returns the number of partitions of the offsets topic, or 0 if it does not exist.
        topics: see `Topics`.
        verify_commit: see `VerifyCommit`.
        computations: runs the matching of topic names.
        share_limits: see `ShareLimits`.
        streams_limits: see `StreamsLimits`.
    """

    def __init__(
        self,
        timers: Timers,
        new_id: Callable[[], str],
        limits: GroupLimits,
        size_of: Callable[[], int],
        topics: Topics,
        verify_commit: VerifyCommit,
        computations: Computations,
        share_limits: ShareLimits,
        streams_limits: StreamsLimits,
    ) -> None:
        self._timers = timers
        self._verify_commit = verify_commit
        self._limits = limits

        def new_shard(number: int, timers: ShardTimers) -> GroupShard:
            return GroupShard(timers, new_id, limits, topics, computations, share_limits, streams_limits)

        self._runtime = CoordinatorRuntime(CONSUMER_OFFSETS_TOPIC, timers, new_shard, size_of)

    # Partitions of the offsets topic.

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return CONSUMER_OFFSETS_TOPIC

    def elected(self, number: int, log: CoordinatorLog, leader_epoch: int, now_ms: int) -> None:
        """Serve a partition of the offsets topic; see `CoordinatorRuntime.elected`."""
        self._runtime.elected(number, log, leader_epoch, now_ms)

    def resigned(self, number: int, epoch: int | None = None) -> None:
        """Stop serving a partition of the offsets topic; see `CoordinatorRuntime.resigned`."""
        self._runtime.resigned(number, epoch)

    def unload(self) -> None:
        """Stop serving, and answer all waiting operations with NOT_COORDINATOR."""
        self._runtime.unload()

    @property
    def is_loading(self) -> bool:
        """Whether a partition is being loaded, in which case not all groups are known yet."""
        return self._runtime.is_loading

    def classic_groups(self) -> Iterator[ClassicGroup]:
        """Yield the classic groups of all served partitions."""
        for shard in self._runtime.shards():
            yield from shard.classic_groups.values()

    def consumer_groups(self) -> Iterator[ConsumerGroup]:
        """Yield the KIP-848 groups of all served partitions."""
        for shard in self._runtime.shards():
            yield from shard.consumer_groups.values()

    def share_groups(self) -> Iterator[ShareGroup]:
        """Yield the share groups of all served partitions."""
        for shard in self._runtime.shards():
            yield from shard.share.groups.values()

    def streams_groups(self) -> Iterator[StreamsGroup]:
        """Yield the streams groups of all served partitions."""
        for shard in self._runtime.shards():
            yield from shard.streams.groups.values()

    def offsets(self, group_id: str) -> Mapping[Partition, Committed]:
        """Return the offsets that a group has committed, without waiting for the high watermark."""
        for shard in self._runtime.shards():
            if found := shard.offsets.of_group(group_id):
                return found
        return {}

    # Members.

    def join(self, request: Join, reply: JoinReply, now_ms: int) -> None:
        """Add a member, immediately or once the other members have joined."""
        limits = self._limits
        error: BrokerError | None = None
        if not request.group_id:
            error = BrokerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        elif len(request.protocols) > PROTOCOLS_MAX:
            text = f"the member has {len(request.protocols)} protocols; the limit is {PROTOCOLS_MAX}"
            error = BrokerError(ErrorCode.MESSAGE_TOO_LARGE, text)
        elif not (
            limits.group_min_session_timeout_ms <= request.session_timeout_ms <= limits.group_max_session_timeout_ms
        ):
            error = BrokerError(ErrorCode.INVALID_SESSION_TIMEOUT, f"{request.session_timeout_ms} ms")
        if error is not None:
            reply(JoinGroupResponse(error_code=error.code, member_id=request.member_id))
        else:
            self._join(request, _once(reply), now_ms)

    def _join(self, request: Join, answer: JoinReply, now_ms: int) -> None:
        joined = partial(self._joined, request.member_id, answer, now_ms)
        self._submit(request.group_id, lambda shard: shard.join(request, answer, now_ms), joined, now_ms)

    def _joined(self, member_id: str, answer: JoinReply, now_ms: int, outcome: Join | BrokerError | None) -> None:
        if isinstance(outcome, BrokerError):
            answer(JoinGroupResponse(error_code=outcome.code, member_id=member_id))
        elif outcome is not None:
            self._join(outcome, answer, now_ms)

    def sync(self, request: Sync, reply: SyncReply, now_ms: int) -> None:
        """Call `reply` once with a member's assignment, immediately or once the leader has sent it."""
        answer = _once(reply)

        def refuse(error: BrokerError | None) -> None:
            if error is not None:
                answer(SyncGroupResponse(error_code=error.code))

        if not request.group_id:
            refuse(BrokerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty"))
        else:
            self._runtime.submit(request.group_id, lambda shard: shard.sync(request, answer, now_ms), refuse, now_ms)

    def heartbeat(
        self,
        group_id: str,
        generation_id: int,
        member_id: str,
        instance_id: str | None,
        done: Callable[[ErrorCode], None],
        now_ms: int,
    ) -> None:
        """Extend a member's session."""

        def answer(outcome: BrokerError | None) -> None:
            code = ErrorCode.NONE if outcome is None else outcome.code
            # While the group is loading, it is unknown whether the member has an error.
            done(ErrorCode.NONE if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code)

        if not group_id:
            done(ErrorCode.INVALID_GROUP_ID)
        else:
            self._runtime.submit(
                group_id,
                lambda shard: shard.heartbeat(group_id, generation_id, member_id, instance_id, now_ms),
                answer,
                now_ms,
            )

    def beat(self, request: ConsumerHeartbeat, done: Done[ConsumerGroupHeartbeatResponse], now_ms: int) -> None:
        """Handle a KIP-848 heartbeat."""
        self._submit(request.group_id, lambda shard: shard.beat(request, now_ms), done, now_ms)

    def leave(
        self, group_id: str, members: Sequence[tuple[str, str | None]], done: Done[list[ErrorCode]], now_ms: int
    ) -> None:
        """Remove members, identified by member id and instance id; the outcome is an error code for each member."""
        if not group_id:
            done(BrokerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty"))
        else:
            self._submit(group_id, lambda shard: shard.leave(group_id, members, now_ms), done, now_ms)

    def _submit(self, group_id: str, operation: Operation[GroupShard, R], done: Done[R], now_ms: int) -> None:
        """Submit an operation that may downgrade a group; retry it if the classic group cannot be written."""

        def finished(outcome: R | BrokerError) -> None:
            if isinstance(outcome, StaysConsumerGroup):
                self._submit(group_id, operation, done, now_ms)
            else:
                done(outcome)

        self._runtime.submit(group_id, operation, finished, now_ms)

    # Offsets.

    def commit(self, commit: Commit, offsets: Mapping[Partition, Committed], done: Done[None], now_ms: int) -> None:
        """Commit offsets; the empty group id is allowed, as in Kafka."""
        self._runtime.submit(commit.group_id, lambda shard: shard.commit(commit, offsets, now_ms), done, now_ms)

    def commit_in_transaction(
        self,
        commit: Commit,
        transaction: TransactionalCommit,
        offsets: Mapping[Partition, Committed],
        done: Done[None],
        now_ms: int,
    ) -> None:
        """Commit offsets in a transaction; they take effect when it is committed."""
        if not commit.group_id:
            done(BrokerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty"))
            return
        if not self._runtime.size:
            done(self._runtime.no_topic())
            return
        producer_id, epoch = transaction.producer_id, transaction.epoch

        def append(verification: Verification | None) -> None:
            belongs_to = InTransaction(producer_id, epoch, verification)
            self._runtime.submit(
                commit.group_id,
                lambda shard: shard.commit_in_transaction(commit, offsets, belongs_to),
                done,
                now_ms,
            )

        partition = CONSUMER_OFFSETS_TOPIC, self.partition_for(commit.group_id)
        self._verify_commit(partition, transaction, append, done, now_ms)

    def complete_transaction(
        self, number: int, marker: Marker, transaction_version: int, done: Done[None], now_ms: int
    ) -> None:
        """Write a marker to a partition of the offsets topic; the pending offsets then take effect or are dropped.

        Args:
            number: the partition's number.
            marker: the transaction, and whether it commits.
            transaction_version: the coordinator's version (see `Producers.check_marker`).
            done: called once, with None when the marker is committed, or with the error.
            now_ms: the current time.
        """
        last = LastMarker(marker, transaction_version)
        self._runtime.submit_to(number, lambda shard: shard.end_transaction_by(last), done, now_ms)

    def partition_for(self, group_id: str) -> int:
        """Return the number of the partition that a group belongs to; the offsets topic must exist."""
        return self._runtime.partition_of(group_id)

    def fetch(
        self,
        group_id: str,
        done: Done[Fetched],
        now_ms: int,
        member_id: str | None = None,
        epoch: int = -1,
    ) -> None:
        """Call `done` with the committed offsets of a group; a KIP-848 member supplies its id and epoch."""
        self._runtime.submit(group_id, lambda shard: shard.fetch(group_id, member_id, epoch), done, now_ms)

    def delete_offsets(
        self, group_id: str, partitions: Sequence[Partition], done: Done[list[ErrorCode]], now_ms: int
    ) -> None:
        """Delete committed offsets; the outcome is an error code for each."""
        if not group_id:
            done(BrokerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty"))
        else:
            self._runtime.submit(group_id, lambda shard: shard.delete_offsets(group_id, partitions), done, now_ms)

    def forget_topic(self, topic: str, topic_id: bytes, done: Callable[[], None], now_ms: int) -> None:
        """Delete the offsets committed for a deleted topic in steps, interleaved with other long-running work.

        Args:
            topic: the topic's name.
            topic_id: the topic's id.
            done: called once all offsets of the topic that this broker coordinates are deleted.
            now_ms: the current time.
        """
        left = set(self._runtime.numbers())
        if not left:
            done()
        for number in sorted(left):
            self._look_for(_Forgotten(topic, topic_id, left, done), number, now_ms)

    def _look_for(self, forgotten: _Forgotten, number: int, now_ms: int) -> None:
        """Check whether an offsets partition holds offsets of a deleted topic."""

        def has_offsets(shard: GroupShard) -> Result[bool]:
            found = chain(shard.offsets.of_topic(forgotten.topic), shard.pending.of_topic(forgotten.topic))
            return Result(next(iter(found), None) is not None)

        self._runtime.submit_to(number, has_offsets, partial(self._after_piece, forgotten, number, now_ms), now_ms)

    def _forget(self, forgotten: _Forgotten, number: int, now_ms: int) -> None:
        """Delete some of the offsets of a deleted topic."""

        def forget(shard: GroupShard) -> Result[bool]:
            return shard.forget_topic(forgotten.topic, forgotten.topic_id)

        self._runtime.submit_to(number, forget, partial(self._after_piece, forgotten, number, now_ms), now_ms)

    def _after_piece(self, forgotten: _Forgotten, number: int, now_ms: int, is_more: bool | BrokerError) -> None:
        if is_more is True:
            self._timers.in_turn(now_ms, partial(self._forget, forgotten, number))
        elif isinstance(is_more, BrokerError) and (is_more.code in _PASSING or self._is_new_epoch(is_more, number)):
            self._timers.at(now_ms + _RETRY_MS, partial(self._look_for, forgotten, number))
        else:
            forgotten.left.discard(number)
            if not forgotten.left:
                forgotten.done()

    def _is_new_epoch(self, error: BrokerError, number: int) -> bool:
        """Return whether a write was refused because this coordinator has begun a new epoch, in which it continues."""
        return error.code is ErrorCode.NOT_COORDINATOR and self._runtime.is_active(number)

    # Groups.

    def describe(self, group_id: str, done: Done[ClassicGroup], now_ms: int) -> None:
        """Call `done` with a classic group, which `done` must not keep."""
        self._runtime.submit(group_id, lambda shard: shard.find(group_id), done, now_ms)

    def describe_consumer(self, group_id: str, done: Done[ConsumerGroup], now_ms: int) -> None:
        """Call `done` with a KIP-848 group, which `done` must not keep."""
        if not group_id:
            done(BrokerError(ErrorCode.INVALID_GROUP_ID))
            return
        self._runtime.submit(group_id, lambda shard: shard.find_consumer(group_id), done, now_ms)

    def submit_share(self, group_id: str, step: Callable[[ShareOperations], R], done: Done[R], now_ms: int) -> None:
        """Run a step on the share groups among which a group is, or would be."""
        self._runtime.submit(group_id, lambda shard: shard.step_of_shares(step), done, now_ms)

    def submit_share_to_all(self, step: Callable[[ShareOperations], R], done: Done[R], now_ms: int) -> None:
        """Run a step on the share groups of every served partition."""
        for number in self._runtime.numbers():
            self._runtime.submit_to(number, lambda shard: shard.step_of_shares(step), done, now_ms)

    def describe_streams(self, group_id: str, done: Done[StreamsGroup], now_ms: int) -> None:
        """Call `done` with a streams group, which `done` must not keep."""
        self._runtime.submit(group_id, lambda shard: shard.find_streams(group_id), done, now_ms)

    def submit_streams(self, group_id: str, step: Callable[[StreamsOperations], R], done: Done[R], now_ms: int) -> None:
        """Run a step on the streams groups among which a group is, or would be."""
        self._runtime.submit(group_id, lambda shard: shard.step_of_streams(step), done, now_ms)

    def delete(self, group_id: str, done: Done[None], now_ms: int) -> None:
        """Delete an empty group and its offsets; the empty group id is allowed, as it may have committed offsets."""
        self._runtime.submit(group_id, lambda shard: shard.delete(group_id), done, now_ms)


def _once(reply: Callable[[M], None]) -> Callable[[M], None]:
    """Return a callback that passes on only its first call, since a join that was answered may still fail."""
    is_answered = False

    def answer(response: M) -> None:
        nonlocal is_answered
        if not is_answered:
            is_answered = True
            reply(response)

    return answer
