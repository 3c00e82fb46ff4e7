"""The transition tables match Apache Kafka's: `validPreviousStates` of each `PartitionState` and `ReplicaState`."""

from __future__ import annotations

from kafkawire.reference_broker.cluster.controller.states import (
    PARTITION_EDGES,
    REPLICA_EDGES,
    PartitionState,
    ReplicaState,
)

#: The states that may precede each state.
PARTITIONS = {
    "NEW": {"NON_EXISTENT"},
    "ONLINE": {"NEW", "ONLINE", "OFFLINE"},
    "OFFLINE": {"NEW", "ONLINE", "OFFLINE"},
    "NON_EXISTENT": {"OFFLINE"},
}
REPLICAS = {
    "NEW": {"NON_EXISTENT"},
    "ONLINE": {"NEW", "ONLINE", "OFFLINE", "DELETION_INELIGIBLE"},
    "OFFLINE": {"NEW", "ONLINE", "OFFLINE", "DELETION_INELIGIBLE"},
    "DELETION_STARTED": {"OFFLINE"},
    "DELETION_SUCCESSFUL": {"DELETION_STARTED"},
    "DELETION_INELIGIBLE": {"OFFLINE", "DELETION_STARTED"},
    "NON_EXISTENT": {"DELETION_SUCCESSFUL"},
}


def test_partitions_take_the_steps_of_kafka() -> None:
    assert set(PARTITIONS) == {state.name for state in PartitionState}
    edges = {(before.name, after.name) for before, after in PARTITION_EDGES}
    assert edges == {(before, after) for after, befores in PARTITIONS.items() for before in befores}


def test_replicas_take_the_steps_of_kafka() -> None:
    assert set(REPLICAS) == {state.name for state in ReplicaState}
    edges = {(before.name, after.name) for before, after in REPLICA_EDGES}
    assert edges == {(before, after) for after, befores in REPLICAS.items() for before in befores}
