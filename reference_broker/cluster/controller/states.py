"""The states of partitions and replicas in the controller, and their transition tables.

`partition_states.py` and `replica_states.py` carry out the transitions, with the writes and requests that these need.

Source: `PartitionState` and `ReplicaState` in Apache Kafka.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from kafkawire.sdk.states import Edges

__all__ = ["PARTITION_EDGES", "REPLICA_EDGES", "PartitionState", "ReplicaState"]


class PartitionState(Enum):
    """The state of a partition."""

    #: The partition has never been created, or is being deleted.
    NON_EXISTENT = auto()
    #: The partition has replicas, but has never had a leader.
    NEW = auto()
    #: The partition has a leader.
    ONLINE = auto()
    #: The partition's leader is gone, and no other replica may lead.
    OFFLINE = auto()


class ReplicaState(Enum):
    """The state of a replica."""

    #: The replica is not assigned, or its deletion has finished.
    NON_EXISTENT = auto()
    #: A reassignment or a new partition has added the replica; it can only follow.
    NEW = auto()
    #: The replica is in use.
    ONLINE = auto()
    #: The replica's broker is gone, or its log directory has failed.
    OFFLINE = auto()
    #: The replica's broker has been told to delete it.
    DELETION_STARTED = auto()
    #: The replica's broker has deleted it.
    DELETION_SUCCESSFUL = auto()
    #: The replica cannot be deleted now: its broker is gone, or failed to delete it.
    DELETION_INELIGIBLE = auto()


#: The transitions of a partition.
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

#: The transitions of a replica.
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
            ReplicaState.ONLINE: "its broker is informed again",
            ReplicaState.OFFLINE: "its broker is gone, or it is removed",
        },
        ReplicaState.OFFLINE: {
            ReplicaState.ONLINE: "its broker has returned",
            ReplicaState.OFFLINE: "it is removed",
            ReplicaState.DELETION_STARTED: "its broker is told to delete it",
            ReplicaState.DELETION_INELIGIBLE: "its topic is deleted while its broker is gone",
        },
        ReplicaState.DELETION_STARTED: {
            ReplicaState.DELETION_SUCCESSFUL: "its broker has deleted it",
            ReplicaState.DELETION_INELIGIBLE: "its broker is gone, or could not delete it",
        },
        ReplicaState.DELETION_SUCCESSFUL: {ReplicaState.NON_EXISTENT: "its topic is deleted, or its move has finished"},
        ReplicaState.DELETION_INELIGIBLE: {
            ReplicaState.ONLINE: "its broker has returned",
            ReplicaState.OFFLINE: "its deletion is retried",
        },
    },
)
