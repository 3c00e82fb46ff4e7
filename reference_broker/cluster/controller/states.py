"""The states of partitions and replicas in a controller, and their tables of edges.

`partition_states.py` and `replica_states.py` take the steps, and write and send what each of them needs.

Source: `PartitionState` and `ReplicaState` in Apache Kafka.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from kafkawire.sdk.states import Edges

__all__ = ["PARTITION_EDGES", "REPLICA_EDGES", "PartitionState", "ReplicaState"]


class PartitionState(Enum):
    """The state of a partition."""

    #: It was never created, or it is being deleted.
    NON_EXISTENT = auto()
    #: It has replicas, but never had a leader.
    NEW = auto()
    #: It has a leader.
    ONLINE = auto()
    #: Its leader is gone, and no other replica may lead.
    OFFLINE = auto()


class ReplicaState(Enum):
    """The state of a replica."""

    #: It is not assigned, or its deletion is finished.
    NON_EXISTENT = auto()
    #: A reassignment or a new partition added it; it can only follow.
    NEW = auto()
    #: It is in use.
    ONLINE = auto()
    #: Its broker is gone, or its log directory has failed.
    OFFLINE = auto()
    #: Its broker was told to delete it.
    DELETION_STARTED = auto()
    #: Its broker has deleted it.
    DELETION_SUCCESSFUL = auto()
    #: It cannot be deleted now: its broker is gone, or could not do it.
    DELETION_INELIGIBLE = auto()


#: The steps of a partition.
PARTITION_EDGES: Final = Edges(
    "a partition in the controller",
    (PartitionState.NON_EXISTENT, PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE),
    {
        PartitionState.NON_EXISTENT: {PartitionState.NEW: "the topic or the partition was created"},
        PartitionState.NEW: {
            PartitionState.ONLINE: "its first leader is stored",
            PartitionState.OFFLINE: "its topic is deleted",
        },
        PartitionState.ONLINE: {
            PartitionState.ONLINE: "another leader is elected",
            PartitionState.OFFLINE: "its leader is gone, or its topic is deleted",
        },
        PartitionState.OFFLINE: {
            PartitionState.ONLINE: "a leader is elected",
            PartitionState.OFFLINE: "it is still without a leader",
            PartitionState.NON_EXISTENT: "its topic is deleted",
        },
    },
)

#: The steps of a replica.
REPLICA_EDGES: Final = Edges(
    "a replica in the controller",
    (ReplicaState.NON_EXISTENT, ReplicaState.ONLINE, ReplicaState.DELETION_INELIGIBLE),
    {
        ReplicaState.NON_EXISTENT: {ReplicaState.NEW: "it was assigned"},
        ReplicaState.NEW: {
            ReplicaState.ONLINE: "its partition is online, or it is in sync",
            ReplicaState.OFFLINE: "its broker is gone, or it is removed",
        },
        ReplicaState.ONLINE: {
            ReplicaState.ONLINE: "its broker is told again",
            ReplicaState.OFFLINE: "its broker is gone, or it is removed",
        },
        ReplicaState.OFFLINE: {
            ReplicaState.ONLINE: "its broker is back",
            ReplicaState.OFFLINE: "it is removed",
            ReplicaState.DELETION_STARTED: "its broker is told to delete it",
            ReplicaState.DELETION_INELIGIBLE: "its topic is deleted while its broker is gone",
        },
        ReplicaState.DELETION_STARTED: {
            ReplicaState.DELETION_SUCCESSFUL: "its broker has deleted it",
            ReplicaState.DELETION_INELIGIBLE: "its broker is gone, or could not delete it",
        },
        ReplicaState.DELETION_SUCCESSFUL: {ReplicaState.NON_EXISTENT: "its topic is deleted, or its move is over"},
        ReplicaState.DELETION_INELIGIBLE: {
            ReplicaState.ONLINE: "its broker is back",
            ReplicaState.OFFLINE: "its deletion is tried again",
        },
    },
)
