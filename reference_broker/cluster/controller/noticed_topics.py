"""New topics, new partitions and deletion marks that the controller notices in the registry.

Source: `KafkaController.processTopicChange`, `processPartitionModifications`, `processTopicDeletion` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from kafkawire.reference_broker.cluster.controller.cluster_reader import ClusterReader, StoredTopic
from kafkawire.reference_broker.cluster.controller.context import Context
from kafkawire.reference_broker.cluster.controller.lookout import Lookout, raise_if_of_all
from kafkawire.reference_broker.cluster.controller.outward_calls import call_out
from kafkawire.reference_broker.cluster.controller.partition_states import PartitionStates
from kafkawire.reference_broker.cluster.controller.reassignments import stored_assignment
from kafkawire.reference_broker.cluster.controller.replica_states import ReplicaStates
from kafkawire.reference_broker.cluster.controller.states import PartitionState, ReplicaState
from kafkawire.reference_broker.cluster.controller.topic_deletions import TopicDeletions
from kafkawire.sdk.protocol.tables.znodes import PARTITIONS, TOPIC, TOPIC_DELETIONS, TOPICS
from kafkawire.sdk.registry.registry import Exists, RegistryCode, RegistryError, SetData, Stat
from kafkawire.sdk.registry.steps import Steps, checked, list_children
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["NoticedTopics"]

_log = logging.getLogger("kafkawire.broker")


class NoticedTopics:
    """Tracks the topics in a cluster.

    Args:
        context: holds the topics.
        reader: reads topics.
        partition_states: elects leaders.
        replica_states: starts replicas.
        deletions: deletes topics.
        lookout: retries listings that failed.
        new_topic_id: returns a random id for topics that have none.
        deletes_topics: `delete.topic.enable`.
    """

    def __init__(
        self,
        context: Context,
        reader: ClusterReader,
        partition_states: PartitionStates,
        replica_states: ReplicaStates,
        deletions: TopicDeletions,
        lookout: Lookout,
        new_topic_id: Callable[[], bytes],
        *,
        deletes_topics: bool,
    ) -> None:
        self._context = context
        self._reader = reader
        self._partition_states = partition_states
        self._replica_states = replica_states
        self._deletions = deletions
        self._lookout = lookout
        self._new_topic_id = new_topic_id
        self._deletes_topics = deletes_topics

    def compare(self) -> Steps[None]:
        """Compare the stored topics with the known ones, and start the new ones."""
        context = self._context
        try:
            names = dict.fromkeys((yield from self._reader.topic_names()))
        except RegistryError as error:
            self._lookout.failed(TOPICS.path(), error)
            return
        new = [name for name in names if name not in context.topics]
        for name in [name for name in context.topics if name not in names]:
            context.remove_topic(name)
        added = yield from self.load(new)
        yield from self._start(added)

    def load(self, names: Sequence[str]) -> Steps[list[TopicPartition]]:
        """Read topics into the context, and give an id to those without one; return their partitions."""
        context = self._context
        context.topics.update((name, None) for name in names)
        topics = yield from self._with_ids((yield from self._reader.topics(names)))
        added = []
        for name, topic in topics.items():
            if topic.topic_id is not None and not context.add_topic_id(name, topic.topic_id):
                _log.error("ignoring topic %s, since its id %s belongs to another topic", name, topic.topic_id.hex())
                continue
            context.topic_versions[name] = topic.version
            context.assignments.setdefault(name, {})
            for number, assignment in topic.assignments.items():
                partition = TopicPartition(name, number)
                context.assign(partition, assignment)
                if assignment.is_reassigned:
                    context.reassigned[partition] = None
                added.append(partition)
        return added

    def refresh(self, topic: str) -> Steps[None]:
        """Re-read a topic whose node has changed, and start its new partitions."""
        context = self._context
        if topic not in context.topics:
            return
        if topic not in context.assignments:
            # The topic is new, or could not be read before.
            yield from self._start((yield from self.load((topic,))))
            yield from self._deletions.resume((topic,))
            return
        stored = (yield from self._reader.topics((topic,))).get(topic)
        if stored is None:
            return
        added = [
            TopicPartition(topic, number)
            for number in stored.assignments
            if not context.assignment(TopicPartition(topic, number)).replicas
        ]
        if not added:
            context.topic_versions[topic] = stored.version
            return
        if topic in context.deletions:
            _log.warning("not starting the new partitions of topic %s, which is being deleted", topic)
            yield from self._restore(topic, stored.version)
            return
        context.topic_versions[topic] = stored.version
        for partition in added:
            context.assign(partition, stored.assignments[partition.partition])
        yield from self._start(added)

    def take_deletions(self) -> Steps[None]:
        """Start deleting the topics that are marked for deletion."""
        context = self._context
        marked = (yield from self._reader.deletions()) or ()
        unknown = [topic for topic in marked if topic not in context.topics]
        if unknown:
            yield from self._unmark_unknown(unknown)
        known = [topic for topic in marked if topic in context.topics]
        if not self._deletes_topics:
            yield from self._deletions.unmark(known)
        elif known:
            context.deletions.update((topic, None) for topic in known)
            moved = {partition.topic for partition in context.reassigned}
            self._deletions.hold([topic for topic in known if topic in moved])
            yield from self._deletions.enqueue(known)

    def _unmark_unknown(self, topics: Sequence[str]) -> Steps[None]:
        """Remove the marks of topics that do not exist; topics yet to be noticed stay marked until they are."""
        outcomes = yield [Exists(TOPIC.path(topic)) for topic in topics]
        is_gone = [isinstance(each, RegistryError) and each.code is RegistryCode.NO_NODE for each in outcomes]
        gone = [topic for topic, each in zip(topics, is_gone, strict=True) if each]
        if gone:
            _log.warning("cannot delete topics that do not exist: %s", gone)
            yield from self._deletions.unmark(gone)
        if len(gone) < len(topics):
            self._lookout.look_later(TOPIC_DELETIONS.path())

    def _start(self, partitions: Sequence[TopicPartition]) -> Steps[None]:
        replicas = self._context.replicas_of(partitions)
        yield from self._partition_states.change(partitions, PartitionState.NEW)
        yield from self._replica_states.change(replicas, ReplicaState.NEW)
        yield from self._partition_states.change(partitions, PartitionState.ONLINE)
        yield from self._replica_states.change(replicas, ReplicaState.ONLINE)

    def _with_ids(self, topics: Mapping[str, StoredTopic]) -> Steps[dict[str, StoredTopic]]:
        """Store an id for each topic without one."""
        ids: dict[str, bytes] = {}
        changes: list[SetData] = []
        for name, topic in topics.items():
            topic_id = call_out("a new topic id", self._new_topic_id) if topic.topic_id is None else None
            if topic_id is not None:
                content = TOPIC.encode(stored_assignment(topic_id, topic.assignments))
                ids[name] = topic_id
                changes.append(SetData(TOPIC.path(name), content, topic.version))
        results: Iterable[object] = (yield from checked(self._context.check, changes)) if changes else ()
        with_ids = dict(topics)
        for (name, topic_id), result in zip(ids.items(), results, strict=True):
            if isinstance(result, Stat):
                with_ids[name] = topics[name]._replace(topic_id=topic_id, version=result.version)
            elif isinstance(result, RegistryError) and result.code is RegistryCode.BAD_VERSION:
                del with_ids[name]  # another program has written the topic, so it will be re-read
            else:
                _log.error("could not assign an id to topic %s: %s", name, result)
        return with_ids

    def _restore(self, topic: str, version: int) -> Steps[None]:
        """Remove partitions that were added to a topic while it was waiting to be deleted."""
        context = self._context
        try:
            children = yield from list_children(PARTITIONS.path(topic))
        except RegistryError as error:
            raise_if_of_all(error)
            _log.error("could not remove unused partitions of topic %s: %s", topic, error)
            return
        exist = set(() if children is None else children.names)
        known = context.assignments.get(topic, {})
        assignments = {number: known[number] for number in known if str(number) in exist}
        content = TOPIC.encode(stored_assignment(context.topic_ids.get(topic), assignments))
        (result,) = yield from checked(context.check, (SetData(TOPIC.path(topic), content, version),))
        if isinstance(result, Stat):
            context.topic_versions[topic] = result.version
        elif isinstance(result, RegistryError):
            _log.error("could not remove unused partitions of topic %s: %s", topic, result)
