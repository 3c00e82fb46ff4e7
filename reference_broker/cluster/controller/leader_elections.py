"""Who leads a partition, and which replicas are in sync then: pure functions, one for each occasion.

Source: `Election` and `PartitionLeaderElectionAlgorithms` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum, auto
from typing import NamedTuple

from kafkawire.reference_broker.cluster.controller.context import Leadership
from kafkawire.sdk.protocol.tables.enums import LeaderRecoveryState

__all__ = [
    "Elected",
    "Occasion",
    "elect_for_reassignment",
    "elect_for_shutdown",
    "elect_offline",
    "elect_preferred",
]

#: Whether the replica of a broker can be used.
IsOnline = Callable[[int], bool]


class Occasion(Enum):
    """Why a leader is elected."""

    #: The leader is gone, or there was none. Replicas that are not in sync lead if the topic allows it.
    OFFLINE = auto()
    #: The same; replicas that are not in sync lead even if the topic does not allow it.
    UNCLEAN = auto()
    #: The leader is not among the new replicas of its partition.
    REASSIGNMENT = auto()
    #: The preferred replica is to lead.
    PREFERRED = auto()
    #: The broker of the leader is shutting down.
    CONTROLLED_SHUTDOWN = auto()


class Elected(NamedTuple):
    """The result of an election.

    Attributes:
        leadership: what is to be stored.
        recipients: the brokers that are told of it.
    """

    leadership: Leadership
    recipients: tuple[int, ...]


def elect_offline(
    current: Leadership, replicas: Sequence[int], is_online: IsOnline, *, is_unclean_allowed: bool
) -> Elected | None:
    """Elect the first replica that is online and in sync; if there is none and it is allowed, the first online one.

    Args:
        current: the stored leadership.
        replicas: the replicas of the partition, in order of preference.
        is_online: which of them can be used.
        is_unclean_allowed: whether a replica may lead that is not in sync, so that records are lost.

    Returns:
        None if no replica may lead.
    """
    online = tuple(filter(is_online, replicas))
    in_sync = [broker_id for broker_id in online if broker_id in current.isr]
    if in_sync:
        isr = tuple(filter(is_online, current.isr))
        return Elected(current.led_by(in_sync[0], isr), online)
    if is_unclean_allowed and online:
        led = current.led_by(online[0], online[:1])
        return Elected(led._replace(recovery_state=LeaderRecoveryState.RECOVERING), online)
    return None


def elect_for_reassignment(current: Leadership, target: Sequence[int], is_online: IsOnline) -> Elected | None:
    """Elect the first replica of the target that is online and in sync; None if there is none."""
    for broker_id in target:
        if is_online(broker_id) and broker_id in current.isr:
            return Elected(current.led_by(broker_id), tuple(target))
    return None


def elect_preferred(current: Leadership, replicas: Sequence[int], is_online: IsOnline) -> Elected | None:
    """Elect the first replica; None if it is not online and in sync."""
    return elect_for_reassignment(current, replicas[:1], is_online) and Elected(
        current.led_by(replicas[0]), tuple(replicas)
    )


def elect_for_shutdown(
    current: Leadership, replicas: Sequence[int], is_online: IsOnline, shutting_down: Collection[int]
) -> Elected | None:
    """Elect the first replica that is online, in sync and not on a broker that is shutting down.

    Args:
        current: the stored leadership.
        replicas: the replicas of the partition, in order of preference.
        is_online: which of them can be used; those on brokers that are shutting down can.
        shutting_down: these brokers. They leave the ISR.

    Returns:
        None if no replica may lead.
    """
    online = tuple(filter(is_online, replicas))
    isr = tuple(broker_id for broker_id in current.isr if broker_id not in shutting_down)
    for broker_id in online:
        if broker_id in isr:
            return Elected(current.led_by(broker_id, isr), online)
    return None
