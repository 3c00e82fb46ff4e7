"""What the core of a broker asks of its control plane: of `SingleBroker`, or of `ClusterMember` in a cluster.

Source: `SharedServer`, `KafkaServer` in Apache Kafka, which fill such seats by the mode of the cluster.
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
    """What gives a broker its topics, and its replicas their roles.

    Attributes:
        sources: see `Sources`.
        features: the features that the broker supports.
    """

    sources: Sources
    features: Sequence[Feature]

    def new_replica(self, partition: Partition, log: PartitionLog, on_role: RoleChanged) -> Replica:
        """Return the replica of a partition; see `NewReplica`."""
        ...

    def write_marker(self, own: WriteMarker) -> WriteMarker:
        """Return what writes a marker into any partition.

        Args:
            own: writes a marker into a partition that this broker leads.
        """
        ...

    def verifier(self, own: Verifier, size_of: Callable[[], int]) -> Verifier:
        """Return what asks the coordinator of any transaction.

        Args:
            own: the coordinator of this broker.
            size_of: returns the number of partitions of `__transaction_state`, 0 if it does not exist.
        """
        ...

    def begin(self, replicas: Replicas, groups: GroupCoordinator) -> Mapping[str, object]:
        """Give the replicas their roles from now on, and follow the metadata after what listens already.

        Args:
            replicas: those of the broker; coordinators hear of their roles already.
            groups: forgets the offsets of deleted topics.

        Returns:
            More parts that handlers may name, see `CLUSTER_PARTS`.
        """
        ...

    def end(self) -> None:
        """Change no more roles, and copy no more logs: the logs are closed next."""
        ...

    def abandon(self) -> None:
        """Forget everything, since the logs are closed."""
        ...
