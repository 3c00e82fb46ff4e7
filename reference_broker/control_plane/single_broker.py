"""A standalone broker: its data directory is the source of everything, and it leads all partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafkawire.reference_broker.config.features import Feature, features
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.metadata.image import TopicImage
from kafkawire.reference_broker.metadata.sources import Sources, local_sources
from kafkawire.reference_broker.metadata.topic_store import TopicStore
from kafkawire.reference_broker.replicas.local_roles import LocalRoles
from kafkawire.reference_broker.replicas.replica import Replica, RoleChanged
from kafkawire.reference_broker.replicas.replicas import Replicas, sole_replica
from kafkawire.reference_broker.requests.api_handlers import ServedApis
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.transactions.markers import WriteMarker
from kafkawire.reference_broker.transactions.transaction_verification import Verifier
from kafkawire.sdk.storage.partitions import Partition
from kafkawire.sdk.transport.wire import Address

__all__ = ["SingleBroker"]


class SingleBroker:
    """The control plane of a standalone broker; see `ControlPlane`.

    Args:
        store: keeps the topics.
        options: broker options, which dynamic configurations change.
        listeners: the advertised address of each listener, keyed by listener name.
        served: the APIs of the broker.
    """

    def __init__(
        self, store: TopicStore, options: BrokerOptions, listeners: Mapping[str, Address], served: ServedApis
    ) -> None:
        self._store = store
        self._broker_id = options.node_id
        self._groups: GroupCoordinator | None = None
        self.static_configs: Mapping[str, str] = {}
        self.features: Sequence[Feature] = features(served.handlers)
        levels = {feature.name: feature.finalized for feature in self.features}
        try:
            self.sources: Sources = local_sources(store, options, listeners, levels, self._forget_topic)
        except BaseException:  # a file cannot be read, so the next attempt needs the directory
            store.directory.abandon()
            raise

    def new_replica(self, partition: Partition, log: PartitionLog, on_role: RoleChanged) -> Replica:
        return sole_replica(partition, log, on_role)

    def write_marker(self, own: WriteMarker) -> WriteMarker:
        return own

    def verifier(self, own: Verifier, size_of: Callable[[], int]) -> Verifier:
        return own

    def begin(self, replicas: Replicas, groups: GroupCoordinator) -> Mapping[str, object]:
        self._groups = groups
        roles = LocalRoles(self._broker_id, replicas, self.sources.metadata.image)
        self.sources.metadata.listen(roles.changed)
        return {}

    def end(self) -> None:
        """Do nothing: roles come from the metadata, which is closed next."""

    def abandon(self) -> None:
        self._store.abandon()

    def _forget_topic(self, topic: TopicImage, done: Callable[[], None], now_ms: int) -> None:
        if self._groups is None:
            done()
        else:
            self._groups.forget_topic(topic.name, topic.topic_id, done, now_ms)
