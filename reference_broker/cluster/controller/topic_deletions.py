"""Topic deletion: a topic is marked in the registry, then its replicas are deleted, and finally its nodes.

A deletion is on hold while a replica cannot be deleted or a partition is being moved, and resumes later. A topic's
nodes are deleted in the order topic, configuration, mark, so that a later controller finds the mark and continues.

Source: `TopicDeletionManager` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from kafkawire.reference_broker.cluster.controller.broker_requests import BrokerRequests
from kafkawire.reference_broker.cluster.controller.context import Context, Replica
from kafkawire.reference_broker.cluster.controller.lookout import delete_each, raise_if_of_all
from kafkawire.reference_broker.cluster.controller.partition_states import PartitionStates
from kafkawire.reference_broker.cluster.controller.replica_states import ReplicaStates
from kafkawire.reference_broker.cluster.controller.states import PartitionState, ReplicaState
from kafkawire.sdk.protocol.tables.znodes import TOPIC, TOPIC_CONFIG, TOPIC_DELETION
from kafkawire.sdk.registry.registry import RegistryError
from kafkawire.sdk.registry.steps import Steps, delete_recursively, together

__all__ = ["TopicDeletions"]

_log = logging.getLogger("kafkawire.broker")

#: Maximum number of partitions in topics whose nodes are deleted concurrently: a tenth of the maximum number of
#: operations waiting for the registry.
_PARTITIONS_TOGETHER_MAX: Final = 10_000


class TopicDeletions:
    """Deletes topics.

    Args:
        context: holds the topics.
        requests: sends requests to brokers.
        partition_states: moves partitions to NON_EXISTENT.
        replica_states: deletes replicas.
        is_enabled: `delete.topic.enable`; if false, deletion marks are simply removed.
    """

    def __init__(
        self,
        context: Context,
        requests: BrokerRequests,
        partition_states: PartitionStates,
        replica_states: ReplicaStates,
        *,
        is_enabled: bool,
    ) -> None:
        self._context = context
        self._requests = requests
        self._partition_states = partition_states
        self._replica_states = replica_states
        self._is_enabled = is_enabled

    def start(self, marked: Collection[str], held: Collection[str]) -> Steps[None]:
        """Take over the deletions started by earlier controllers.

        Args:
            marked: the topics to delete.
            held: the topics that cannot be deleted now.
        """
        if self._is_enabled:
            self._context.deletions.update((topic, None) for topic in marked)
            self.hold(held)
        else:
            yield from self.unmark(marked)

    def enqueue(self, topics: Iterable[str]) -> Steps[None]:
        """Delete topics that have been marked, as soon as that is possible."""
        self._context.deletions.update((topic, None) for topic in topics)
        yield from self.proceed()

    def hold(self, topics: Collection[str]) -> None:
        """Hold the deletion of topics until `resume` names them; topics that are not marked are ignored."""
        self._context.deletions_held.update(topic for topic in topics if topic in self._context.deletions)

    def resume(self, topics: Collection[str]) -> Steps[None]:
        """Try again to delete topics; topics that are not marked, or are still being moved, are ignored."""
        marked = {topic for topic in topics if topic in self._context.deletions}
        if marked:
            marked -= {partition.topic for partition in self._context.reassigned}
        if marked:
            self._context.deletions_held.difference_update(marked)
            yield from self.proceed()

    def fail(self, replicas: Iterable[Replica]) -> Steps[None]:
        """Record that replicas cannot be deleted now."""
        failed = [replica for replica in replicas if replica.partition.topic in self._context.deletions]
        if failed:
            yield from self._replica_states.change(failed, ReplicaState.DELETION_INELIGIBLE)
            self.hold({replica.partition.topic for replica in failed})
            yield from self.proceed()

    def complete(self, replicas: Iterable[Replica]) -> Steps[None]:
        """Record that brokers have deleted replicas."""
        deleted = [replica for replica in replicas if replica.partition.topic in self._context.deletions]
        yield from self._replica_states.change(deleted, ReplicaState.DELETION_SUCCESSFUL)
        yield from self.proceed()

    def unmark(self, topics: Iterable[str]) -> Steps[None]:
        """Remove the marks of topics that are not to be deleted, or do not exist."""
        yield from delete_each(self._context.check, [TOPIC_DELETION.path(topic) for topic in topics])

    def proceed(self) -> Steps[None]:
        """Finish, retry and start deletions as the replica states allow."""
        context = self._context
        finished, to_retry, to_begin = [], [], []
        for topic in list(context.deletions):
            if topic in context.topics and topic not in context.assignments:
                continue  # the replicas of an unreadable topic are unknown
            if context.are_all_in(topic, ReplicaState.DELETION_SUCCESSFUL):
                finished.append(topic)
                continue
            if context.replicas_in(topic, ReplicaState.DELETION_STARTED):
                continue
            if context.replicas_in(topic, ReplicaState.DELETION_INELIGIBLE):
                to_retry.append(topic)
            if topic not in context.deletions_held:
                to_begin.append(topic)
        for portion in self._portions(finished):
            yield from self._finish(portion)
        retried = [each for topic in to_retry for each in context.replicas_in(topic, ReplicaState.DELETION_INELIGIBLE)]
        yield from self._replica_states.change(retried, ReplicaState.OFFLINE)
        if to_begin:
            yield from self._begin(to_begin)

    def _portions(self, topics: Iterable[str]) -> Iterator[list[str]]:
        """Yield topics in groups with few enough partitions to be deleted concurrently."""
        portion: list[str] = []
        size = 0
        for topic in topics:
            count = len(self._context.assignments.get(topic, ()))
            if portion and size + count > _PARTITIONS_TOGETHER_MAX:
                yield portion
                portion, size = [], 0
            portion.append(topic)
            size += count
        if portion:
            yield portion

    def _finish(self, topics: Sequence[str]) -> Steps[None]:
        """Delete the nodes of topics; if a node cannot be deleted, its topic stays marked and is retried later."""
        context = self._context
        are_gone = yield from together(self._delete_nodes(topic) for topic in topics)
        for topic, is_gone in zip(topics, are_gone, strict=True):
            if is_gone:
                replicas = context.replicas_in(topic, ReplicaState.DELETION_SUCCESSFUL)
                yield from self._replica_states.change(replicas, ReplicaState.NON_EXISTENT)
                context.remove_topic(topic)
                _log.info("topic %s is deleted", topic)

    def _delete_nodes(self, topic: str) -> Steps[bool]:
        """Delete the nodes of a topic; return whether all are gone."""
        check = self._context.check
        try:
            yield from delete_recursively(TOPIC.path(topic), check)
        except RegistryError as error:
            raise_if_of_all(error)
            _log.error("could not remove topic %s from the registry: %s", topic, error)
            return False
        for path in (TOPIC_CONFIG.path(topic), TOPIC_DELETION.path(topic)):
            if not (yield from delete_each(check, (path,))):
                return False
        return True

    def _begin(self, topics: Collection[str]) -> Steps[None]:
        context = self._context
        new = [topic for topic in topics if topic not in context.deletions_started]
        partitions = [partition for topic in new for partition in context.partitions_of(topic)]
        yield from self._partition_states.change(partitions, PartitionState.OFFLINE)
        yield from self._partition_states.change(partitions, PartitionState.NON_EXISTENT)
        context.deletions_started.update(new)
        batch = self._requests.batch()
        batch.add_metadata(context.brokers, [each for topic in topics for each in context.partitions_of(topic)])
        batch.send()
        dead, alive = [], []
        for topic in topics:
            for replica in context.replicas_of(context.partitions_of(topic)):
                if not context.is_online(replica.broker_id, replica.partition):
                    dead.append(replica)
                elif context.replica_states.get(replica) is not ReplicaState.DELETION_SUCCESSFUL:
                    alive.append(replica)
        yield from self._replica_states.change(dead, ReplicaState.DELETION_INELIGIBLE)
        # Followers stop fetching before their leader is deleted.
        yield from self._replica_states.change(alive, ReplicaState.OFFLINE)
        yield from self._replica_states.change(alive, ReplicaState.DELETION_STARTED)
        self.hold({replica.partition.topic for replica in dead})
