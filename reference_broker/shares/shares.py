"""The parts of a broker that serve share groups, assembled.

Source: `BrokerServer.startup` in Apache Kafka, which assembles the corresponding parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.metadata.topic_controller import TopicController
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.shares.coordinator import ShareCoordinator
from kafkawire.reference_broker.shares.limits import ShareLimits
from kafkawire.reference_broker.shares.local_persister import LocalPersister
from kafkawire.reference_broker.shares.share_fetches import ShareFetches
from kafkawire.reference_broker.shares.share_partitions import SharePartitions
from kafkawire.reference_broker.shares.share_sessions import ShareSession, ShareSessions
from kafkawire.reference_broker.shares.share_state import SharePartitionKey
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import SHARE_GROUP_STATE_TOPIC

__all__ = ["Shares"]


class Shares:
    """The broker's share coordinator, share partitions, share sessions and share fetches.

    Args:
        limits: see `ShareLimits`.
        timers: the broker's timers.
        replicas: the replicas on this broker.
        metadata: the state of the cluster.
        topics: creates `__share_group_state`.
        size_of: returns the number of partitions of that topic; 0 if it does not exist.
        clock: returns the time in milliseconds.

    Attributes:
        limits: see above.
        coordinator: see `ShareCoordinator`.
        persister: see `Persister`.
        partitions: see `SharePartitions`.
        sessions: see `ShareSessions`.
        fetches: see `ShareFetches`.
    """

    def __init__(
        self,
        limits: ShareLimits,
        timers: Timers,
        replicas: Replicas,
        metadata: MetadataCache,
        topics: TopicController,
        size_of: Callable[[], int],
        clock: Callable[[], int],
    ) -> None:
        self.limits = limits
        self._timers = timers
        self._replicas = replicas
        self._metadata = metadata
        self.coordinator = ShareCoordinator(timers, limits, size_of, self._partitions_of, self._prune)
        self.persister = LocalPersister(self.coordinator, topics.ensure, timers, clock)
        self.partitions = SharePartitions(limits, self.persister, timers, replicas)
        self.sessions = ShareSessions(limits, self._release, self.partitions.drop_group)
        self.fetches = ShareFetches(limits, self.partitions, replicas, timers)
        metadata.listen(self.coordinator.changed)
        replicas.listen(self.partitions.changed_role)

    def closed(self, connection: object) -> None:
        """End the session of a connection that is closed."""
        self._timers.soon(lambda now_ms: self.sessions.closed(connection, now_ms))

    def end_session(self, group_id: str, member_id: str) -> None:
        """End the session of a member, and soon release what it has acquired."""
        session = self.sessions.remove(group_id, member_id)
        if session is not None:
            self._timers.soon(partial(self._release, session))

    def _release(self, session: ShareSession, now_ms: int) -> None:
        keys = [SharePartitionKey(session.group_id, *partition) for partition, _ in session]
        self.partitions.release(session.member_id, keys, now_ms)

    def _partitions_of(self, topic_id: bytes) -> int:
        topic = self._metadata.image.topics_by_id.get(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def _prune(self, number: int, offset: int) -> None:
        """Remove the records of the share coordinator's topic before an offset."""
        replica = self._replicas.get(SHARE_GROUP_STATE_TOPIC, number)
        if replica is not None:
            replica.log.begin_at(min(offset, replica.log.high_watermark))
            self._replicas.checkpoint(_checkpointed)


def _checkpointed(error: BrokerError | None) -> None:
    """Ignore the outcome: a start offset that was not stored is stored with the next one."""
