"""Members of a group in virtual time: they share out all partitions, commit offsets, and replace each other.

Method: inspect the members of a run without faults, and of a run in which a member is killed.
"""

from __future__ import annotations

from kafkawire.reference_broker.simulation.plan import Plan, Step
from kafkawire.reference_broker.simulation.simulation import Simulation, quiet
from kafkawire.sdk.routing.partitions import TopicPartition


def test_the_members_of_a_run_own_all_partitions(calm: Simulation) -> None:
    owned = [partition for member in calm.members for partition in member.partitions]
    assert sorted(owned) == [TopicPartition(topic, number) for topic in ("in", "out") for number in range(2)]
    assert {member.generation for member in calm.members} == {calm.group.generation}
    assert all(member.partitions for member in calm.members)


def test_a_killed_member_is_replaced() -> None:
    with quiet() as defects:
        simulation = Simulation(Plan(1, is_synced=False, steps=(Step(900, "kill_member"),)), defects)
        simulation.run()
    names = [member.client.name for member in simulation.members]
    assert "m1" not in names
    assert "m3" in names
    assert simulation.group.generation > 1
    assert all(simulation.group.next_offset(partition) > 1 for partition in simulation.group.partitions)
