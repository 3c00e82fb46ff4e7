"""In virtual time, the transformer's output has every input value once, in order.

Method: inspect the transformer of a run without faults; the runs in `test_simulation.py` replace and pause it.
"""

from __future__ import annotations

from kafkawire.reference_broker.simulation.simulation import Simulation
from kafkawire.sdk.routing.partitions import TopicPartition


def test_the_output_is_a_copy_of_the_input(calm: Simulation) -> None:
    inputs, outputs = calm.checkers.of_topic("in"), calm.checkers.of_topic("out")
    for number, committed in inputs.items():
        values = [value for _, value in committed.values()]
        assert values == [value for _, value in outputs[number].values(is_committed=True)]


def test_aborted_transactions_are_in_the_output_too(calm: Simulation) -> None:
    outputs = calm.checkers.of_topic("out").values()
    everything = sum(len([*committed.values()]) for committed in outputs)
    assert everything > sum(len([*committed.values(is_committed=True)]) for committed in outputs)


def test_its_offsets_are_the_end_of_the_input(calm: Simulation) -> None:
    assert calm.transformer is not None
    ends = {TopicPartition("in", number): committed.end for number, committed in calm.checkers.of_topic("in").items()}
    assert calm.transformer.offsets == ends
