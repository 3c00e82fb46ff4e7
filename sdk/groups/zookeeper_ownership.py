"""The nodes of a member in ZooKeeper: its registration, and an owner node for each partition that it reads.

All of these nodes are ephemeral: they end with the session. Only the member that created a partition's owner node reads
the partition.

An operation can be carried out twice if a lost connection hides its outcome. The second deletion of an owner node might
hit another member's node, created between the two. Owner nodes are therefore deleted in a transaction that also writes
the registration, with its expected version: the second time, the transaction finds another version and deletes nothing.

Source: `ZookeeperConsumerConnector`, `ZkUtils.createEphemeralPathExpectConflict` in Apache Kafka 1.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from kafkawire.sdk.protocol.tables.znodes import (
    CONSUMER,
    CONSUMER_IDS,
    CONSUMER_OWNER,
    CONSUMER_TOPIC_OWNERS,
    ConsumerRegistration,
)
from kafkawire.sdk.registry.consumer_ids import ConsumerThread
from kafkawire.sdk.registry.registry import (
    Create,
    Created,
    CreateMode,
    Delete,
    Exists,
    RegistryCode,
    RegistryError,
    SetData,
    Stat,
    Transaction,
    Watcher,
)
from kafkawire.sdk.registry.steps import (
    ATTEMPTS_MAX,
    Steps,
    create_ephemeral,
    create_with_parents,
    delete,
    expected,
    found,
    perform,
    read,
    stat_of,
    together,
)
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["Ownership"]

#: The number of owner nodes deleted in one transaction, which even with the longest names stays far below
#: `REQUEST_BYTES_MAX`.
RELEASED_MAX: Final = 500


class Ownership:
    """The nodes of one member.

    Args:
        group_id: the group.
        consumer_id: the id of the member.
        session_id: returns the current session.

    Attributes:
        former_sessions: sessions of this member that have expired.

    Raises:
        EncodeError: one of the ids is not a valid node name.
    """

    def __init__(self, group_id: str, consumer_id: str, session_id: Callable[[], int]) -> None:
        self._group_id = group_id
        self._session_id = session_id
        self._path: Final = CONSUMER.path(group_id, consumer_id)
        self.former_sessions: set[int] = set()

    def register(self, registration: ConsumerRegistration) -> Steps[None]:
        """Create or replace the registration of the member; in either case, the watches of other members fire.

        Raises:
            RegistryError: NODE_EXISTS if another session has this id, or an error with another code.
        """
        data = CONSUMER.encode(registration)
        yield from create_with_parents(CONSUMER_IDS.path(self._group_id))
        known = yield from read(self._path)
        if known is not None and self._is_own(known.stat):
            if known.data == data:
                return
            # The others watch the children of the folder, not the content of a child.
            replace = Transaction(
                (Delete(self._path, known.stat.version), Create(self._path, data, CreateMode.EPHEMERAL))
            )
            outcome = yield from perform(replace)
            if not isinstance(outcome, RegistryError):
                return
            if outcome.code is not RegistryCode.BAD_VERSION:  # carried out twice, or deleted by an operator
                raise outcome
        yield from create_ephemeral(self._path, data, self._session_id, former_sessions=self.former_sessions)

    def claim(self, threads: Mapping[TopicPartition, ConsumerThread]) -> Steps[frozenset[TopicPartition]]:
        """Create the owner nodes of partitions.

        Args:
            threads: the thread that will read each partition.

        Returns:
            The partitions that have another owner.
        """
        outcomes = yield [self._creation(partition, thread) for partition, thread in threads.items()]
        results = dict(zip(threads, outcomes, strict=True))
        orphans = [partition for partition, outcome in results.items() if _has(outcome, RegistryCode.NO_NODE)]
        if orphans:
            folders = {CONSUMER_TOPIC_OWNERS.path(self._group_id, partition.topic) for partition in orphans}
            yield from together(create_with_parents(folder) for folder in sorted(folders))
            outcomes = yield [self._creation(partition, threads[partition]) for partition in orphans]
            results.update(zip(orphans, outcomes, strict=True))
        existing = [partition for partition, outcome in results.items() if _has(outcome, RegistryCode.NODE_EXISTS)]
        for partition in results.keys() - set(existing):
            expected(results[partition], Created)
        own = yield from self._own(existing)
        return frozenset(existing) - own

    def release(self, partitions: Collection[TopicPartition]) -> Steps[None]:
        """Delete those owner nodes of partitions that belong to this session."""
        left = frozenset(partitions)
        for _ in range(ATTEMPTS_MAX + len(left) // RELEASED_MAX):
            left = yield from self._own(sorted(left))
            if not left:
                return
            registration = yield from read(self._path)
            # If an operator has deleted the registration, there is no guard.
            guards = [] if registration is None else [SetData(self._path, registration.data, registration.stat.version)]
            deletions = [Delete(self._owner(partition)) for partition in sorted(left)[:RELEASED_MAX]]
            outcome = yield from perform(Transaction((*guards, *deletions)))
            if isinstance(outcome, RegistryError) and outcome.code not in _CHANGED:
                raise outcome
        raise RegistryError(
            RegistryCode.NODE_EXISTS, self._owner(min(left)), "the node was created again after each deletion"
        )

    def leave(self, partitions: Collection[TopicPartition]) -> Steps[None]:
        """Delete the owner nodes of partitions, then the registration: other members then find the partitions free."""
        yield from self.release(partitions)
        known = yield from stat_of(self._path)
        if known is not None and self._is_own(known):
            yield from delete(self._path)

    def watch(self, partitions: Collection[TopicPartition], watcher: Watcher) -> Steps[bool]:
        """Watch the owner nodes of partitions; return whether any of the partitions now has no owner."""
        outcomes = yield [Exists(self._owner(partition), watcher) for partition in sorted(partitions)]
        return any(found(outcome, Stat) is None for outcome in outcomes)

    def _own(self, partitions: Sequence[TopicPartition]) -> Steps[frozenset[TopicPartition]]:
        """Return which partitions this session owns."""
        if not partitions:
            return frozenset()
        outcomes = yield [Exists(self._owner(partition)) for partition in partitions]
        stats = [found(outcome, Stat) for outcome in outcomes]
        owned = zip(partitions, stats, strict=True)
        return frozenset(partition for partition, stat in owned if stat is not None and self._is_own(stat))

    def _is_own(self, stat: Stat) -> bool:
        return stat.ephemeral_owner != 0 and stat.ephemeral_owner == self._session_id()

    def _owner(self, partition: TopicPartition) -> str:
        return CONSUMER_OWNER.path(self._group_id, partition.topic, partition.partition)

    def _creation(self, partition: TopicPartition, thread: ConsumerThread) -> Create:
        return Create(self._owner(partition), CONSUMER_OWNER.encode(str(thread)), CreateMode.EPHEMERAL)


#: Codes which mean that part of a guarded deletion was done before, possibly by an operator: the nodes are read again.
_CHANGED: Final = frozenset({RegistryCode.BAD_VERSION, RegistryCode.NO_NODE})


def _has(outcome: object, code: RegistryCode) -> bool:
    return isinstance(outcome, RegistryError) and outcome.code is code
