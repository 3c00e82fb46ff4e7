"""Choosing a partition's leader and in-sync replicas: pure functions, one for each occasion.

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

#: Returns whether the replica on a broker can be used.
IsOnline = Callable[[int], bool]


class Occasion(Enum):
    """Why a leader is elected."""

    #: The leader is gone, or there was none. Replicas that are not in sync may lead if the topic allows it.
    OFFLINE = auto()
    #: Like OFFLINE, but replicas that are not in sync may lead even if the topic does not allow it.
    UNCLEAN = auto()
    #: The leader is not among the partition's new replicas.
    REASSIGNMENT = auto()
    #: The preferred replica should lead.
    PREFERRED = auto()
    #: The leader's broker is shutting down.
    CONTROLLED_SHUTDOWN = auto()


class Elected(NamedTuple):
    """The result of an election.

    Attributes:
        leadership: the leadership to store.
        recipients: the brokers to inform.
    """

    leadership: Leadership
    recipients: tuple[int, ...]


def elect_offline(
    current: Leadership, replicas: Sequence[int], is_online: IsOnline, *, is_unclean_allowed: bool
) -> Elected | None:
    """Elect the first replica that is online and in sync; if there is none, elect the first online one if allowed.

    Args:
        current: the stored leadership.
        replicas: the replicas of the partition, in order of preference.
        is_online: returns whether a replica can be used.
        is_unclean_allowed: whether a replica that is not in sync may lead, which loses records.

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
    """Elect the first target replica that is online and in sync; None if there is none."""
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
        is_online: returns whether a replica can be used, which includes replicas on brokers that are shutting down.
        shutting_down: the brokers that are shutting down. They leave the ISR.

    Returns:
        None if no replica may lead.
    """
    online = tuple(filter(is_online, replicas))
    isr = tuple(broker_id for broker_id in current.isr if broker_id not in shutting_down)
    for broker_id in online:
        if broker_id in isr:
            return Elected(current.led_by(broker_id, isr), online)
    return None
