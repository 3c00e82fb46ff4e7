"""The offsets that one group is writing to a store: those to send, those that were sent, and the waiting callers.

Only one write is under way at a time. A later offset for a partition replaces one that has not been sent, and takes
over its waiters.

Source: Apache Kafka, `CommitRequestManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple, Protocol

from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError
from kafkawire.sdk.groups.auto_commit import Positions
from kafkawire.sdk.groups.commit_outcome import CommitWaiter, OnDone
from kafkawire.sdk.groups.commit_waiters import MAX_COMMITS, CommitWaiters
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition

__all__ = ["Member", "PendingCommit", "PendingCommits"]


class Member(Protocol):
    """The member that signs commits; see `GroupProtocol`."""

    @property
    def failure(self) -> KafkaWireError | None: ...

    def sign(self) -> GroupMetadata | None: ...

    def rejected(self, signature: GroupMetadata, error: KafkaWireError, now_ms: int) -> None: ...


class PendingCommit(NamedTuple):
    """An offset to commit.

    Attributes:
        offset: the offset.
        topic_id: the id of its topic; zeros if unknown.
        waiters: the commits that wait for this offset or for an earlier one in the partition.
    """

    offset: OffsetAndMetadata
    topic_id: bytes
    waiters: list[CommitWaiter]


class PendingCommits:
    """The commits of one group that have not ended.

    Args:
        positions: provides the assigned partitions, and receives the committed offsets.
        topic_id: returns the last known id of a topic, or zeros if unknown; None for a store that does not need ids.

    Attributes:
        waiting: the offsets to send.
        sent: the offsets in the write that is under way.
        waiters: the commits that callers are waiting for.
    """

    def __init__(self, positions: Positions, topic_id: Callable[[str], bytes] | None = None) -> None:
        self._positions = positions
        self._topic_id = topic_id
        self.waiting: dict[TopicPartition, PendingCommit] = {}
        self.sent: dict[TopicPartition, PendingCommit] = {}
        self.waiters: Final = CommitWaiters()

    def add(
        self,
        member: Member | None,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        deadline_ms: int,
        on_done: OnDone,
        now_ms: int,
    ) -> None:
        """Accept a commit; see `Offsets.commit`. A member commits only for its own partitions."""
        if len(self.waiters) >= MAX_COMMITS:
            on_done(LocalProtocolError(f"too many commits: {MAX_COMMITS} have not ended yet"), now_ms)
            return
        if member is not None and member.failure is not None:
            on_done(member.failure, now_ms)
            return
        waiter = CommitWaiter(offsets, on_done)
        if not offsets:
            on_done(waiter.outcome(), now_ms)
            return
        self.waiters.add(waiter, deadline_ms)
        assigned = offsets.keys() if member is None else self._positions.assigned
        for partition, offset in offsets.items():
            if partition not in assigned:
                self.waiters.give_up([waiter], partition, None, now_ms)
                continue
            former = self.waiting.get(partition)
            topic_id = ZERO_UUID if self._topic_id is None else self._topic_id(partition.topic)
            waiters = [*(former.waiters if former else ()), waiter]
            self.waiting[partition] = PendingCommit(offset, topic_id, waiters)

    @property
    def are_over(self) -> bool:
        """Whether no offset is waiting or being written."""
        return not self.waiting and not self.sent

    def send(self) -> None:
        """Begin writing everything that is waiting."""
        self.sent, self.waiting = self.waiting, {}

    def withdraw(self, partitions: Collection[TopicPartition] | None) -> list[tuple[TopicPartition, PendingCommit]]:
        """Remove and return the offsets of partitions, or all offsets for None. Call `give_up` afterwards."""
        return [
            (partition, commits.pop(partition))
            for commits in (self.waiting, self.sent)
            for partition in list(commits if partitions is None else commits.keys() & set(partitions))
        ]

    def give_up(
        self,
        withdrawn: Collection[tuple[TopicPartition, PendingCommit]],
        cause: KafkaWireError | None,
        now_ms: int,
    ) -> None:
        """Tell waiters that their offsets were withdrawn; they may then withdraw others or request another commit."""
        for partition, commit in withdrawn:
            self.waiters.give_up(commit.waiters, partition, cause, now_ms)

    def take_sent(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PendingCommit]:
        """Remove and return the sent offsets that are stored, and tell the positions. Call `stored` afterwards."""
        stored = {partition: self.sent.pop(partition) for partition in partitions if partition in self.sent}
        self._positions.committed({partition: commit.offset for partition, commit in stored.items()})
        return stored

    def stored(self, commits: Mapping[TopicPartition, PendingCommit], now_ms: int) -> None:
        """Tell the waiters that offsets have been stored."""
        for partition, commit in commits.items():
            for waiter in commit.waiters:
                waiter.offsets[partition] = commit.offset
                self.waiters.settle(waiter, partition, now_ms)

    def send_again(self, partition: TopicPartition, commit: PendingCommit) -> None:
        """Queue an offset again because it was not stored; if a later offset is waiting, pass the waiters on to it."""
        waiters = [waiter for waiter in commit.waiters if waiter.left]
        later = self.waiting.get(partition)
        if later is not None:
            later.waiters[:0] = waiters
        elif waiters:
            self.waiting[partition] = commit._replace(waiters=waiters)

    def expire(self, too_late: Callable[[CommitWaiter], KafkaWireError], now_ms: int) -> None:
        """End commits whose deadline has passed, and forget offsets that no commit is waiting for.

        Args:
            too_late: returns the error for a late commit.
            now_ms: the time.
        """
        has_expired = False
        for waiter in self.waiters.late(now_ms):
            has_expired = True
            self.waiters.end(waiter, too_late(waiter), now_ms)
        if has_expired:
            for partition, commit in list(self.waiting.items()):
                if not any(waiter.left for waiter in commit.waiters):
                    del self.waiting[partition]

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End all commits."""
        self.waiting.clear()
        self.sent.clear()
        self.waiters.end_all(error, now_ms)
