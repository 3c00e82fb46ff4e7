"""Elections choose the same leader, ISR and recipients as Apache Kafka.

Method: run tables of cases, each of which raises the leader epoch by one.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.controller.context import Leadership
from kafkawire.reference_broker.cluster.controller.leader_elections import (
    Elected,
    elect_for_reassignment,
    elect_for_shutdown,
    elect_offline,
    elect_preferred,
)

Ids = tuple[int, ...]


def current(leader: int, isr: Ids) -> Leadership:
    return Leadership(leader, isr, 5, 0, 7, 3)


def led(leader: int, isr: Ids, recovery_state: int = 0) -> Leadership:
    return Leadership(leader, isr, 6, recovery_state, 7, 3)


#: ISR, replicas, online replicas, whether unclean elections are allowed; leader, ISR, recovery state, recipients.
OFFLINE = [
    ((1, 2), (1, 2, 3), (2, 3), False, (2, (2,), 0, (2, 3))),
    ((2, 1), (1, 2), (1, 2), False, (1, (2, 1), 0, (1, 2))),
    ((1,), (1, 2, 3), (2, 3), False, None),
    ((1,), (1, 2, 3), (3, 2), True, (2, (2,), 1, (2, 3))),
    ((1, 3), (1, 2, 3), (2, 3), True, (3, (3,), 0, (2, 3))),
    ((1,), (1, 2), (), True, None),
]


@pytest.mark.parametrize(("isr", "replicas", "online", "unclean", "result"), OFFLINE)
def test_a_partition_without_a_leader(
    isr: Ids, replicas: Ids, online: Ids, unclean: bool, result: tuple[int, Ids, int, Ids] | None
) -> None:
    elected = elect_offline(current(-1, isr), replicas, online.__contains__, is_unclean_allowed=unclean)
    assert elected == (result and Elected(led(*result[:3]), result[3]))


#: ISR, target, online replicas; leader.
REASSIGNMENT = [
    ((1, 2, 3), (3, 2), (1, 2, 3), 3),
    ((1, 2), (3, 2), (1, 2, 3), 2),
    ((1, 2, 3), (3, 2), (1, 2), 2),
    ((1,), (3, 2), (1, 2, 3), None),
]


@pytest.mark.parametrize(("isr", "target", "online", "leader"), REASSIGNMENT)
def test_a_partition_that_moves(isr: Ids, target: Ids, online: Ids, leader: int | None) -> None:
    elected = elect_for_reassignment(current(1, isr), target, online.__contains__)
    assert elected == (None if leader is None else Elected(led(leader, isr), target))


#: ISR, replicas, online replicas; whether the first replica is elected.
PREFERRED = [
    ((1, 2), (1, 2), (1, 2), True),
    ((2,), (1, 2), (1, 2), False),
    ((1, 2), (1, 2), (2,), False),
    ((1, 2), (), (1, 2), False),
]


@pytest.mark.parametrize(("isr", "replicas", "online", "is_elected"), PREFERRED)
def test_the_preferred_leader(isr: Ids, replicas: Ids, online: Ids, is_elected: bool) -> None:
    elected = elect_preferred(current(2, isr), replicas, online.__contains__)
    assert elected == (Elected(led(1, isr), replicas) if is_elected else None)


#: ISR, replicas, online replicas, brokers shutting down; leader, ISR, recipients.
SHUTDOWN = [
    ((1, 2, 3), (1, 2, 3), (1, 2, 3), (1,), (2, (2, 3), (1, 2, 3))),
    ((1, 3), (1, 2, 3), (1, 2, 3), (1,), (3, (3,), (1, 2, 3))),
    ((1,), (1, 2, 3), (1, 2, 3), (1,), None),
    ((1, 2, 3), (1, 2, 3), (1, 3), (1, 3), None),
]


@pytest.mark.parametrize(("isr", "replicas", "online", "leaving", "result"), SHUTDOWN)
def test_a_leader_that_shuts_down(
    isr: Ids, replicas: Ids, online: Ids, leaving: Ids, result: tuple[int, Ids, Ids] | None
) -> None:
    elected = elect_for_shutdown(current(1, isr), replicas, online.__contains__, leaving)
    assert elected == (result and Elected(led(*result[:2]), result[2]))
