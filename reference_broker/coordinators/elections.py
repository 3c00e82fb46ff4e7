"""Coordinator elections: the broker that leads a partition of a coordinator's topic coordinates the partition's keys.

    Replicas ──role──▶ Elections ──elected, resigned──▶ GroupCoordinator, TransactionCoordinator

A coordinator is elected when the replica begins to lead. When the replica stops leading, its coordinator resigns before
operations that wait for the log get an error, so the end of the role is not mistaken for a failure of the log. If a log
does fail, its coordinator ends without an election.

Source: `RequestHandlerHelper.onLeadershipChange`, `BrokerMetadataPublisher.updateCoordinator` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from kafkawire.reference_broker.coordinators.shard import CoordinatorLog
from kafkawire.reference_broker.coordinators.topic_log import TopicLog
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["Electable", "Elections"]

#: The roles in which a broker does not coordinate. A leader that is promoted again keeps its coordinator: no other
#: broker has written to its log.
_RESIGNED: Final = frozenset({Role.FOLLOWER, Role.STOPPED})


class Electable(Protocol):
    """A coordinator."""

    @property
    def topic(self) -> str:
        """The name of the coordinator's topic."""
        ...

    def elected(self, number: int, log: CoordinatorLog, leader_epoch: int, now_ms: int) -> None:
        """Serve a partition; see `CoordinatorRuntime.elected`."""

    def resigned(self, number: int, epoch: int | None = None) -> None:
        """Stop serving a partition; see `CoordinatorRuntime.resigned`."""


class Elections:
    """The elections of a broker's coordinators.

    Args:
        coordinators: the coordinators, each with its own topic.
        clock: returns the time in milliseconds.
    """

    def __init__(self, coordinators: Iterable[Electable], clock: Callable[[], int]) -> None:
        self._coordinators = {coordinator.topic: coordinator for coordinator in coordinators}
        self._clock = clock

    def changed(self, partition: Partition, replica: Replica, before: Role) -> None:
        """Handle a change in a replica's role; see `RoleListener`."""
        topic, number = partition
        coordinator = self._coordinators.get(topic)
        if coordinator is None:
            return
        if replica.role is Role.LEADER:
            coordinator.elected(number, TopicLog(replica), replica.leader_epoch, self._clock())
        elif replica.role is Role.GONE:
            coordinator.resigned(number)
        elif replica.role in _RESIGNED:
            coordinator.resigned(number, replica.leader_epoch)
