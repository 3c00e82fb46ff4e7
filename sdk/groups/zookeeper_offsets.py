"""The offsets of a group in ZooKeeper: a node for each partition, with the next offset to read as decimal text.

Such a node has no room for metadata or a leader epoch. No signature is needed, since the registry carries out a
session's writes in order, and none after the session has ended. A member's last commit therefore precedes the deletion
of its owner node, and thus also the moment when the next owner reads the offset.

Source: `ZookeeperConsumerConnector.commitOffsetToZooKeeper`, `fetchOffsetFromZooKeeper` in Apache Kafka 1.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial

from kafkawire.sdk.errors import KafkaWireError, RequestTimedOut
from kafkawire.sdk.groups.auto_commit import AutoCommit, Positions
from kafkawire.sdk.groups.commit_outcome import CommitWaiter, OnDone
from kafkawire.sdk.groups.committed_offsets import Found
from kafkawire.sdk.groups.pending_commits import Member, PendingCommits
from kafkawire.sdk.groups.registry_work import RegistryWork, Work
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.tables.znodes import CONSUMER_OFFSET
from kafkawire.sdk.registry.registry import Data, GetData, Registry, RegistryError
from kafkawire.sdk.registry.steps import Steps, found, set_or_create, together
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.retry import Attempts, Backoff

__all__ = ["ZookeeperCommittedOffsets", "ZookeeperOffsets"]

logger = logging.getLogger("kafkawire.group")


class ZookeeperOffsets:
    """A machine that commits the offsets of one group, with the same interface as `Offsets`.

    Args:
        registry: contains the nodes.
        backoff: the pauses between attempts.
        group_id: the group.
        positions: provides the assigned partitions and the finished positions.
        auto_commit_interval_ms: the time between automatic commits; None disables them.
        api_timeout_ms: how long an automatic commit may take.

    Attributes:
        member: the member, which commits only while it belongs to the group; None to commit from outside the group.
    """

    def __init__(
        self,
        registry: Registry,
        backoff: Backoff,
        group_id: str,
        positions: Positions,
        auto_commit_interval_ms: int | None,
        api_timeout_ms: int,
    ) -> None:
        self._registry = registry
        self._group_id = group_id
        self._positions = positions
        self._auto_commit = AutoCommit(group_id, positions, auto_commit_interval_ms, api_timeout_ms)
        self._attempts = Attempts(backoff)
        self._registry_work = RegistryWork(registry)
        self._lines = LogLimit(logger)
        self.member: Member | None = None
        self._commits = PendingCommits(positions)
        self._work: Work[list[KafkaWireError | None]] | None = None

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int, on_done: OnDone, now_ms: int
    ) -> None:
        """Commit offsets; see `Offsets.commit`."""
        if self._commits.are_over:
            self._attempts.succeeded()  # earlier failures belong to commits that have ended, perhaps long ago
        self._commits.add(self.member, offsets, deadline_ms, on_done, now_ms)

    def release(
        self, partitions: Collection[TopicPartition] | None, now_ms: int, cause: KafkaWireError | None = None
    ) -> None:
        """Withdraw uncommitted offsets of partitions that the member gives up; see `Offsets.release`."""
        withdrawn = self._commits.withdraw(partitions)
        if self._work is not None and not self._commits.sent:
            self._work.cancel()
            self._work = None
        self._commits.give_up(withdrawn, cause, now_ms)

    def poll(self, now_ms: int) -> None:
        """Write the offsets that are due."""
        self._registry_work.poll(now_ms)
        self._commits.expire(self._too_late, now_ms)
        if self._auto_commit.is_due(now_ms) and self._may_commit():
            self._auto_commit.begin(self.commit, now_ms)
        if (
            self._work is None
            and self._commits.waiting
            and now_ms >= self._attempts.not_before_ms
            and self._may_commit()
        ):
            self._write()

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        if self._registry_work.has_news:
            return now_ms
        times = [each for each in (self._commits.waiters.due_ms, self._auto_commit.due_ms) if each is not None]
        if self._commits.waiting and self._work is None and self._may_commit():
            times.append(max(now_ms, self._attempts.not_before_ms))
        return min(times, default=None)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End all commits."""
        self._auto_commit.end()
        if self._work is not None:
            self._work.cancel()
            self._work = None
        self._commits.fail(error, now_ms)

    def _may_commit(self) -> bool:
        return self.member is None or self.member.sign() is not None

    def _write(self) -> None:
        self._commits.send()
        sent = {partition: commit.offset for partition, commit in self._commits.sent.items()}
        steps = together(_write(self._group_id, partition, offset) for partition, offset in sent.items())
        # `_write` returns its error, so one partition's failure does not end the others.
        self._work = self._registry_work.begin(steps, partial(self._written, sent), self._failed)

    def _written(
        self, sent: Mapping[TopicPartition, OffsetAndMetadata], results: list[KafkaWireError | None], now_ms: int
    ) -> None:
        self._work = None
        answers = dict(zip(sent, results, strict=True))
        errors = {partition: error for partition, error in answers.items() if error is not None}
        stored = self._commits.take_sent(answers.keys() - errors.keys())
        if stored:
            self._attempts.succeeded()
        self._commits.stored(stored, now_ms)
        for partition, error in errors.items():
            self._refused(partition, error, now_ms)

    def _failed(self, error: KafkaWireError, now_ms: int) -> None:
        self._work = None
        for partition in list(self._commits.sent):
            self._refused(partition, error, now_ms)

    def _refused(self, partition: TopicPartition, error: KafkaWireError, now_ms: int) -> None:
        """Try to write an offset again, unless a later offset is waiting or the error is final."""
        commit = self._commits.sent.pop(partition, None)
        if commit is None:  # given up in the meantime
            return
        if not error.retriable:
            self._commits.waiters.refuse(commit.waiters, partition, error, now_ms)
            return
        if now_ms >= self._attempts.not_before_ms:
            self._attempts.failed(error, now_ms)
            self._lines.info("retry", now_ms, "group %s: committing again: %s", self._group_id, error)
        self._commits.send_again(partition, commit)

    def _too_late(self, waiter: CommitWaiter) -> KafkaWireError:
        partitions = ", ".join(map(str, sorted(waiter.left)))
        cause = self._attempts.last_error
        text = f"group {self._group_id} did not commit {partitions} in time; {self._registry.describe()}"
        error = RequestTimedOut(text if cause is None else f"{text}: {cause}")
        error.__cause__ = cause
        return error


class ZookeeperCommittedOffsets:
    """A machine that looks up the committed offsets of one group, with the same interface as `CommittedOffsets`.

    Args:
        registry: contains the nodes.
        group_id: the group.
    """

    def __init__(self, registry: Registry, group_id: str) -> None:
        self._registry = registry
        self._group_id = group_id
        self._registry_work = RegistryWork(registry)
        self._lookups: dict[_Lookup, None] = {}

    def find(
        self, partitions: Collection[TopicPartition], deadline_ms: int, on_found: Callable[[Found, int], None]
    ) -> Callable[[], None]:
        """Look up the offsets of partitions; see `CommittedOffsets.find`."""
        lookup = _Lookup(tuple(dict.fromkeys(partitions)), deadline_ms, on_found)
        self._lookups[lookup] = None
        self._read(lookup)
        return partial(self._withdraw, lookup)

    def poll(self, now_ms: int) -> None:
        """Report the offsets that were found, or an error for those that were not found in time."""
        self._registry_work.poll(now_ms)
        for lookup in list(self._lookups):
            if now_ms >= lookup.deadline_ms:
                text = f"the offsets of group {self._group_id} were not read in time; {self._registry.describe()}"
                self._end(lookup, dict.fromkeys(lookup.partitions, RequestTimedOut(text)), now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        if self._registry_work.has_news:
            return now_ms
        return min((lookup.deadline_ms for lookup in self._lookups), default=None)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End all lookups."""
        for lookup in list(self._lookups):
            self._end(lookup, dict.fromkeys(lookup.partitions, error), now_ms)

    def _read(self, lookup: _Lookup) -> None:
        """Read the nodes; if the session ends in the meantime, read them again in the next one."""

        def failed(error: KafkaWireError, now_ms: int) -> None:
            if error.retriable and now_ms < lookup.deadline_ms:
                self._read(lookup)
            else:
                self._end(lookup, dict.fromkeys(lookup.partitions, error), now_ms)

        steps = _read(self._group_id, lookup.partitions)
        lookup.work = self._registry_work.begin(steps, partial(self._end, lookup), failed)

    def _withdraw(self, lookup: _Lookup) -> None:
        self._lookups.pop(lookup, None)
        if lookup.work is not None:
            lookup.work.cancel()

    def _end(self, lookup: _Lookup, results: Found, now_ms: int) -> None:
        self._withdraw(lookup)
        if results:
            lookup.on_found(results, now_ms)


class _Lookup:
    """Partitions that a caller is waiting for."""

    __slots__ = ("deadline_ms", "on_found", "partitions", "work")

    def __init__(
        self, partitions: tuple[TopicPartition, ...], deadline_ms: int, on_found: Callable[[Found, int], None]
    ) -> None:
        self.partitions = partitions
        self.deadline_ms = deadline_ms
        self.on_found = on_found
        self.work: Work[Found] | None = None


def _write(group_id: str, partition: TopicPartition, offset: OffsetAndMetadata) -> Steps[KafkaWireError | None]:
    """Write one offset; return the error if there was one."""
    try:
        path = CONSUMER_OFFSET.path(group_id, *partition)
        yield from set_or_create(path, CONSUMER_OFFSET.encode(offset.offset))
    except KafkaWireError as error:
        return error
    return None


def _read(group_id: str, partitions: Collection[TopicPartition]) -> Steps[Found]:
    """Read offsets; a damaged offset is an error, since it must not be taken for a missing one."""
    paths = {partition: CONSUMER_OFFSET.path(group_id, *partition) for partition in partitions}
    outcomes = yield [GetData(path) for path in paths.values()]
    results: dict[TopicPartition, OffsetAndMetadata | KafkaWireError | None] = {}
    for (partition, path), outcome in zip(paths.items(), outcomes, strict=True):
        if isinstance(outcome, RegistryError) and outcome.retriable:
            raise outcome
        try:
            data = found(outcome, Data)
            offset = -1 if data is None else CONSUMER_OFFSET.decode(data.data, path)
            results[partition] = OffsetAndMetadata(offset) if offset >= 0 else None
        except KafkaWireError as error:
            results[partition] = error
    return results
