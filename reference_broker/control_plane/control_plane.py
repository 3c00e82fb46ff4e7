"""The interface between a broker's core and its control plane: `SingleBroker`, or `ClusterMember` in a cluster.

Source: `SharedServer`, `KafkaServer` in Apache Kafka, which provide the corresponding parts for each cluster mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kafkawire.reference_broker.config.features import Feature
from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.metadata.sources import Sources
from kafkawire.reference_broker.replicas.replica import Replica, RoleChanged
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.transactions.markers import WriteMarker
from kafkawire.reference_broker.transactions.transaction_verification import Verifier
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["ControlPlane"]


class ControlPlane(Protocol):
    """Provides a broker's topics, and assigns the roles of its replicas.

    Attributes:
        sources: see `Sources`.
        features: the features that the broker supports.
        static_configs: configurations given at startup that are not options of every broker, by Kafka's names.
    """

    sources: Sources
    features: Sequence[Feature]
    static_configs: Mapping[str, str]

    def new_replica(self, partition: Partition, log: PartitionLog, on_role: RoleChanged) -> Replica:
        """Return the replica of a partition; see `NewReplica`."""
        ...

    def write_marker(self, own: WriteMarker) -> WriteMarker:
        """Return a function that writes a marker into any partition.

        Args:
            own: writes a marker into a partition that this broker leads.
        """
        ...

    def verifier(self, own: Verifier, size_of: Callable[[], int]) -> Verifier:
        """Return a function that asks the coordinator of any transaction.

        Args:
            own: the coordinator on this broker.
            size_of: returns the number of partitions in `__transaction_state`, or 0 if that topic does not exist.
        """
        ...

    def begin(self, replicas: Replicas, groups: GroupCoordinator) -> Mapping[str, object]:
        """Assign roles to the replicas from now on; existing listeners are told of metadata changes first.

        Args:
            replicas: the broker's replicas; coordinators already listen to their roles.
            groups: forgets the offsets of deleted topics.

        Returns:
            Additional parts that handlers may name; see `CLUSTER_PARTS`.
        """
        ...

    def end(self) -> None:
        """Stop changing roles and copying logs, since the logs are closed next."""
        ...

    def abandon(self) -> None:
        """Drop everything, since the logs are closed."""
        ...
