"""Each administrative operation changes the cluster.

Method: run a cluster with operations but no faults, and inspect its image.
"""

from __future__ import annotations

from kafkawire.reference_broker.simulation.cluster import BROKERS
from kafkawire.reference_broker.simulation.plan import Plan, Step
from kafkawire.reference_broker.simulation.simulation import Simulation, quiet
from kafkawire.sdk.routing.partitions import TopicPartition


def test_topics_are_created_extended_and_deleted_and_partitions_move() -> None:
    steps = (
        Step(400, "create_topic"),
        Step(700, "extend_topic"),
        Step(900, "reassign", (0, 3, 2)),
        Step(1_200, "elect"),
        Step(1_700, "delete_topic"),
        Step(2_200, "create_topic"),
    )
    with quiet() as defects:
        simulation = Simulation(Plan(2, is_synced=False, steps=steps), defects)
        sizes: list[int] = []

        def note() -> None:
            core = simulation.cluster.brokers[1].core
            topic = None if core is None else core.metadata.image.topics.get("other")
            sizes.append(0 if topic is None else len(topic.partitions))

        for time_ms in (650, 1_600, 2_150):
            simulation.cluster.outside.later_us(time_ms * 1_000, note)
        simulation.run()
    assert sizes == [2, 3, 0]
    core = simulation.cluster.brokers[1].core
    assert core is not None
    image = core.metadata.image
    assert {*image.topics["in"].partition(0).replicas} == {2, 3}
    assert len(image.topics["other"].partitions) == 2


def test_records_are_deleted() -> None:
    steps = (Step(1_500, "delete_records", (0, 100)), Step(1_600, "elect_unclean"), Step(1_700, "move_leader", (2, 3)))
    with quiet() as defects:
        simulation = Simulation(Plan(2, is_synced=False, steps=steps), defects)
        simulation.run()
    starts = {simulation.checkers.start_at(broker_id, TopicPartition("out", 0)) for broker_id in BROKERS}
    (start,) = starts
    assert start > 0
    assert simulation.checkers.may_be_deleted(TopicPartition("out", 0), start - 1)
    core = simulation.cluster.brokers[1].core
    assert core is not None
    assert core.metadata.image.topics["out"].partition(0).leader == 3
