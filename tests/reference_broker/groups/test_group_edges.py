"""Groups and members make every transition in their state tables, and no others.

Method: run as many of the random sequences of `consumer_simulation.py` as needed. The state of a consumer group is
derived from other facts, so compare it before and after each operation. States that only a later release writes are
tested in consumer/test_reconciliation.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.reference_broker.coordinators.partition import CoordinatorPartition
from kafkawire.reference_broker.groups.classic.group import CLASSIC_GROUP_EDGES, GroupState
from kafkawire.reference_broker.groups.consumer.group import (
    CONSUMER_GROUP_EDGES,
    MEMBER_EDGES,
    ConsumerGroupState,
    MemberState,
)
from kafkawire.reference_broker.groups.shard import GroupShard
from tests.edges import taken
from tests.reference_broker.groups.consumer_simulation import run

#: Sequence 48 makes the last transition.
SEQUENCES = 60

Taken = tuple[
    set[tuple[GroupState, GroupState]],
    set[tuple[MemberState, MemberState]],
    set[tuple[ConsumerGroupState, ConsumerGroupState]],
]


@pytest.fixture(scope="module")
def steps() -> Taken:
    """Return the transitions of classic groups, members and consumer groups that the sequences make."""
    derived: set[tuple[ConsumerGroupState, ConsumerGroupState]] = set()
    replay = CoordinatorPartition._replay

    def noting(self: CoordinatorPartition[GroupShard], *arguments: Any) -> None:
        before = {id(group): (group, group.state) for group in self.shard.consumer_groups.values()}
        replay(self, *arguments)
        for group in self.shard.consumer_groups.values():
            _, state = before.get(id(group), (group, group.state))
            if state is not group.state:
                derived.add((state, group.state))

    with (
        taken(CLASSIC_GROUP_EDGES) as classic,
        taken(MEMBER_EDGES) as members,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(CoordinatorPartition, "_replay", noting)
        for seed in range(SEQUENCES):
            run(seed)
    return classic, members, derived


def test_classic_groups(steps: Taken) -> None:
    assert steps[0] == set(CLASSIC_GROUP_EDGES)


def test_members(steps: Taken) -> None:
    assert steps[1] == {(before, after) for before, after in MEMBER_EDGES if before is not MemberState.UNKNOWN}


def test_consumer_groups(steps: Taken) -> None:
    assert steps[2] == set(CONSUMER_GROUP_EDGES)
