"""The role of a replica, its transition table, the term that determines it, and the interface of the fetchers.

`Replica` carries out the transitions. Whether a broker leads or follows is decided elsewhere: by a cluster's
controller, or by a single broker's metadata image.

Source: `Partition.makeLeader`, `Partition.makeFollower`, `LeaderAndIsrPartitionState` in Apache Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.states import Edges
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["ROLE_EDGES", "Fetchers", "Role", "Term"]


class Role(Enum):
    """The role of a replica in its partition."""

    #: It has a log, but has not been told who leads.
    CREATED = auto()
    #: It leads: clients and followers read from it, and producers append to it.
    LEADER = auto()
    #: It will lead once its log, which is being truncated, is settled.
    PROMOTING = auto()
    #: Another broker leads.
    FOLLOWER = auto()
    #: It neither leads nor follows: its broker is shutting down, or its topic is about to be deleted.
    STOPPED = auto()
    #: Its log has failed.
    OFFLINE = auto()
    #: It has been deleted from this broker.
    GONE = auto()


_FAILED: Final = {Role.OFFLINE: "its log has failed"}
_ENDS: Final = {**_FAILED, Role.GONE: "it is deleted here"}

#: The steps of a replica.
ROLE_EDGES: Final = Edges(
    "a replica",
    (Role.CREATED,),
    {
        Role.CREATED: {
            Role.LEADER: "it is told to lead",
            Role.PROMOTING: "it is told to lead during a truncation",
            Role.FOLLOWER: "it is told to follow",
            Role.STOPPED: "it is told to stop",
            **_ENDS,
        },
        Role.LEADER: {
            Role.LEADER: "it leads in a later epoch, or its partition changes",
            Role.PROMOTING: "it leads in a later epoch, during a truncation",
            Role.FOLLOWER: "another broker is elected",
            Role.STOPPED: "it is told to stop",
            **_ENDS,
        },
        Role.PROMOTING: {
            Role.LEADER: "its log is settled",
            Role.PROMOTING: "it will lead in a later epoch",
            Role.FOLLOWER: "another broker is elected",
            Role.STOPPED: "it is told to stop",
            **_ENDS,
        },
        Role.FOLLOWER: {
            Role.LEADER: "it is elected",
            Role.PROMOTING: "it is elected during a truncation",
            Role.FOLLOWER: "it follows in a later epoch, or its partition changes",
            Role.STOPPED: "it is told to stop",
            **_ENDS,
        },
        Role.STOPPED: {
            Role.LEADER: "it is told to lead",
            Role.PROMOTING: "it is told to lead during a truncation",
            Role.FOLLOWER: "it is told to follow",
            Role.STOPPED: "it is told to stop again",
            **_ENDS,
        },
        Role.OFFLINE: {Role.GONE: "it is deleted here"},
    },
)


class Term(NamedTuple):
    """The latest state of a hosted partition known to its broker.

    Attributes:
        leader: the id of the broker that leads the partition.
        leader_epoch: incremented whenever a leader is elected.
        isr: the ids of the brokers whose replicas are in sync.
        replicas: the ids of the brokers that host the partition, the preferred leader first.
        partition_epoch: incremented with each change to the partition's state.
        controller_epoch: the epoch of the controller that elected the leader.
        topic_id: the id of the topic; zeros if it has none.
        adding: the ids of the brokers that a reassignment adds.
        removing: the ids of the brokers that a reassignment removes.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int = 0
    controller_epoch: int = 0
    topic_id: bytes = ZERO_UUID
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class Fetchers(Protocol):
    """Copy the logs of the leaders that this broker follows."""

    def follow(self, partition: Partition, leader_id: int, leader_epoch: int) -> None:
        """Fetch a partition from its leader, in place of any previous leader.

        Args:
            partition: its topic and number; its replica is a follower, and a truncation of its log may still be
                running.
            leader_id: the id of the leader's broker, which must be alive.
            leader_epoch: the epoch in which that broker leads.
        """
        ...

    def forget(self, partitions: Collection[Partition]) -> None:
        """Stop fetching partitions: no later fetch adds records to their logs or truncates the logs.

        Args:
            partitions: their topics and numbers; unknown partitions are ignored.
        """
        ...
