"""Brokers joining, leaving, changing or shutting down, and replicas in failed log directories.

Source: `KafkaController.processBrokerChange`, `onBrokerStartup`, `onReplicasBecomeOffline`, `doControlledShutdown`,
`processLeaderAndIsrResponseReceived` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from kafkawire.reference_broker.cluster.controller.broker_requests import BrokerRequests
from kafkawire.reference_broker.cluster.controller.cluster_reader import ClusterReader
from kafkawire.reference_broker.cluster.controller.context import Context, Leadership, Replica
from kafkawire.reference_broker.cluster.controller.leader_elections import Occasion
from kafkawire.reference_broker.cluster.controller.live_brokers import LiveBroker
from kafkawire.reference_broker.cluster.controller.lookout import Lookout, delete_each
from kafkawire.reference_broker.cluster.controller.partition_states import PartitionStates
from kafkawire.reference_broker.cluster.controller.reassignments import Reassignments
from kafkawire.reference_broker.cluster.controller.refusals import Refused, tell_refusal
from kafkawire.reference_broker.cluster.controller.replica_states import ReplicaStates
from kafkawire.reference_broker.cluster.controller.states import PartitionState, ReplicaState
from kafkawire.reference_broker.cluster.controller.topic_deletions import TopicDeletions
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import BROKER_IDS, LOG_DIR_EVENT, LOG_DIR_EVENTS
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.paths import child_path
from kafkawire.sdk.registry.registry import Data, RegistryError
from kafkawire.sdk.registry.steps import Steps
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["BrokerChanges"]

_log = logging.getLogger("kafkawire.broker")

#: The broker epoch in a ControlledShutdown from a broker that does not know its epoch.
_UNKNOWN_BROKER_EPOCH: Final = -1


class BrokerChanges:
    """Tracks the brokers in a cluster.

    Args:
        context: holds the brokers.
        reader: reads registrations.
        requests: sends requests to brokers.
        partition_states: elects leaders.
        replica_states: starts and stops replicas.
        deletions: topic deletions, which are held up when brokers leave, and resumed when they return.
        reassignments: reassignments, which are resumed when brokers return.
        lookout: watches for announcements of failed log directories.
    """

    def __init__(
        self,
        context: Context,
        reader: ClusterReader,
        requests: BrokerRequests,
        partition_states: PartitionStates,
        replica_states: ReplicaStates,
        deletions: TopicDeletions,
        reassignments: Reassignments,
        lookout: Lookout,
    ) -> None:
        self._context = context
        self._reader = reader
        self._requests = requests
        self._partition_states = partition_states
        self._replica_states = replica_states
        self._deletions = deletions
        self._reassignments = reassignments
        self._lookout = lookout

    def compare(self) -> Steps[None]:
        """Compare the registered brokers with the known ones, and act on the differences.

        A broker with a later epoch has restarted, and is treated as both gone and new.
        """
        known = self._context.brokers
        try:
            registered = yield from self._reader.brokers(known)
        except RegistryError as error:
            self._lookout.failed(BROKER_IDS.path(), error)
            return
        new = [broker for broker_id, broker in registered.items() if broker_id not in known]
        gone = [broker_id for broker_id in known if broker_id not in registered]
        bounced = [
            each for broker_id, each in registered.items() if broker_id in known and each.epoch > known[broker_id].epoch
        ]
        if new or gone or bounced:
            _log.info("brokers: new %s, gone %s, restarted %s", _ids(new), gone, _ids(bounced))
        for broker in (*new, *bounced):
            self._requests.connect(broker)
        for broker_id in gone:
            self._requests.disconnect(broker_id)
        if new:
            self._add(new)
            yield from self._start(_ids(new))
        if bounced:
            self._remove(_ids(bounced))
            yield from self._fail(_ids(bounced))
            self._add(bounced)
            yield from self._start(_ids(bounced))
        if gone:
            self._remove(gone)
            yield from self._fail(gone)

    def refresh(self, broker_id: int) -> Steps[None]:
        """Re-read a registration whose node has changed, and tell all brokers if its endpoints or features differ."""
        broker = yield from self._reader.broker(broker_id)
        known = self._context.brokers.get(broker_id)
        if broker is not None and known is None:
            yield from self.compare()  # the damaged registration has been repaired
        if broker is None or known is None or broker.epoch != known.epoch:
            return
        if (broker.endpoints, broker.features) != (known.endpoints, known.features):
            self._context.brokers[broker_id] = broker
            self.tell()

    def tell(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Send all brokers the list of live brokers and the metadata of the given partitions."""
        batch = self._requests.batch()
        batch.add_metadata(self._context.brokers, partitions)
        batch.send()

    def shut_down(self, broker_id: int, broker_epoch: int) -> Steps[list[TopicPartition]]:
        """Move leaders away from a broker that is about to stop, and remove its followers from the ISR.

        Args:
            broker_id: the broker's id.
            broker_epoch: the epoch in the broker's request; -1 if the broker does not know its epoch.

        Returns:
            The partitions that the broker still leads.

        Raises:
            Refused: the broker is not registered, or is registered with a later epoch.
        """
        context = self._context
        broker = context.brokers.get(broker_id)
        if broker is None:
            raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker_id} does not exist.")
        if broker_epoch != _UNKNOWN_BROKER_EPOCH and broker_epoch < broker.epoch:
            text = f"broker {broker_id} has epoch {broker.epoch}, but its request has epoch {broker_epoch}"
            raise Refused(ErrorCode.STALE_BROKER_EPOCH, text)
        context.shutting_down.add(broker_id)
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        for partition, _ in context.replicas_on((broker_id,)):
            if self._can_move(partition):
                (led if context.leaderships[partition].leader == broker_id else followed).append(partition)
        yield from self._partition_states.change(led, PartitionState.ONLINE, Occasion.CONTROLLED_SHUTDOWN)
        batch = self._requests.batch()
        for partition in followed:
            batch.add_stop_replica((broker_id,), partition, is_deleted=False)
        batch.send()
        replicas = [Replica(partition, broker_id) for partition in followed]
        yield from self._replica_states.change(replicas, ReplicaState.OFFLINE)
        return context.led_by(broker_id)

    def _can_move(self, partition: TopicPartition) -> bool:
        context = self._context
        if partition.topic in context.deletions or partition not in context.leaderships:
            return False
        return len(context.assignment(partition).replicas) > 1

    def take_log_dir_events(self) -> Steps[None]:
        """Query the state of the replicas on brokers that have announced failed log directories."""
        names = (yield from self._lookout.names(LOG_DIR_EVENTS.path())) or ()
        paths = [child_path(LOG_DIR_EVENTS.path(), name) for name in names]
        if not paths:
            return
        broker_ids = set()
        for path, data in zip(paths, (yield from self._lookout.read_each(paths)), strict=True):
            try:
                if isinstance(data, Data):
                    broker_ids.add(LOG_DIR_EVENT.decode(data.data, path).broker_id)
            except DamagedZnode as error:
                _log.error("ignoring the announcement of a failed log directory: %s", error)
        # Replicas of a broker that is gone stay offline.
        alive = broker_ids & self._context.brokers.keys()
        yield from self._replica_states.change(self._context.replicas_on(alive), ReplicaState.ONLINE)
        yield from delete_each(self._context.check, paths)

    def take_response(self, broker_id: int, response: LeaderAndIsrResponse) -> Steps[None]:
        """Record which of a broker's replicas are in failed log directories.

        Args:
            broker_id: the broker's id.
            response: the broker's response to a LeaderAndIsr.
        """
        if response.error_code != ErrorCode.NONE:
            tell_refusal(broker_id, "LeaderAndIsr", response.error_code)
            return
        errors = dict(self._errors(response))
        known = self._context.offline_dirs.setdefault(broker_id, set())
        good = {partition for partition, code in errors.items() if code == ErrorCode.NONE}
        failed = [partition for partition, code in errors.items() if code == ErrorCode.KAFKA_STORAGE_ERROR]
        new = [partition for partition in failed if partition not in known]
        known -= good
        known.update(failed)
        if new:
            _log.error("the replicas of %s on broker %d are offline", [str(each) for each in new], broker_id)
            yield from self._go_offline([Replica(partition, broker_id) for partition in new])

    def _errors(self, response: LeaderAndIsrResponse) -> Iterable[tuple[TopicPartition, int]]:
        for error in response.partition_errors:
            yield TopicPartition(error.topic_name, error.partition_index), error.error_code
        for topic in response.topics:
            name = self._context.topic_names.get(topic.topic_id)
            if name is not None:
                for error in topic.partition_errors:
                    yield TopicPartition(name, error.partition_index), error.error_code

    def _add(self, brokers: Iterable[LiveBroker]) -> None:
        self._context.brokers.update((broker.broker_id, broker) for broker in brokers)

    def _remove(self, broker_ids: Iterable[int]) -> None:
        for broker_id in broker_ids:
            del self._context.brokers[broker_id]

    def _start(self, broker_ids: Collection[int]) -> Steps[None]:
        context = self._context
        for broker_id in broker_ids:
            context.offline_dirs.pop(broker_id, None)
        batch = self._requests.batch()
        batch.add_metadata([each for each in context.brokers if each not in broker_ids])
        batch.send()
        # A broker needs all metadata before it is told about its replicas.
        batch.add_metadata(broker_ids, context.with_leadership())
        batch.send()
        replicas = context.replicas_on(broker_ids)
        yield from self._replica_states.change(replicas, ReplicaState.ONLINE)
        yield from self._partition_states.bring_online()
        yield from self._reassignments.resume(
            lambda _, assignment: any(broker_id in broker_ids for broker_id in assignment.target)
        )
        yield from self._deletions.resume({replica.partition.topic for replica in replicas})

    def _fail(self, broker_ids: Sequence[int]) -> Steps[None]:
        for broker_id in broker_ids:
            self._context.offline_dirs.pop(broker_id, None)
            self._context.shutting_down.discard(broker_id)
        yield from self._go_offline(self._context.replicas_on(broker_ids))

    def _go_offline(self, replicas: Sequence[Replica]) -> Steps[None]:
        """Elect other leaders, and remove replicas from the ISR."""
        context = self._context
        deleted = [replica for replica in replicas if replica.partition.topic in context.deletions]
        others = [replica for replica in replicas if replica.partition.topic not in context.deletions]
        yield from self._partition_states.change(context.with_offline_leader(), PartitionState.OFFLINE)
        results = yield from self._partition_states.bring_online()
        yield from self._replica_states.change(others, ReplicaState.OFFLINE)
        if deleted:
            # Otherwise these replicas would stay in DELETION_STARTED, waiting for a response that never comes.
            yield from self._deletions.fail(deleted)
        if not others and not any(isinstance(result, Leadership) for result in results.values()):
            self.tell()


def _ids(brokers: Iterable[LiveBroker]) -> list[int]:
    return [broker.broker_id for broker in brokers]
