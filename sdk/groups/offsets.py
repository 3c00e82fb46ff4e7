"""Commit the offsets of a group, one request at a time; later offsets for a partition replace earlier ones.

A commit is signed with the current membership when its request is written. Offsets of partitions that the member gives
up are withdrawn first (`release`), so every offset that is sent belongs to the membership that signs it. An offset
keeps the topic id from the time when the commit was requested, because it would be meaningless in a later topic with
the same name. The outcome of every commit is known by its deadline.

Source: Apache Kafka, `CommitRequestManager`, `ConsumerCoordinator`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from functools import partial

from kafkawire.sdk.errors import BrokerError, KafkaWireError, RemoteProtocolError, RequestTimedOut
from kafkawire.sdk.groups.auto_commit import AutoCommit, Positions
from kafkawire.sdk.groups.commit_outcome import CommitWaiter, OnDone
from kafkawire.sdk.groups.offset_requests import TopicNames, commit_request, commit_results
from kafkawire.sdk.groups.pending_commits import Member, PendingCommits
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.call import Call, Coordinator, Purpose
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.retry import Attempts, Backoff, may_pass, outdates_coordinator, outdates_metadata
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.driver_interface import Versions

__all__ = ["Offsets"]

logger = logging.getLogger("kafkawire.group")

#: Codes for a signature that does not, or no longer does, belong to a member; the member may soon get another one.
_RENEWED = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)

#: All codes for such a signature, including one after which the member will not get another signature.
_MEMBERSHIP = _RENEWED | {ErrorCode.FENCED_INSTANCE_ID}

#: What UNKNOWN_MEMBER_ID means for a commit from outside the group, which names no member.
_HAS_MEMBERS = "the group has members, and only they may commit"

#: Retriable codes that end a commit, because a missing topic must not delay the commits of other topics.
_FINAL = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})

#: Codes that are not retriable, but after which another attempt may succeed because the member takes part in the
#: rebalance.
_PASSING = frozenset({ErrorCode.REBALANCE_IN_PROGRESS})


class Offsets:
    """A machine that commits the offsets of one group.

    Args:
        router: sends the requests.
        backoff: the pauses between attempts.
        group_id: the group.
        reader: provides the assigned partitions and the finished positions.
        auto_commit_interval_ms: the time between automatic commits; None disables them.
        api_timeout_ms: how long an automatic commit may take.

    Attributes:
        member: signs the commits; None to commit from outside the group, for a reader with partitions assigned by hand.
    """

    def __init__(
        self,
        router: Router,
        backoff: Backoff,
        group_id: str,
        reader: Positions,
        auto_commit_interval_ms: int | None,
        api_timeout_ms: int,
    ) -> None:
        self._router = router
        self._group_id = group_id
        self._reader = reader
        self._api_timeout_ms = api_timeout_ms
        self._auto_commit = AutoCommit(group_id, reader, auto_commit_interval_ms, api_timeout_ms)
        self._attempts = Attempts(backoff)
        self._lines = LogLimit(logger)
        self.member: Member | None = None
        self._commits = PendingCommits(reader, router.metadata.last_topic_id)
        self._call: Call | None = None
        self._signature = GroupMetadata(group_id)
        self._names: TopicNames = {}

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int, on_done: OnDone, now_ms: int
    ) -> None:
        """Commit offsets.

        Args:
            offsets: the offset of the next record to read, keyed by partition. A member commits only for its own
                partitions; other partitions are reported as rebalanced.
            deadline_ms: the time by which `on_done` is called.
            on_done: called once with the outcome or with a final error.
            now_ms: the time.
        """
        if self._commits.are_over:
            self._attempts.succeeded()  # earlier failures belong to commits that have ended, perhaps long ago
        self._commits.add(self.member, offsets, deadline_ms, on_done, now_ms)

    def release(
        self, partitions: Collection[TopicPartition] | None, now_ms: int, cause: KafkaWireError | None = None
    ) -> None:
        """Withdraw uncommitted offsets of partitions that the member gives up.

        Args:
            partitions: the partitions; None for all.
            now_ms: the time.
            cause: why the partitions were lost; None if they are given up in a rebalance.
        """
        withdrawn = self._commits.withdraw(partitions)
        if self._call is not None and not self._commits.sent:
            self._call.cancel()
            self._call = None
        self._commits.give_up(withdrawn, cause, now_ms)

    def poll(self, now_ms: int) -> None:
        """Send the commits that are due."""
        self._commits.expire(partial(self._too_late, now_ms=now_ms), now_ms)
        if self._auto_commit.is_due(now_ms) and self._sign() is not None:
            self._auto_commit.begin(self.commit, now_ms)
        if self._call is not None or not self._commits.waiting or now_ms < self._attempts.not_before_ms:
            return
        if self._sign() is not None:
            self._send(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        times = [each for each in (self._commits.waiters.due_ms, self._auto_commit.due_ms) if each is not None]
        if self._commits.waiting and self._call is None and self._sign() is not None:
            times.append(max(now_ms, self._attempts.not_before_ms))
        return min(times, default=None)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End all commits."""
        self._auto_commit.end()
        self._commits.fail(error, now_ms)

    def _sign(self) -> GroupMetadata | None:
        return GroupMetadata(self._group_id) if self.member is None else self.member.sign()

    def _send(self, now_ms: int) -> None:
        self._commits.send()
        outdated = {
            partition: commit
            for partition, commit in self._commits.sent.items()
            if commit.topic_id != ZERO_UUID and self._topic_id(partition) not in (commit.topic_id, ZERO_UUID)
        }
        for partition in outdated:
            del self._commits.sent[partition]
        for partition, commit in outdated.items():
            text = f"commit of {partition} in group {self._group_id}: the topic was deleted and created again"
            error = BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, text)
            self._commits.waiters.refuse(commit.waiters, partition, error, now_ms)
        if not self._commits.sent:
            return

        def request(versions: Versions) -> tuple[Message, int]:
            signature = self._sign()
            assert signature is not None, "the offsets of a membership that has ended were withdrawn"
            self._signature = signature
            sent = self._commits.sent
            offsets = {partition: commit.offset for partition, commit in sent.items()}
            ids = {each.topic: self._topic_id(each) for each in sent}
            ids |= {each.topic: commit.topic_id for each, commit in sent.items() if commit.topic_id != ZERO_UUID}
            message, version, self._names = commit_request(offsets, signature, ids, versions)
            return message, version

        self._call = Call(
            Coordinator(CoordinatorType.GROUP, self._group_id),
            request,
            OffsetCommitResponse,
            now_ms + self._api_timeout_ms,
            self._answered,
            check=_coordinator_error,
            retries=False,
            purpose=Purpose.GROUP,
        )
        self._router.submit(self._call, now_ms)

    def _answered(self, call: Call[OffsetCommitResponse], now_ms: int) -> None:
        self._call = None
        if call.error is not None and call.result is None:
            for partition in list(self._commits.sent):
                self._refused(partition, call.error, now_ms)
            return
        done: list[TopicPartition] = []
        refused: dict[TopicPartition, BrokerError] = {}
        for partition, code in commit_results(call.answer, self._names):
            if partition not in self._commits.sent:
                continue  # given up in the meantime
            if code == ErrorCode.NONE:
                done.append(partition)
            else:
                has_members = self.member is None and code == ErrorCode.UNKNOWN_MEMBER_ID
                text = f"commit of {partition} in group {self._group_id}"
                refused[partition] = BrokerError(code, f"{text}: {_HAS_MEMBERS}" if has_members else text)
        stored = self._commits.take_sent(done)
        if stored or not refused:
            self._attempts.succeeded()  # the coordinator works, even if it rejects offsets
        self._commits.stored(stored, now_ms)
        for partition, error in refused.items():
            self._refused(partition, error, now_ms)
        for partition in list(self._commits.sent):
            missing = RemoteProtocolError(f"the response to a commit in group {self._group_id} lacks {partition}")
            self._refused(partition, missing, now_ms)
        rejection = next((error for error in refused.values() if error.code in _MEMBERSHIP), None)
        if rejection is not None and self.member is not None:
            self.member.rejected(self._signature, rejection, now_ms)

    def _refused(self, partition: TopicPartition, error: KafkaWireError, now_ms: int) -> None:
        """Try to commit an offset again, unless a later offset is waiting or the error is final.

        A commit is signed again for each attempt, so an error about a member's signature can be temporary.
        """
        commit = self._commits.sent.pop(partition, None)
        if commit is None:
            return
        code = error.code if isinstance(error, BrokerError) else None
        is_gone = code is ErrorCode.UNKNOWN_TOPIC_ID and commit.topic_id not in (ZERO_UUID, self._topic_id(partition))
        if is_gone or not may_pass(error, _FINAL, _PASSING if self.member is None else _PASSING | _RENEWED):
            self._commits.waiters.refuse(commit.waiters, partition, error, now_ms)
            return
        if outdates_metadata(error):
            self._router.metadata.invalidate()
        if now_ms >= self._attempts.not_before_ms:
            self._attempts.failed(error, now_ms)
            self._lines.info("retry", now_ms, "group %s: committing again: %s", self._group_id, error)
        self._commits.send_again(partition, commit)

    def _topic_id(self, partition: TopicPartition) -> bytes:
        """Return the current id of the topic; zeros if unknown."""
        return self._router.metadata.topic_id(partition.topic)

    def _too_late(self, waiter: CommitWaiter, now_ms: int) -> KafkaWireError:
        cause = self._attempts.last_error or self._router.last_refusal
        partitions = ", ".join(map(str, sorted(waiter.left)))
        text = f"group {self._group_id} did not commit {partitions} in time"
        reason = f"; {cause}" if cause is not None else self._router.throttling(now_ms)
        error = RequestTimedOut(text + reason)
        error.__cause__ = cause
        return error


def _coordinator_error(response: OffsetCommitResponse) -> KafkaWireError | None:
    """Return an error that concerns the coordinator and must therefore be reported to the router."""
    codes = {partition.error_code for topic in response.topics for partition in topic.partitions}
    errors = [BrokerError(code, "commit") for code in codes if code != ErrorCode.NONE]
    return next((error for error in errors if outdates_coordinator(error)), None)
